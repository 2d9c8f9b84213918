"""ELF: objects read, linked and written."""
