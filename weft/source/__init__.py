"""Python source -> graph: a function's statements, run on tensors without values."""
