"""NumPy's broadcasting over symbolic dims."""

from __future__ import annotations

from collections.abc import Sequence

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, Extremum
from weft.dialects.graph.core.types import Shape


def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape; dims are equal or 1, and sizes of different names are assumed equal.

    Raises `TypeInferenceError` in the name of the operator where dims can never be equal.
    What is assumed is what `broadcast_assumptions` lists; the artifact checks it in every call.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    dims: list[Expr] = []
    for axis in range(-rank, 0):
        present = dict.fromkeys(shape[axis] for shape in shapes if len(shape) >= -axis)
        wide = sorted((dim for dim in present if dim != 1), key=_vagueness)
        if any((dim - wide[0]).constant is not None for dim in wide[1:]):
            listed = " and ".join("[" + ", ".join(map(str, shape)) + "]" for shape in shapes)
            raise TypeInferenceError(
                f"{name} requires operands whose dims are equal or 1, got {listed}"
            )
        dims.append(wide[0] if wide else Expr.of(1))
    return tuple(dims)


def _vagueness(dim: Expr) -> int:
    """Orders dims that have to be equal: numbers, plain sizes,
    and those that are the least or greatest of others.
    """
    if dim.constant is not None:
        return 0
    return 2 if any(isinstance(atom, Extremum) for term in dim.terms for atom in term) else 1


def broadcast_assumptions(shape: Shape, result: Shape) -> list[tuple[Expr, Expr]]:
    """The pairs of sizes that have to be equal for an operand of that shape
    to be broadcast to the result's.
    """
    aligned = result[len(result) - len(shape) :]
    pairs = zip(shape, aligned, strict=True)
    return [(dim, wanted) for dim, wanted in pairs if dim != 1 and dim != wanted]


def broadcast_index(index: Sequence[Expr], shape: Shape) -> list[Expr]:
    """The subscripts of an operand of that shape under the result's
    index: dims of 1 are read at 0.
    """
    aligned = index[len(index) - len(shape) :]
    return [
        Expr.of(0) if dim == 1 else position for position, dim in zip(aligned, shape, strict=True)
    ]
