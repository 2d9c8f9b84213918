"""ONNX elementwise operators of many operands, or of operands of several types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.dialects.graph.core.types import FLOATS, type_of


def import_identity(node: OnnxNode) -> Sequence[SSAValue]:
    """The operand itself."""
    return [node.operand(0)]


def import_variadic(name: str, node: OnnxNode) -> Sequence[SSAValue]:
    """A binary operator from the left to the right; one operand is the result."""
    result = node.operand(0)
    for other in node.present()[1:]:
        result = node.b.op(name, result, other).results[0]
    return [result]


def import_clip(node: OnnxNode) -> Sequence[SSAValue]:
    """Bounds that are scalars, or vectors of one element."""
    bounds = [node.optional(position) for position in (1, 2)]
    scalars = [None if bound is None else node.reshape(bound, []) for bound in bounds]
    return [node.b.clip(node.operand(0), *scalars)]


def import_mean(node: OnnxNode) -> Sequence[SSAValue]:
    """The sum of the operands over their number."""
    (total,) = import_variadic("add", node)
    count = node.scalar(len(node.present()), type_of(total).element)
    return [node.b.div(total, count)]


def import_pow(node: OnnxNode) -> Sequence[SSAValue]:
    """A power in the base's element type; integers to a float power are computed as floats."""
    base, exponent = node.operand(0), node.operand(1)
    element, other = node.type(0).element, node.type(1).element
    if element not in FLOATS and other in FLOATS:
        return [node.cast(node.b.pow(node.cast(base, other), exponent), element)]
    return [node.b.pow(base, node.cast(exponent, element))]


IMPORTERS: dict[str, Importer] = {
    "Clip": import_clip,
    "Identity": import_identity,
    "Max": partial(import_variadic, "max"),
    "Mean": import_mean,
    "Min": partial(import_variadic, "min"),
    "Pow": import_pow,
    "Sum": partial(import_variadic, "add"),
}
