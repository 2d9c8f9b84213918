"""ONNX's operators of classical machine learning, domain ai.onnx.ml, by family."""
