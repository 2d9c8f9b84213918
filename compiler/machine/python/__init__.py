"""A compiled model in this process, called from Python."""
