"""Operators of StableHLO and CHLO, as operators of the graph level."""
