"""graph -> graph: one pass a file."""
