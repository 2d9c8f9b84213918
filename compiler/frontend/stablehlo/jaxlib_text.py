"""Modules of jaxlib, and portable bytecode, as text and arrays: large constants are never text."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from weft.compiler.deferred import deferred
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.compiler.frontend.stablehlo import text as hlo_text
    from weft.compiler.frontend.stablehlo import types
else:  # what a program out of the cache does without
    hlo_text = deferred("weft.compiler.frontend.stablehlo.text")
    types = deferred("weft.compiler.frontend.stablehlo.types")

MOST_WRITTEN: Final = 64
"""Constants up to this many elements are part of the text."""

_SMALL: Final = 1 << 16
"""Bytes of an artifact below which it shares a context with others: one keeps constants for good.
"""

_NOTES: Final = (
    "sdy.sharding",
    "mhlo.num_partitions",
    "mhlo.num_replicas",
    "jax.result_info",
)
"""Attributes that nothing here depends on."""


def read_bytecode(data: bytes, name: str) -> tuple[str, list[Array]]:
    """The text of a portable artifact, and the constants that it leaves out in their order.

    Raises UnsupportedError where jaxlib is not installed, and ModelError for what is none.
    """
    try:
        stablehlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
        context = _common_context() if len(data) < _SMALL else _new_context()
    except ImportError as problem:
        rule = "requires text, or jaxlib to read portable bytecode with"
        raise UnsupportedError(f"{name} {rule} (pip install 'weft[jax]'), got none") from problem
    with context:
        try:
            module: Any = stablehlo.deserialize_portable_artifact(context, data)
        except Exception as problem:
            raise ModelError(f"{name} requires a portable artifact, got {problem}") from problem
        return text_of(module)


def _new_context() -> Any:
    """A context of MLIR that knows what portable artifacts are made of."""
    ir: Any = import_module("jaxlib.mlir.ir")
    context = ir.Context()
    import_module("jaxlib.mlir.dialects.func")
    for name in ("chlo", "sdy", "stablehlo"):
        dialect: Any = import_module(f"jaxlib.mlir.dialects.{name}")
        dialect.register_dialect(context)
    return context


@cache
def _common_context() -> Any:
    """The context of small artifacts, which are read in a quarter of the time where it is there."""
    return _new_context()


def text_of(module: Any) -> tuple[str, list[Array]]:
    """The text of a module of jaxlib, and the constants that it leaves out. What JAX notes of
    devices and of the names of results, which no importer reads, goes from the module.
    """
    ir: Any = import_module("jaxlib.mlir.ir")
    arrays: list[Array] = []
    shardings: list[Any] = []

    def visit(op: Any) -> Any:
        name = op.name
        if name == "stablehlo.constant":
            array = _complex_array(op) if "complex<" in str(op.results[0].type) else _array(op)
            if array is not None:
                arrays.append(array)
        elif name in ("sdy.mesh", "sdy.sharding_constraint"):
            shardings.append(op)
        else:
            _drop_notes(op)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in shardings:
        for result, operand in zip(op.results, op.operands, strict=True):
            result.replace_all_uses_with(operand)
        op.erase()
    text = module.operation.get_asm(large_elements_limit=MOST_WRITTEN, enable_debug_info=False)
    return text, arrays


def _drop_notes(op: Any) -> None:
    """Erases what says how tensors lie on devices, which JAX says even of one device."""
    ir: Any = import_module("jaxlib.mlir.ir")
    attributes = op.attributes
    for name in _NOTES:
        if name in attributes:
            del attributes[name]
    for name in ("arg_attrs", "res_attrs"):
        if name in attributes:
            kept = [_without_notes(each) for each in attributes[name]]
            if any(kept):
                attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in kept])
            else:
                del attributes[name]


def _without_notes(dictionary: Any) -> dict[str, Any]:
    return {each.name: each.attr for each in dictionary if each.name not in _NOTES}


def _array(op: Any) -> Array | None:
    """A copy of a constant's elements where the text leaves them out."""
    ir: Any = import_module("jaxlib.mlir.ir")
    elements: Any = ir.DenseElementsAttr(op.attributes["value"])
    if elements.is_splat or len(elements) <= MOST_WRITTEN:
        return None
    if str(elements.type.element_type) == "bf16":
        raw = np.array(elements).view(np.uint16)
        return raw.view(ml_dtypes.bfloat16)
    return np.array(elements)


def _complex_array(op: Any) -> Array | None:
    """The same for complex numbers, whose elements jaxlib shows as text alone."""
    text = str(op.get_asm(enable_debug_info=False))
    (constant,) = hlo_text.HloParser(text, "constant").parse_module().body.block.ops
    value, written = constant.properties["value"], types.declared(constant.results[0].type)
    if "dense<(" in text or prod(written.static) <= MOST_WRITTEN:
        return None
    return types.constant_array(value, written)
