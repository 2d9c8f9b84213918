"""Eager mode: every operator runs at once, as a kernel that is compiled once for all sizes."""
