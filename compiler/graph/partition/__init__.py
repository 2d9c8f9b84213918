"""graph -> graph: a program for whole tensors becomes that of one rank of a mesh."""
