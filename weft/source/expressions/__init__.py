"""Expressions of programs that source mode reads."""
