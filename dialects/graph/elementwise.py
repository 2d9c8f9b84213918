"""Elementwise operators: what they share. The result at an index depends on the operands at that index alone.

Operands are broadcast as in NumPy. A subclass gives `compute` on scalars and `reference` on arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from dialects.graph.broadcast import broadcast_index, broadcast_shapes
from dialects.graph.builder import GraphBuilder
from dialects.graph.op import GraphOp
from dialects.graph.types import FLOATS, NUMBERS, TensorType, tensor, type_of
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import Scalar


class ElementwiseOp(GraphOp):
    """One result whose elements are computed from the operands' at the same (broadcast) index."""

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = NUMBERS
    """The element types that operands may have."""

    @abstractmethod
    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        """One element of the result from one of each operand."""

    def result_element(self) -> Attribute:
        """The element type of the result; that of the operands unless a subclass says otherwise."""
        return self.tensor_types()[-1].element

    def check_elements(self) -> None:
        """Operands have one element type, out of `ELEMENTS`."""
        elements = list(dict.fromkeys(kind.element for kind in self.tensor_types()))
        listed = " and ".join(str(element) for element in elements)
        self.require(len(elements) == 1, "operands of one element type", listed)
        self.require(elements[0] in self.ELEMENTS, f"an element type out of {_names(self.ELEMENTS)}", listed)

    def infer(self) -> Sequence[TensorType]:
        self.check_elements()
        kinds = self.tensor_types()
        if not all(kind.has_rank for kind in kinds):
            return [tensor(None, self.result_element())]
        shape = broadcast_shapes(self.name, [kind.shape for kind in kinds])
        return [tensor(shape, self.result_element())]

    def lower(self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
        shapes = [kind.shape for kind in self.tensor_types()]
        with b.loops(self.result_type.shape) as index:
            values = [
                b.load(operand, broadcast_index(index, shape))
                for operand, shape in zip(operands, shapes, strict=True)
            ]
            b.store(results[0], index, self.compute(b, *values))


class UnaryOp(ElementwiseOp):
    """One operand, one result of the same type."""

    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)


class FloatUnaryOp(UnaryOp):
    """A function of floats by its name in the math dialect."""

    ELEMENTS: ClassVar = FLOATS
    FUNCTION: ClassVar[str]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].math(self.FUNCTION)


class BinaryOp(ElementwiseOp):
    """Two operands of one element type, broadcast against each other."""

    lhs: SSAValue = operand_def(TensorType)
    rhs: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)


def sum_to(b: GraphBuilder, cotangent: SSAValue, operand: SSAValue) -> SSAValue:
    """The cotangent summed over the axes along which the operand was broadcast."""
    source, target = type_of(operand), type_of(cotangent)
    if source.dims == target.dims:
        return cotangent
    missing = target.rank - source.rank
    axes = list(range(missing))
    axes += [
        axis + missing for axis in range(source.rank) if source.shape[axis] == 1 and target.shape[axis + missing] != 1
    ]
    total = b.reduce_sum(cotangent, axes=axes, keepdims=False)
    return b.reshape(total, shape=source.dims)


def _names(elements: Sequence[Attribute]) -> str:
    return ", ".join(str(element) for element in elements)
