"""Evaluates graphs by their operators' `reference`, control flow and named sizes included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from weft.dialects.errors import UnsupportedError, WeftError
from weft.dialects.expr import Expr, Symbol
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.op import SEGMENTS, GraphOp
from weft.dialects.graph.core.types import ShapeAttr, TensorType, type_of
from weft.dialects.graph.ops.cast import BitcastOp
from weft.dialects.graph.regions.call import CallOp
from weft.dialects.graph.regions.control import BindSizesOp, ControlOp
from weft.dialects.graph.regions.effects import AssertOp, HostCallOp, PrintOp
from weft.dialects.graph.regions.fused import FusedOp
from weft.dialects.graph.regions.native_call import NativeCallOp
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.printed import filled
from weft.dialects.weights import Array, WeightStore

Arrays = dict[SSAValue, Array]
Observer = Callable[[Operation, Sequence[Array], Sequence[Array]], None]
Perturb = Callable[[Operation, Sequence[Array]], Sequence[Array]]
"""From the operands of an operator that runs to what it shall read in their place."""


def evaluate_block(
    block: Block,
    arguments: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    weights: WeightStore | None = None,
    observe: Observer | None = None,
    *,
    wide: bool = False,
    perturb: Perturb | None = None,
) -> list[Array]:
    """The operands of the block's terminator for these arguments and sizes. `observe` is told every
    operator that ran, those inside of regions too, with its operands and results. With `wide`, all
    that the graph computes in floating point is float64. `perturb` changes the operands of
    operators without regions: with noise of the size of rounding errors, results show how far
    another order of the same computation may be from them.

    Raises WeftError for a size that the graph names and that is below 0.
    """
    evaluator = Evaluator({}, dict(sizes or {}), weights, observe, wide, perturb)
    return evaluator.block(block, arguments)


class Evaluator(Struct):
    """What is known of a graph so far."""

    arrays: Arrays
    sizes: dict[str, int]
    weights: WeightStore | None
    observe: Observer | None = None
    wide: bool = False
    perturb: Perturb | None = None

    @staticmethod
    def of(block: Block, arguments: Sequence[Array], weights: WeightStore | None) -> Evaluator:
        """One that has the arguments of a block."""
        evaluator = Evaluator({}, {}, weights)
        evaluator.take(block, arguments)
        return evaluator

    def take(self, block: Block, arguments: Sequence[Array]) -> None:
        """Learns the arguments of a block, and sizes from their shapes."""
        for argument, array in zip(block.args, arguments, strict=True):
            self.arrays[argument] = self._widened(array)
            self._note_dims(type_of(argument), array)

    def block(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """The operands of the block's terminator."""
        self.take(block, arguments)
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return [self.arrays[value] for value in op.operands]
            self.operation(op)
        raise AssertionError("a block of a graph ends in a terminator")

    def _note_dims(self, tensor_type: TensorType, array: Array) -> None:
        """Learns sizes from an argument's shape."""
        for dim, extent in zip(tensor_type.shape, array.shape, strict=True):
            if list(dim.terms.values()) == [1] and str(dim).isidentifier():
                self.sizes.setdefault(str(dim), extent)

    def run(
        self, region: Region, arguments: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Array]:
        """Evaluates a region, which sees all that is known here."""
        sizes = self.sizes | dict(sizes)
        inner = replace(self, arrays=dict(self.arrays), sizes=sizes)
        return inner.block(region.block, arguments)

    def extent(self, dim: Expr) -> int:
        """The value of an expression over sizes."""
        return dim.evaluate({Symbol(name): size for name, size in self.sizes.items()})

    def operation(self, op: Operation) -> None:
        """Evaluates one operator."""
        operands = [self.arrays[value] for value in op.operands]
        match op:
            case ConstantOp():
                results = [op.array(self.weights)]
            case BindSizesOp():
                self._bind(op, operands[0])
                results = []
            case PrintOp():
                results = []
            case HostCallOp():
                rule = "requires the host of a compiled program"
                raise UnsupportedError(f"{op.name} {rule}, got the evaluator of graphs")
            case NativeCallOp():
                rule = "requires a compiled program"
                raise UnsupportedError(f"{op.declared.name} {rule}, got the evaluator of graphs")
            case AssertOp():
                self._require(op, operands)
                results = []
            case ControlOp():
                results, sizes = op.reference(self, operands)
                self.sizes |= sizes
            case CallOp():
                assert op.function is not None, "a call has its function"
                block = op.function.body.block
                inner = replace(self, arrays={}, sizes={}, observe=None)
                results = inner.block(block, operands)
            case FusedOp():
                results = self.run(op.body, operands, {})
            case BitcastOp():  # the bits are those of the element type that the graph has
                own = [operands[0].astype(numpy_dtype(type_of(op.operands[0]).element))]
                results = self._specialised(op, own).reference(*own)
            case GraphOp():
                if self.perturb is not None:
                    operands = list(self.perturb(op, operands))
                with np.errstate(all="ignore"):
                    results = self._specialised(op, operands).reference(*operands)
            case _:
                raise AssertionError(f"a graph holds graph operators, not {op.name}")
        arrays = [self._widened(result) for result in results]
        self.arrays |= zip(op.results, arrays, strict=True)
        if self.observe is not None:
            self.observe(op, operands, arrays)

    def _widened(self, array: Array) -> Array:
        whole = np.asarray(array)
        narrow = self.wide and whole.dtype.kind not in "biu" and "int" not in whole.dtype.name
        return whole.astype(np.float64) if narrow else whole

    def _element(self, value: SSAValue, array: Array) -> Attribute:
        """The element type of an operand: its own, or that of what it was widened to."""
        own = type_of(value).element
        return element_type(array.dtype) if self.wide and array.dtype == np.float64 else own

    def _bind(self, op: BindSizesOp, array: Array) -> None:
        for name, value in zip(op.defined_sizes, array.reshape(-1).tolist(), strict=True):
            if value < 0:
                raise WeftError(f"{op.name} requires a size of at least 0 for {name}, got {value}")
            self.sizes[name] = value

    def _require(self, op: AssertOp, operands: Sequence[Array]) -> None:
        held, *values = (each.item() for each in operands)
        if not held:
            raise WeftError(filled(op.text.data, lambda number, _: str(values[number])))

    def _specialised(self, op: GraphOp, operands: Sequence[Array]) -> GraphOp:
        """The operator with numbers for sizes, on operands of the arrays' shapes."""
        dims = [ShapeAttr(tuple(map(Expr.of, array.shape))) for array in operands]
        tensor_types = [
            TensorType(shape, self._element(value, array))
            for shape, value, array in zip(dims, op.operands, operands, strict=True)
        ]
        properties = {
            name: self._number(value) for name, value in op.properties.items() if name != SEGMENTS
        }
        if tensor_types == [value.type for value in op.operands] and properties == op.properties:
            return op
        remaining = iter(Block(arg_types=tensor_types).args)
        slots = [None if operand is None else next(remaining) for operand in op.slots()]
        return type(op).from_properties(slots, properties)

    def _number(self, value: Attribute) -> Attribute:
        if not isinstance(value, ShapeAttr) or value.data is None:
            return value
        return ShapeAttr(tuple(Expr.of(self.extent(dim)) for dim in value.data))
