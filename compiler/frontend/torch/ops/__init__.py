"""The ATen operators, a file for each family."""
