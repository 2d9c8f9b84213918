"""Arrays as JAX holds them: complex ones whose parts are interleaved and become pairs, and tokens,
which are arrays without elements and become nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.stablehlo.types import is_complex, is_token, parts_of
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL


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
        elif is_token(value.type):
            next(terms)
        else:
            found.append(next(terms))
    return found


def joined_parts(terms: Sequence[Term], written: Iterable[SSAValue], b: GraphBuilder) -> list[Term]:
    """The opposite, for what a caller is given."""
    remaining = iter(terms)
    found: list[Term] = []
    for value in written:
        parts = [next(remaining) for _ in range(parts_of(value.type))]
        if is_complex(value.type):
            axis = len(parts[0].shape)
            parts = [joined([part.insert(axis) for part in parts], axis)]
        if is_token(value.type):
            parts = [Term(b, b.constant_of(False, BOOL)).expand([0])]
        found += parts
    return found
