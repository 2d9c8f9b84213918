"""Complex tensors whose parts are interleaved, as in memory, and the pairs that they become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.stablehlo.types import is_complex, parts_of
from weft.dialects.graph.core.algebra import Term, joined


def separated(given: Iterable[Term], written: Iterable[SSAValue]) -> list[Term]:
    """The tensors that values are, of those that a caller gives: the last dim of a complex one has
    both parts.
    """
    terms = iter(given)
    found: list[Term] = []
    for value in written:
        if is_complex(value.type):
            pairs = next(terms)
            axis = len(pairs.shape) - 1
            found += [pairs.part(axis, at, 1).reshape(pairs.shape[:-1]) for at in (0, 1)]
        else:
            found += [next(terms) for _ in range(parts_of(value.type))]
    return found


def joined_parts(terms: Sequence[Term], written: Iterable[SSAValue]) -> list[Term]:
    """The opposite, for what a caller is given."""
    remaining = iter(terms)
    found: list[Term] = []
    for value in written:
        parts = [next(remaining) for _ in range(parts_of(value.type))]
        if is_complex(value.type):
            axis = len(parts[0].shape)
            parts = [joined([part.insert(axis) for part in parts], axis)]
        found += parts
    return found
