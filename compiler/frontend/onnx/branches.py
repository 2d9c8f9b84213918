"""Blocks of which one runs -> an operator whose results have the types that all of them yield, or
the one that can be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from xdsl.ir import Block, SSAValue

from weft.compiler.frontend.onnx.failure import Failure
from weft.dialects.errors import TypeInferenceError, UnsupportedError
from weft.dialects.expr import Equalities
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.graph.regions.control import join
from weft.dialects.graph.reindexing.movement import AssumeOp

MOST_ATTEMPTS = 32
"""Imports of one model, with other branches of its Ifs."""


class Attempt(Protocol):
    """An import with some branches in place of Ifs."""

    @property
    def failures(self) -> Sequence[Failure]:
        """Why nodes could not be imported."""
        ...


Import = TypeVar("Import", bound=Attempt)
Refused = Sequence[UnsupportedError]


def only_sound(
    attempt: Callable[[dict[str, int]], tuple[Import, Refused]],
) -> tuple[Import, Refused]:
    """The one import in which no node failed, among those with each branch of the Ifs of which one
    can be taken only; the first where all failed. An import adds the Ifs that it comes to. Raises
    UnsupportedError where several are sound.
    """
    tried: dict[str, int] = {}
    first = attempt(tried)
    sound = [] if first[0].failures or first[1] else [first]
    for _ in range(MOST_ATTEMPTS):
        while tried and next(reversed(tried.values())) == 1:
            tried.popitem()
        if not tried:
            return sound[0] if sound else first
        last = next(reversed(tried))
        tried[last] = 1
        other = attempt(tried)
        sound += [] if other[0].failures or other[1] else [other]
        if len(sound) > 1:
            break
    rule = "requires branches whose results have one rank, or of which one can be taken"
    raise UnsupportedError(f"node '{next(iter(tried), '')}' (If) {rule}, got two that can be")


class SizeNames:
    """New names of sizes that begin like each other, and those that were taken."""

    def __init__(self, fresh: Callable[[str], str], stem: str) -> None:
        self._fresh = fresh
        self._stem = stem
        self.used: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.used.append(self._fresh(self._stem))
        return self.used[-1]


def yielded(block: Block) -> Sequence[SSAValue]:
    """What a block hands back."""
    assert block.last_op is not None, "a region ends in what it yields"
    return block.last_op.operands


def agree(one: TensorType, other: TensorType, equal: Equalities) -> bool:
    """Whether tensors of two types have one shape in every call."""
    if one.element != other.element or not (one.has_rank and other.has_rank):
        return one == other
    return one.rank == other.rank and all(map(equal.hold, zip(one.shape, other.shape, strict=True)))


def assumed(value: SSAValue, wanted: TensorType, equal: Equalities) -> AssumeOp | None:
    """The value under the dims of a type that are equal to its own; None where nothing is to do."""
    given = type_of(value)
    if given == wanted or not agree(given, wanted, equal):
        return None
    return AssumeOp.of(value, shape=wanted.dims)


def joined_sizes(blocks: Sequence[Block], names: SizeNames, equal: Equalities) -> list[str]:
    """The names of the sizes in which the results of blocks differ, but for those that are equal in
    every call. Raises UnsupportedError for results that differ in more.
    """
    wanted = [type_of(value) for value in yielded(blocks[0])]
    for block in blocks[1:]:
        for position, (value, each) in enumerate(zip(yielded(block), wanted, strict=False)):
            if (op := assumed(value, each, equal)) is not None and block.last_op is not None:
                block.insert_op_before(op, block.last_op)
                block.last_op.operands[position] = op.result
    try:
        for values in zip(*map(yielded, blocks), strict=True):
            join([type_of(value) for value in values], names, "control flow")
    except TypeInferenceError as error:
        raise UnsupportedError(str(error)) from error
    return names.used
