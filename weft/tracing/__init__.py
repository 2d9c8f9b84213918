"""Tensors that are being traced, what becomes of them, and control flow as functions."""
