"""Derivatives of functions, on tensors with values and on tensors that are being traced."""
