"""The importers of ONNX operators, by family."""
