"""Quantised tensors, which the graph has as their integers: operators are computed in floats, on
what the integers stand for, and their results quantised, as StableHLO specifies it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.compiler.frontend.stablehlo.types import Declared, declared, quantization
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import I32, UNSIGNED, TensorType, tensor
from weft.dialects.loop.scalar import width
from weft.dialects.stablehlo.quantized import Quantization


def dequantized(node: Node, x: Term, given: Quantization) -> Term:
    """What integers stand for."""
    stored = x.cast(I32) if width(given.storage) < 32 else x
    zero_point = _parameter(node, given, given.zero_points, stored.type)
    scale = _parameter(node, given, given.scales, tensor(x.shape, given.expressed))
    return (stored - zero_point).cast(given.expressed) * scale


def quantized(node: Node, x: Term, given: Quantization) -> Term:
    """The integers that stand for floats: rounded to even, kept in the range of the type."""
    low, high = given.limits or integer_limits(given.storage)
    floats = x.cast(given.expressed)
    scale, zero_point = (
        _parameter(node, given, each, floats.type) for each in (given.scales, given.zero_points)
    )
    moved = floats / scale + zero_point
    return moved.maximum(float(low)).minimum(float(high)).math("round").cast(given.storage)


def integer_limits(element: Attribute) -> tuple[int, int]:
    """The least and the greatest number of a type of integers."""
    size = width(element)
    if element in UNSIGNED:
        return 0, (1 << size) - 1
    return -(1 << (size - 1)), (1 << (size - 1)) - 1


def _parameter(
    node: Node, given: Quantization, values: Sequence[float], operand: TensorType
) -> Term:
    """Scales or zero points as what broadcasts against an operand of this type."""
    if given.axis is None:
        return node.number(values[0], operand.element)
    lengths = [len(values) if at == given.axis else 1 for at in range(len(operand.shape))]
    array = np.array(values, numpy_dtype(operand.element)).reshape(lengths)
    return node.stored(array, "quantization")


class FloatNode(Node):
    """A node whose operands and results are what the quantised ones stand for."""

    @property
    def results(self) -> list[Declared]:
        """The types of the results in floats."""
        found: list[Declared] = []
        for result in self.op.results:
            given = quantization(result.type)
            written = declared(result.type)
            element = written.element if given is None else given.expressed
            found.append(Declared(written.shape, element))
        return found


def in_floats(importer: HloImporter) -> HloImporter:
    """The operator on dequantised operands, its results quantised."""

    def build(node: Node) -> Sequence[Term]:
        if node.op.regions:
            raise UnsupportedError("requires an operator without a body for quantised types")
        given = [quantization(each.type) for each in node.op.operands]
        operands = [
            term if each is None else dequantized(node, term, each)
            for term, each in zip(node.operands, given, strict=True)
        ]
        found = importer(FloatNode(node.scope, node.op, node.b, operands, node.elementwise))
        wanted = [quantization(each.type) for each in node.op.results]
        return [
            term if each is None else quantized(node, term, each)
            for term, each in zip(found, wanted, strict=True)
        ]

    return build


def same(node: Node) -> Sequence[Term]:
    """The operand itself: what is left of a conversion once operands and results are floats."""
    return [node.only]


QUANTIZED = {"uniform_dequantize": same, "uniform_quantize": same}
"""By the name in StableHLO."""

MOVING = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert", "broadcast_in_dim", "concatenate", "gather", "pad", "reshape", "reverse",
        "slice", "transpose",
    )
)  # fmt: skip
"""Operators that move the integers where operands and results are quantised alike."""


def moves(node_types: Sequence[Quantization | None]) -> bool:
    """Whether all quantised types are one."""
    return len({str(each) for each in node_types if each is not None}) == 1
