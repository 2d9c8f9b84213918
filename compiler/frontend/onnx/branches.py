"""Blocks of which one runs -> an operator whose results have the types that all of them yield."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Block, SSAValue

from weft.dialects.errors import TypeInferenceError, UnsupportedError
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.control import join


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


def joined_sizes(blocks: Sequence[Block], names: SizeNames) -> list[str]:
    """The names of the sizes in which the results of blocks differ. Raises UnsupportedError for
    results that differ in more.
    """
    try:
        for values in zip(*map(yielded, blocks), strict=True):
            join([type_of(value) for value in values], names, "control flow")
    except TypeInferenceError as error:
        raise UnsupportedError(str(error)) from error
    return names.used
