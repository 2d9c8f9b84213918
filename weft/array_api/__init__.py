"""The parts of `weft.numpy` and of NumPy's own protocols that know the types of tensors."""
