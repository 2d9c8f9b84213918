"""What programs that source mode reads call, and what they define."""
