"""Measuring: engines in processes of their own that take turns, limits of the machine, kernels."""
