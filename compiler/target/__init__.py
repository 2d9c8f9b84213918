"""What the code is generated for."""
