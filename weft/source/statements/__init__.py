"""Statements of programs that source mode reads."""
