"""Modules of jaxlib, and portable bytecode, as text and arrays: large constants are never text."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.weights import Array

MOST_WRITTEN: Final = 64
"""Constants up to this many elements are part of the text."""


def read_bytecode(data: bytes, name: str) -> tuple[str, list[Array]]:
    """The text of a portable artifact, and the constants that it leaves out in their order.

    Raises UnsupportedError where jaxlib is not installed, and ModelError for what is none.
    """
    try:
        ir: Any = import_module("jaxlib.mlir.ir")
        chlo, stablehlo = (
            cast("Any", import_module(f"jaxlib.mlir.dialects.{name}"))
            for name in ("chlo", "stablehlo")
        )
        import_module("jaxlib.mlir.dialects.func")
    except ImportError as problem:
        rule = "requires text, or jaxlib to read portable bytecode with"
        raise UnsupportedError(f"{name} {rule} (pip install 'weft[jax]'), got none") from problem
    with ir.Context() as context:
        for dialect in (chlo, stablehlo):
            dialect.register_dialect(context)
        try:
            module: Any = stablehlo.deserialize_portable_artifact(context, data)
        except Exception as problem:
            raise ModelError(f"{name} requires a portable artifact, got {problem}") from problem
        return text_of(module)


def text_of(module: Any) -> tuple[str, list[Array]]:
    """The text of a module of jaxlib, and the constants that it leaves out."""
    ir: Any = import_module("jaxlib.mlir.ir")
    arrays: list[Array] = []

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.constant":
            value: Any = op.attributes["value"]
            elements: Any = ir.DenseElementsAttr(value)
            if not elements.is_splat and len(elements) > MOST_WRITTEN:
                arrays.append(_array(elements))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    text = module.operation.get_asm(large_elements_limit=MOST_WRITTEN, enable_debug_info=False)
    return text, arrays


def _array(elements: Any) -> Array:
    """A copy of a constant's elements."""
    element = str(elements.type.element_type)
    if element == "bf16":
        raw = np.array(elements).view(np.uint16)
        return raw.view(ml_dtypes.bfloat16)
    return np.array(elements)
