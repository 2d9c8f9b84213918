"""What other ecosystems call weft by."""
