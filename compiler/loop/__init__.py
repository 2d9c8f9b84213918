"""loop -> loop: the primitives that rewrite kernels, and the schedules made of them."""
