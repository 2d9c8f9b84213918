"""NumPy's broadcasting over symbolic dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, Extremum, Quotient, Remainder
from weft.dialects.graph.core.types import Shape


def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape. This is weft's one rule for dims that meet: the number 1 is stretched, as
    NumPy does; all others are equal, and sizes of different names are assumed to be, also where one
    of them is 1 in a call.

    Raises `TypeInferenceError` in the name of the operator where dims can never be equal.
    What is assumed is what `broadcast_assumptions` lists; the artifact checks it in every call.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    dims: list[Expr] = []
    for axis in range(-rank, 0):
        present = [shape[axis] for shape in shapes if len(shape) >= -axis]
        dim = agreed_dim([dim for dim in present if dim != 1] or [Expr.of(1)])
        if dim is None:
            listed = " and ".join("[" + ", ".join(map(str, shape)) + "]" for shape in shapes)
            raise TypeInferenceError(
                f"{name} requires operands whose dims are equal or 1, got {listed}"
            )
        dims.append(dim)
    return tuple(dims)


def agreed_dim(dims: Iterable[Expr]) -> Expr | None:
    """The plainest of dims that have to be equal; None where they never are. That they are is
    assumed of every call: see `differing`.
    """
    first, *others = sorted(dict.fromkeys(dims), key=_vagueness)
    return None if any((dim - first).constant is not None for dim in others) else first


def agreed_shape(shapes: Sequence[Shape]) -> Shape | None:
    """The same for each axis of shapes of one rank."""
    agreed = [agreed_dim(dims) for dims in zip(*shapes, strict=True)]
    known = tuple(dim for dim in agreed if dim is not None)
    return known if len(known) == len(agreed) else None


def differing(shape: Shape, agreed: Shape) -> list[tuple[Expr, Expr]]:
    """The pairs of sizes that have to be equal for a shape to be another."""
    return [pair for pair in zip(shape, agreed, strict=True) if pair[0] != pair[1]]


def _vagueness(dim: Expr) -> int:
    """Orders dims that have to be equal: numbers, sizes with a name, sums and products of them,
    quotients, and those that are the least or greatest of others.
    """
    if dim.constant is not None:
        return 0
    atoms = list(dim.atoms())
    if any(isinstance(atom, Extremum) for atom in atoms):
        return 4
    if any(isinstance(atom, Quotient | Remainder) for atom in atoms):
        return 3
    return 1 if len(atoms) == 1 and dim == Expr.atom(atoms[0]) else 2


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
