"""Operators on one sample become operators on a batch of samples."""
