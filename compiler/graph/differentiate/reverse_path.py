"""What parts of reverse mode share: the operators between values, and what regions read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from xdsl.ir import Block, Operation, SSAValue

from weft.dialects.graph import StopGradientOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import FLOATS, type_of
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.graph.regions.repeat import RepeatOp

Contribution = tuple[SSAValue, SSAValue | None]
"""A value, and a part of its cotangent."""


@dataclass
class Reversal(ABC):
    """A derivative in the making; `names` are the sizes that have been named."""

    names: set[str]

    def fresh(self, stem: str) -> str:
        """A name that no size has."""
        number = 0
        while f"{stem}_{number}" in self.names:
            number += 1
        self.names.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def fresh_names(self, ops: Sequence[Operation]) -> dict[str, str]:
        """New names for all sizes that operators define."""
        own = dict.fromkeys(
            name for op in ops for inner in op.walk() for name in named_sizes(inner)
        )
        return {name: self.fresh(name) for name in own}

    @abstractmethod
    def pull(
        self,
        b: GraphBuilder,
        block: Block,
        seeds: Sequence[tuple[SSAValue, SSAValue]],
        inputs: Sequence[SSAValue],
        stops: Container[Operation] = (),
    ) -> Mapping[SSAValue, SSAValue]:
        """The cotangents of a block's values and of what it reads, as far as inputs reach results:
        `seeds` are results and their cotangents. Nothing passes through `stops`.
        """


class Path(Struct, frozen=True):
    """Operators in their order, and the values that depend on an input."""

    ops: list[Operation]
    reached: set[SSAValue]


def path_between(
    block: Block,
    results: Iterable[SSAValue],
    inputs: Iterable[SSAValue],
    stops: Container[Operation] = (),
) -> Path:
    """The operators of a block that depend on an input and that a result depends on."""
    needed: set[Operation] = set()
    stack = list(results)
    while stack:
        owner = stack.pop().owner
        if not isinstance(owner, Operation) or isinstance(owner, StopGradientOp):
            continue
        if owner.parent is block and owner not in needed:
            needed.add(owner)
            stack += reads(owner)
    path = Path([], set(inputs))
    for op in list(block.ops):
        if op in needed and op not in stops and any(each in path.reached for each in reads(op)):
            floats = [result for result in op.results if is_float(result)]
            if floats:  # nothing passes through comparisons, shapes and the like
                path.reached.update(floats)
                path.ops.append(op)
    return path


def reads(op: Operation) -> list[SSAValue]:
    """The operands, and what regions read of the values around them."""
    return [*op.operands, *captured(op)] if op.regions else list(op.operands)


def captured(op: Operation) -> list[SSAValue]:
    """The values from outside that the regions of an operator read, each once."""
    inner = [each for each in op.walk() if each is not op]
    inside: set[SSAValue] = {result for each in inner for result in each.results}
    for each in op.walk():
        inside.update(argument for region in each.regions for argument in region.block.args)
    found = dict.fromkeys(value for each in inner for value in each.operands)
    return [value for value in found if value not in inside]


def named_sizes(op: Operation) -> list[str]:
    """The sizes that an operator defines, the number of the iteration inside of a loop too."""
    return [*defined_sizes(op), *([op.index.data] if isinstance(op, RepeatOp) else [])]


def is_float(value: SSAValue) -> bool:
    """Whether a value is a tensor of floats."""
    return type_of(value).element in FLOATS
