"""Strings of ONNX models, which become numbers, and maps, which become rows."""
