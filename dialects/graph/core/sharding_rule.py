"""`ShardingRule`: which parts of an operator's results follow from which parts of its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from weft.dialects.expr import Expr
from weft.dialects.graph.core.reshape_groups import reshape_groups
from weft.dialects.graph.core.types import Shape

Factors = tuple[str | None, ...]
"""The factor of each dim of a tensor; None for one that has to be whole."""


class ShardingRule(Struct, frozen=True):
    """Names of dims, as the letters of an einsum: where the dims of one factor are cut into equal
    blocks, a block of the results needs the blocks of the operands alone.

        matmul   (i, k), (k, j) -> (i, j)   reduced {k: sum}

    A factor that the results lack is reduced: the whole result is the `sum`, `mean`, `max` or `min`
    of those of all blocks.
    """

    operands: tuple[Factors, ...]
    results: tuple[Factors, ...]
    reduced: Mapping[str, str] = field(default_factory=dict[str, str])

    def named(self) -> Iterator[Factors]:
        """The factors of each value, results first."""
        yield from self.results
        yield from self.operands


def broadcast_factors(
    shapes: Sequence[Shape], result: Shape
) -> tuple[tuple[Factors, ...], Factors]:
    """The factors of operands that are broadcast, and of the result: one for each of its axes that
    is cut where an operand has it.
    """
    names = tuple(f"d{axis}" for axis in range(len(result)))
    operands = tuple(
        tuple(
            None if dim == 1 and whole != 1 else name
            for dim, whole, name in _aligned(shape, result, names)
        )
        for shape in shapes
    )
    return operands, names


def _aligned(
    shape: Shape, result: Shape, names: Sequence[str]
) -> Iterator[tuple[object, object, str]]:
    skipped = len(result) - len(shape)
    yield from zip(shape, result[skipped:], names[skipped:], strict=True)


def whole_but(rank: int, whole: Sequence[int]) -> Factors:
    """A factor for each axis of a tensor but those that have to be whole."""
    return tuple(None if axis in whole else f"d{axis}" for axis in range(rank))


def reshape_factors(source: Shape, result: Shape) -> tuple[Factors, Factors]:
    """The factors of a tensor before and behind a reshape: of dims that become others together, the
    first ones that are not 1 are cut alike.
    """
    factors: tuple[list[str | None], list[str | None]] = (
        [None] * len(source),
        [None] * len(result),
    )
    shapes = source, result
    for groups in reshape_groups(source, result):
        name = "d" + "_".join(str(group.start) for group in groups)
        for each, group in enumerate(groups):
            first = next((at for at in group if shapes[each][at] != 1), None)
            if first is not None:
                factors[each][first] = name
    return tuple(factors[0]), tuple(factors[1])


def reduction_rule(
    rank: int, axes: Sequence[int], keeps_dims: bool, combination: str | None
) -> ShardingRule:
    """The rule of what combines an operand's elements along axes; without a combination of partial
    results these are whole.
    """
    operand = whole_but(rank, () if combination else axes)
    kept = [axis for axis in range(rank) if keeps_dims or axis not in axes]
    result = tuple(None if axis in axes else operand[axis] for axis in kept)
    names = (operand[axis] for axis in axes)
    reduced = {name: combination for name in names if name is not None and combination is not None}
    return ShardingRule((operand,), (result,), reduced)


def convolution_rule(rank: int, groups: int, depth: Expr, has_bias: bool) -> ShardingRule:
    """The rule of convolutions over so many spatial dims, of groups of `depth` channels: these are
    summed over, where no bias would be added for each part; groups of one channel are cut.
    """
    single = groups > 1 and depth == 1
    inner = "c" if groups == 1 and not has_bias else None
    outputs = "o" if groups == 1 or single else None
    whole = [None] * rank
    image, kernel = ("n", outputs if single else inner, *whole), (outputs, inner, *whole)
    bias = ((outputs,),) if has_bias else ()
    reduced = {"c": "sum"} if inner else {}
    return ShardingRule((image, kernel, *bias), (("n", outputs, *whole),), reduced)
