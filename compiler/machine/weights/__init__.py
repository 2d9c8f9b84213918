"""Weights: packed as kernels read them, stored inside an artifact, beside it or in the cache."""
