"""The array protocol, its methods, and functions of arrays that are written against it."""
