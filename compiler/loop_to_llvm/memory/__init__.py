"""Accesses to memory: what is accessed, by which lanes, and with which instructions."""
