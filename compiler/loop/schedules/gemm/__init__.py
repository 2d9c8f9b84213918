"""Products of matrices, and convolutions as such: tiles in registers, packed panels, split sums."""
