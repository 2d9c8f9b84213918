"""A compiled model as files: artifacts, their metadata, and the cache."""
