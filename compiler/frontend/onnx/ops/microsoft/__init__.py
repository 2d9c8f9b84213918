"""Operators of onnxruntime's own domains, which its optimisers and quantisers write."""
