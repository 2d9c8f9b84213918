"""Operators that compute."""
