"""Operators with regions, and calls."""
