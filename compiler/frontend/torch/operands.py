"""Operands of ATen operators: tensors and numbers, brought to one element type as torch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BF16, BOOL, F16, F32, FLOATS, I16, I64, UNSIGNED
from weft.dialects.loop.scalar import width

Number = float | Expr
Operand = Term | Number

Results = Term | Pair | Sequence[Term | Pair | None]
AtenFunction = Callable[..., Results]
"""Writes the graph operators of an ATen operator: `function(b, *arguments)`. Tensors are terms,
sizes expressions or ints, dtypes element types. Returns its result, or its results; complex ones
are pairs.
"""

AtenTable = Mapping[str, AtenFunction]
"""Functions by overload: `aten.add.Tensor`."""

HALVES: Final = (F16, BF16)


def rank_among_types(element: Attribute) -> int:
    """0 for bool, 1 for integers, 2 for floats: who decides of operands of several."""
    return 0 if element == BOOL else 2 if element in FLOATS else 1


def common_element(one: Attribute, other: Attribute) -> Attribute:
    """The element type that two tensors have together: `torch.promote_types`."""
    ranks = rank_among_types(one), rank_among_types(other)
    if one == other or ranks[0] != ranks[1]:
        return one if ranks[0] >= ranks[1] else other
    if one in HALVES and other in HALVES:
        return F32
    if (one in UNSIGNED) != (other in UNSIGNED):
        unsigned, signed = (one, other) if one in UNSIGNED else (other, one)
        if width(signed) > width(unsigned):
            return signed
        if width(unsigned) > 8:
            raise UnsupportedError(f"requires types that torch combines, got {one} and {other}")
        return I16
    return max(one, other, key=width)


def element_of(operand: Operand) -> Attribute:
    """The element type of a tensor, or that which torch gives a number."""
    if isinstance(operand, Term):
        return operand.type.element
    return BOOL if isinstance(operand, bool) else F32 if isinstance(operand, float) else I64


def result_element(*operands: Operand) -> Attribute:
    """The element type of a result: tensors with dims decide, then those without, then numbers,
    where these are of a higher sort.
    """
    tensors = [each for each in operands if isinstance(each, Term)]
    tiers = (
        [each for each in tensors if each.shape],
        [each for each in tensors if not each.shape],
        [each for each in operands if not isinstance(each, Term)],
    )
    found: Attribute | None = None
    for tier in tiers:
        own: Attribute | None = None
        for operand in tier:
            element = element_of(operand)
            own = element if own is None else common_element(own, element)
        if own is not None and (found is None or rank_among_types(own) > rank_among_types(found)):
            found = own
    assert found is not None, "an operator has an operand"
    return found


def as_float(element: Attribute) -> Attribute:
    """The element type, f32 for integers and bools."""
    return element if element in FLOATS else F32


def wide(element: Attribute) -> Attribute:
    """The type that torch computes in: f32 for halves."""
    return F32 if element in HALVES else element


def term(b: GraphBuilder, operand: Operand, element: Attribute) -> Term:
    """A tensor, or a number, of an element type."""
    if isinstance(operand, Term):
        return operand.cast(element)
    if isinstance(operand, Expr):
        return size_term(b, operand, element)
    return Term(b, b.constant_of(operand, element))


def promoted(b: GraphBuilder, *operands: Operand) -> list[Term]:
    """The operands in their common element type."""
    element = result_element(*operands)
    return [term(b, operand, element) for operand in operands]


def computed(
    b: GraphBuilder, function: Callable[..., Term], *operands: Operand, floats: bool = False
) -> Term:
    """What a function of terms of one element type computes; numbers beside halves, and what has
    several steps, are computed in f32 and rounded once.
    """
    element = result_element(*operands)
    element = as_float(element) if floats else element
    terms = [term(b, operand, wide(element)) for operand in operands]
    return function(*terms).cast(element)


def only_static(dims: Sequence[Expr], what: str) -> list[int]:
    """The dims as ints. Raises UnsupportedError where one varies."""
    constants = [dim.constant for dim in dims]
    if None in constants:
        raise UnsupportedError(f"requires {what} of static sizes, got {list(map(str, dims))}")
    return [dim for dim in constants if dim is not None]


def axis_of(x: Term, dim: int) -> int:
    """An axis counted from the front; a tensor without axes has one of size 1."""
    return dim % max(len(x.shape), 1)


def axes_of(x: Term, dims: int | Sequence[int] | None) -> list[int]:
    """Axes counted from the front, in order; all of them where none is named."""
    if isinstance(dims, int):
        dims = [dims]
    if not dims:
        return list(range(len(x.shape)))
    return sorted(axis_of(x, dim) for dim in dims) if x.shape else []


def with_axis(x: Term) -> Term:
    """A tensor without axes as a vector of one element."""
    return x if x.shape else x.reshape([1])


def broadcast_shape(*shapes: Sequence[Expr]) -> list[Expr]:
    """The dims that shapes have together."""
    rank = max(map(len, shapes))
    found: list[Expr] = []
    for axis in range(-rank, 0):
        present = [shape[axis] for shape in shapes if len(shape) >= -axis]
        found.append(next((dim for dim in present if dim != 1), Expr.of(1)))
    return found


def entry(function: Callable[..., Any], *names: str) -> dict[str, AtenFunction]:
    """The same function under several overloads."""
    return {f"aten.{name}": function for name in names}
