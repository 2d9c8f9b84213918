"""Reverse-mode differentiation."""
