"""Evaluates graphs by their operators' `reference`, control flow and named sizes included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from dialects.errors import WeftError
from dialects.expr import Expr, Symbol
from dialects.graph.call import CallOp
from dialects.graph.constant import ConstantOp
from dialects.graph.control import BindSizesOp, ControlOp
from dialects.graph.fused import FusedOp
from dialects.graph.op import SEGMENTS, GraphOp
from dialects.graph.types import ShapeAttr, TensorType, type_of
from dialects.weights import Array, WeightStore

Arrays = dict[SSAValue, Array]
Observer = Callable[[Operation, Sequence[Array], Sequence[Array]], None]


def evaluate_block(
    block: Block,
    arguments: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    weights: WeightStore | None = None,
    observe: Observer | None = None,
) -> list[Array]:
    """The operands of the block's terminator for these arguments and sizes. `observe` is told every
    operator that ran, those inside of regions too, with its operands and results.

    Raises WeftError for a size that the graph names and that is below 0.
    """
    evaluator = _Evaluator({}, dict(sizes or {}), weights, observe)
    return evaluator.block(block, arguments)


@dataclass
class _Evaluator:
    arrays: Arrays
    sizes: dict[str, int]
    weights: WeightStore | None
    observe: Observer | None = None

    def block(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        for argument, array in zip(block.args, arguments, strict=True):
            self.arrays[argument] = array
            self._note_dims(type_of(argument), array)
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return [self.arrays[value] for value in op.operands]
            self._operation(op)
        raise AssertionError("a block of a graph ends in a terminator")

    def _note_dims(self, kind: TensorType, array: Array) -> None:
        """Learns sizes from an argument's shape."""
        for dim, extent in zip(kind.shape, array.shape, strict=True):
            if list(dim.terms.values()) == [1] and str(dim).isidentifier():
                self.sizes.setdefault(str(dim), extent)

    def run(
        self, region: Region, arguments: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Array]:
        """Evaluates a region, which sees all that is known here."""
        inner = _Evaluator(dict(self.arrays), self.sizes | dict(sizes), self.weights, self.observe)
        return inner.block(region.block, arguments)

    def extent(self, dim: Expr) -> int:
        """The value of an expression over sizes."""
        return dim.evaluate({Symbol(name): size for name, size in self.sizes.items()})

    def _operation(self, op: Operation) -> None:
        operands = [self.arrays[value] for value in op.operands]
        match op:
            case ConstantOp():
                results = [op.array(self.weights)]
            case BindSizesOp():
                self._bind(op, operands[0])
                results = []
            case ControlOp():
                results, sizes = op.reference(self, operands)
                self.sizes |= sizes
            case CallOp():
                assert op.function is not None, "a call has its function"
                block = op.function.body.block
                results = evaluate_block(block, operands, weights=self.weights)
            case FusedOp():
                results = self.run(op.body, operands, {})
            case GraphOp():
                with np.errstate(all="ignore"):
                    results = self._specialised(op, operands).reference(*operands)
            case _:
                raise AssertionError(f"a graph holds graph operators, not {op.name}")
        arrays = [np.asarray(result) for result in results]
        self.arrays |= zip(op.results, arrays, strict=True)
        if self.observe is not None:
            self.observe(op, operands, arrays)

    def _bind(self, op: BindSizesOp, array: Array) -> None:
        for name, value in zip(op.defined_sizes, array.reshape(-1).tolist(), strict=True):
            if value < 0:
                raise WeftError(f"{op.name} requires a size of at least 0 for {name}, got {value}")
            self.sizes[name] = value

    def _specialised(self, op: GraphOp, operands: Sequence[Array]) -> GraphOp:
        """The operator with numbers for sizes, on operands of the arrays' shapes."""
        dims = [ShapeAttr(tuple(map(Expr.of, array.shape))) for array in operands]
        kinds = [
            TensorType(shape, type_of(value).element)
            for shape, value in zip(dims, op.operands, strict=True)
        ]
        properties = {
            name: self._number(value) for name, value in op.properties.items() if name != SEGMENTS
        }
        if kinds == [value.type for value in op.operands] and properties == op.properties:
            return op
        remaining = iter(Block(arg_types=kinds).args)
        slots = [None if operand is None else next(remaining) for operand in op.slots()]
        return type(op).from_properties(slots, properties)

    def _number(self, value: Attribute) -> Attribute:
        if not isinstance(value, ShapeAttr) or value.data is None:
            return value
        return ShapeAttr(tuple(Expr.of(self.extent(dim)) for dim in value.data))
