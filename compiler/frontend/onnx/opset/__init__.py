"""ONNX opsets 7 and up -> one opset, functions inlined."""

from weft.compiler.frontend.onnx.opset.builder import FreshNames
from weft.compiler.frontend.onnx.opset.normalise import (
    expand_function_op,
    fresh_names,
    newest_opset,
    normalise,
)

__all__ = ["FreshNames", "expand_function_op", "fresh_names", "newest_opset", "normalise"]
