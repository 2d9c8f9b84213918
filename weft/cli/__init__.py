"""The command line: `weft` (compile, run, inspect, demo) and `weft-opt`, which runs passes."""
