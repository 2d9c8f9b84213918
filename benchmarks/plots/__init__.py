"""Recorded results as SVG: `python -m benchmarks.report --plots` writes them to docs/plots."""
