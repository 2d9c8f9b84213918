"""What is known of a graph value while compiling: its elements as expressions over sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import OpResult, SSAValue

from weft.dialects.expr import Expr
from weft.dialects.extent import too_large
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import BOOL, INTEGERS, TensorType, type_of


class DimValues:
    """Finds, and remembers, the elements of integer vectors and scalars, as a reshape's operand.

    Bools count as 0 and 1. Tensors wrap where a number leaves their type, and expressions do not:
    such elements are not known, or where the numbers are meant as `sizes` an ExtentError.
    """

    def __init__(self, *, sizes: bool = False) -> None:
        self._sizes = sizes
        self._found: dict[SSAValue, Sequence[Expr] | None] = {}

    def of(self, value: SSAValue) -> Sequence[Expr] | None:
        """The elements of the value, or None where they depend on data."""
        pending = [value]
        while pending:
            current = pending[-1]
            owner = current.owner
            if (
                current in self._found
                or not isinstance(owner, GraphOp)
                or not isinstance(current, OpResult)
            ):
                self._found.setdefault(current, None)
                pending.pop()
                continue
            for operand in owner.operands:
                if not _may_be_dims(type_of(operand)):
                    self._found.setdefault(operand, None)
            missing = [operand for operand in owner.operands if operand not in self._found]
            if missing:
                pending += missing
                continue
            operands = [self._found[operand] for operand in owner.operands]
            self._found[current] = self._held(owner.fold_dims(*operands), type_of(current))
            pending.pop()
        return self._found[value]

    def _held(
        self, values: Sequence[Expr] | None, tensor_type: TensorType
    ) -> Sequence[Expr] | None:
        if values is None or tensor_type.element == BOOL:
            return values
        limits = np.iinfo(numpy_dtype(tensor_type.element))
        for number in (value.constant for value in values):
            if number is not None and not limits.min <= number <= limits.max:
                if self._sizes:
                    raise too_large(f"a number of {limits.dtype.name}", number)
                return None
        return values


def _may_be_dims(tensor_type: TensorType) -> bool:
    return (
        tensor_type.element in (*INTEGERS, BOOL) and tensor_type.has_rank and tensor_type.rank <= 1
    )
