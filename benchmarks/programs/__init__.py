"""Short programs as people write them for NumPy, for `python -m benchmarks.programs`."""
