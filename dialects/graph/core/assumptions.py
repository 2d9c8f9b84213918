"""What operators take for granted of sizes that a call alone knows: pairs that have to be equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.dialects.expr import Atom, Expr, ExprLike, Symbol, maximum, minimum

Assumptions = Sequence[tuple[Expr, Expr]]


def at_least(size: Expr, least: ExprLike) -> list[tuple[Expr, Expr]]:
    """The pair that is equal where a size is no less than another; none where it never is less."""
    greater = maximum([size, least])
    return [] if greater == size else [(size, greater)]


def box_within(dim: Expr, start: Expr, size: Expr, step: int) -> list[tuple[Expr, Expr]]:
    """The pairs that are equal where `start, start + step, ...`, as many as `size`, are indices of
    an axis of `dim` elements, or `size` is 0.
    """
    last = start + (size - 1) * step
    low, high = (start, last) if step > 0 else (last, start)
    some = minimum([size, 1])
    inside = [] if not at_least(low, 0) else at_least(low * some, 0)
    if at_least(dim, high + 1):
        inside += at_least(dim, (high + 1) * some)
    return [*at_least(size, 0), *inside]


def holds_in_loops(pair: tuple[Expr, Expr], iterations: Mapping[str, Expr]) -> bool:
    """Whether two sizes are equal in every iteration of loops: by the name of each one's index, how
    many iterations there are.

        n = max(n, i + 1) where i < n: for i = n - 1 - rest, max(n, n - rest) is n
    """
    one, other = pair
    if one == other:
        return True
    for name in iterations.keys() & {*one.symbols(), *other.symbols()}:
        # An index is at least 0, and at most what is left of a number that another may decide.
        values: dict[Atom, Expr] = {Symbol(name): iterations[name] - 1 - Expr.of(f"{name}.rest")}
        if holds_in_loops((one.substitute(values), other.substitute(values)), iterations):
            return True
    return False
