"""GEMM, and convolutions as such: register tiles, packed panels, split-K, GEMV."""
