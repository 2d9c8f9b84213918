"""ONNX -> graph."""
