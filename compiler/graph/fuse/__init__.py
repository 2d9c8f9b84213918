"""Operators that one kernel computes."""
