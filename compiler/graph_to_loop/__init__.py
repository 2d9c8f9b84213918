"""graph -> loop: each group of operators becomes a kernel, the graph a program that calls them."""
