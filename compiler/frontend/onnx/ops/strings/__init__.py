"""Operators that look at the strings of a call."""
