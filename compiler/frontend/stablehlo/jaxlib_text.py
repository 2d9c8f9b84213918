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

_SHARDING: Final = "sdy.sharding"


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
    """The text of a module of jaxlib, and the constants that it leaves out."""
    ir: Any = import_module("jaxlib.mlir.ir")
    arrays: list[Array] = []

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.constant":
            array = _complex_array(op) if "complex<" in str(op.results[0].type) else _array(op)
            if array is not None:
                arrays.append(array)
        return ir.WalkResult.ADVANCE

    _drop_shardings(module)
    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    text = module.operation.get_asm(large_elements_limit=MOST_WRITTEN, enable_debug_info=False)
    return text, arrays


def _drop_shardings(module: Any) -> None:
    """Erases what says how tensors lie on devices, which JAX says even of one device."""
    ir: Any = import_module("jaxlib.mlir.ir")
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in ("sdy.mesh", "sdy.sharding_constraint"):
            found.append(op)
        if _SHARDING in op.attributes:
            del op.attributes[_SHARDING]
        for name in ("arg_attrs", "res_attrs"):
            if name in op.attributes:
                dictionaries = [_without_sharding(each) for each in op.attributes[name]]
                op.attributes[name] = ir.ArrayAttr.get(dictionaries)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        for result, operand in zip(op.results, op.operands, strict=True):
            result.replace_all_uses_with(operand)
        op.erase()


def _without_sharding(dictionary: Any) -> Any:
    ir: Any = import_module("jaxlib.mlir.ir")
    kept = {each.name: each.attr for each in dictionary if each.name != _SHARDING}
    return ir.DictAttr.get(kept)


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
