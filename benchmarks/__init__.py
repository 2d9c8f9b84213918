"""Benchmarks, outside pytest: `python -m benchmarks.run`."""
