"""NumPy's broadcasting over symbolic dims."""

from __future__ import annotations

from collections.abc import Sequence

from dialects.errors import TypeInferenceError
from dialects.expr import Expr
from dialects.graph.types import Shape


def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape; dims must be equal or 1. Raises `TypeInferenceError` in the name of the operator."""
    rank = max((len(shape) for shape in shapes), default=0)
    dims: list[Expr] = []
    for axis in range(-rank, 0):
        present = dict.fromkeys(shape[axis] for shape in shapes if len(shape) >= -axis)
        wide = [dim for dim in present if dim != 1]
        if len(wide) > 1:
            listed = " and ".join("[" + ", ".join(map(str, shape)) + "]" for shape in shapes)
            raise TypeInferenceError(f"{name} requires operands whose dims are equal or 1, got {listed}")
        dims.append(wide[0] if wide else Expr.of(1))
    return tuple(dims)


def broadcast_index(index: Sequence[Expr], shape: Shape) -> list[Expr]:
    """The subscripts of an operand of that shape under the result's index: dims of 1 are read at 0."""
    aligned = index[len(index) - len(shape) :]
    return [Expr.of(0) if dim == 1 else position for position, dim in zip(aligned, shape, strict=True)]
