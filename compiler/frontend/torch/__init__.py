"""PyTorch's operators as graph operators, and the reader of `.pt2` files; without torch."""
