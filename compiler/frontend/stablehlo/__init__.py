"""StableHLO and CHLO -> graph."""
