"""What is known of graph values during an import: elements as expressions, small arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Atom, Equalities, Expr
from weft.dialects.graph import ConstantOp, DimsOp, GraphOp
from weft.dialects.graph.core.dim_values import DimValues
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import INTEGERS, TensorType, type_of
from weft.dialects.interval import Range
from weft.dialects.weights import Array, WeightStore

EVALUATED_ELEMENTS = 1 << 16
"""Arrays above this size are not computed to find out about a shape."""


class OpenAxes(UnsupportedError):
    """A call alone knows the axes, of a value of `rank` dims, that an operand lists."""

    def __init__(self, position: int, rank: int, given: TensorType) -> None:
        super().__init__(f"requires axes that are known while compiling, got {given}")
        self.position = position
        self.rank = rank


class ConstantValues:
    """Finds, and remembers, values that operators need while compiling, such as axes and shapes.

    `ranges` are the bounds of sizes that are known, such as the number of a loop's round; `equal`
    are sizes that each call is checked to bring equal, for operators need it that always run.
    """

    def __init__(self, store: WeightStore) -> None:
        self.store = store
        self.ranges: dict[Atom, Range] = {}
        self.equal = Equalities()
        self._names: set[str] | None = None
        self._dims = DimValues(sizes=True)
        self._arrays: dict[SSAValue, Array | None] = {}

    def dims(self, value: SSAValue) -> Sequence[Expr] | None:
        """The elements of an integer vector or scalar, None where they depend on data."""
        tensor_type = type_of(value)
        if tensor_type.element not in INTEGERS or not tensor_type.has_rank or tensor_type.rank > 1:
            return None
        exprs = self._dims.of(value)
        if exprs is not None:
            return [self.equal.normal(expr) for expr in exprs]
        array = self.constant_array(value)
        return None if array is None else [Expr.of(int(number)) for number in array.reshape(-1)]

    def learn(self, block: Block, last: Operation | None) -> None:
        """Takes up what operators behind the last one that was there assume of inputs' sizes."""
        if self._names is None:
            dims = [dim for argument in block.args for dim in type_of(argument).shape]
            self._names = {name for dim in dims for name in dim.symbols()}
        op = block.first_op if last is None else last.next_op
        while op is not None:
            if isinstance(op, GraphOp) and not op.is_static:
                for pair in op.assumptions():
                    if all(self._names.issuperset(size.symbols()) for size in pair):
                        self.equal.add(pair)
            op = op.next_op

    def constant_array(self, value: SSAValue) -> Array | None:
        """The elements of a value that depends on constants alone, None for others and large ones.

        Operators are evaluated by their `reference`; each value is visited once.
        """
        pending = [value]
        while pending:
            current = pending[-1]
            missing = None if current in self._arrays else self._find(current)
            if missing is None:
                pending.pop()
            else:
                pending.append(missing)
        if self._arrays[value] is not None and self.store.replaceable:
            self._fix(value)
        return self._arrays[value]

    def _fix(self, value: SSAValue) -> None:
        """Keeps the tensors that a known value comes from as they are, for it decides something."""
        pending = [value]
        while pending:
            owner = pending.pop().owner
            key = owner.key if isinstance(owner, ConstantOp) else None
            if key is not None and self.store.is_given(key.data):
                self.store.fix(key.data, self.store[key.data])
            elif isinstance(owner, GraphOp):
                pending += owner.operands

    def _find(self, value: SSAValue) -> SSAValue | None:
        """Settles what is known of the value, or returns an operand to look at first."""
        owner = value.owner
        self._arrays[value] = None
        if isinstance(owner, ConstantOp):
            self._arrays[value] = owner.array(self.store)
        elif isinstance(owner, GraphOp):
            self._arrays[value] = self._static_dims(value)
            if self._arrays[value] is None and not isinstance(owner, DimsOp) and _is_small(owner):
                return self._evaluate(owner)
        return None

    def _evaluate(self, op: GraphOp) -> SSAValue | None:
        """Computes the results of an operator, or returns an operand to look at first."""
        operands: list[Array] = []
        for operand in op.operands:
            if operand not in self._arrays:
                for result in op.results:
                    self._arrays.pop(result, None)
                return operand
            array = self._arrays[operand]
            if array is None:
                return None
            operands.append(array)
        self._arrays |= dict(zip(op.results, op.reference(*operands), strict=True))
        return None

    def _static_dims(self, value: SSAValue) -> Array | None:
        tensor_type = type_of(value)
        if (
            tensor_type.element not in INTEGERS
            or tensor_type.static_shape is None
            or tensor_type.rank > 1
        ):
            return None
        exprs = self._dims.of(value)
        numbers = [None] if exprs is None else [expr.constant for expr in exprs]
        if None in numbers:
            return None
        return np.array(numbers, numpy_dtype(tensor_type.element)).reshape(tensor_type.static_shape)


def _is_small(op: GraphOp) -> bool:
    if op.mentions_sizes:
        return False
    tensor_types = [type_of(value) for value in (*op.operands, *op.results)]
    return all(
        each.static_shape is not None and (each.size.constant or 0) <= EVALUATED_ELEMENTS
        for each in tensor_types
    )
