"""What a region's derivative reads of the region: some values are kept, and others computed again.

The derivative of a region is built as if it could read the values of the region. Then each of those
is kept by the operator around the region (as a further result, stacked in loops), or its operators
are copied into the derivative. Copied is what costs less than memory: elementwise operators,
movements and constants, where what they read takes no more memory than what they give.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct
from xdsl.ir import Block, Operation, OpResult, SSAValue, SSAValues

from weft.compiler.graph.differentiate.reverse_path import Reversal, reads
from weft.compiler.graph.simplify.cse_dce import own_sizes
from weft.dialects.expr import Atom, Symbol
from weft.dialects.graph import ConstantOp, ControlOp, DimsOp
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.control import defined_sizes, rename_sizes
from weft.dialects.graph.regions.effects import drop_effects
from weft.dialects.graph.reindexing.movement import IndexMapOp
from weft.dialects.loop.scalar import width

NOMINAL = 64
"""What a size that is not known counts as."""

FREE = (ConstantOp, DimsOp)
CHEAP = (ElementwiseOp, IndexMapOp, *FREE)


def is_cheap(value: SSAValue) -> bool:
    """Whether a value is computed in about the time of reading it from memory."""
    return isinstance(value.owner, CHEAP)


def nominal_bytes(value: SSAValue) -> int:
    """The memory of a value; sizes that are not known count as `NOMINAL`."""
    tensor_type = type_of(value)
    names: dict[Atom, int] = {Symbol(name): NOMINAL for name in tensor_type.size.symbols()}
    return tensor_type.size.evaluate(names) * math.ceil(width(tensor_type.element) / 8)


class Plan(Struct):
    """The values that are kept, and the operators that are copied, in the region's order."""

    kept: list[SSAValue] = msgspec.field(default_factory=list[SSAValue])
    copied: list[Operation] = msgspec.field(default_factory=list[Operation])


def plan_residuals(
    forward: Block, wanted: Sequence[SSAValue], sized: set[str], index: str | None = None
) -> Plan:
    """Decides for the values that a derivative reads, from the last to the first. `sized` are sizes
    that it mentions; what defines one is copied, and so is what has a size that is found inside or
    that the index of a loop tells, of which values of all iterations cannot be stacked.
    """
    return _Planner(forward, sized, index).plan(wanted)


class _Planner:
    def __init__(self, forward: Block, sized: set[str], index: str | None) -> None:
        self.forward = forward
        self.positions = {op: number for number, op in enumerate(forward.ops)}
        self.definers = {name: op for op in forward.ops for name in defined_sizes(op)}
        self.sized = sized
        self.varying = {*self.definers, *([index] if index else [])}
        self.seen: set[SSAValue] = set()
        self.heap: list[tuple[int, int, SSAValue]] = []

    def plan(self, wanted: Sequence[SSAValue]) -> Plan:
        copied: set[Operation] = set()
        kept: list[SSAValue] = []
        for value in wanted:
            self._want(value)
        for op in {self.definers[name] for name in self.sized if name in self.definers}:
            self._copy(op, copied)
        while self.heap:
            value = heapq.heappop(self.heap)[-1]
            owner = value.owner
            if isinstance(owner, Operation) and (owner in copied or self._is_copied(value)):
                self._copy(owner, copied)
            else:
                kept.append(value)
        return Plan(kept[::-1], sorted(copied, key=lambda op: self.positions[op]))

    def _want(self, value: SSAValue) -> None:
        if value not in self.seen and self._is_inside(value):
            self.seen.add(value)
            owner = value.owner
            position = self.positions[owner] if isinstance(owner, Operation) else -1
            heapq.heappush(self.heap, (-position, len(self.seen), value))

    def _copy(self, op: Operation, copied: set[Operation]) -> None:
        """Copies an operator; its operands are wanted, and so are the sizes that it mentions."""
        if op in copied:
            return
        copied.add(op)
        for operand in reads(op):
            self._want(operand)
        for inner in op.walk():
            for name in own_sizes(inner):
                if name in self.definers:
                    self._copy(self.definers[name], copied)

    def _is_copied(self, value: SSAValue) -> bool:
        varies = not self.varying.isdisjoint(type_of(value).size.symbols())
        if varies or isinstance(value.owner, FREE):
            return True
        if not is_cheap(value):
            return False
        more = sum(nominal_bytes(each) for each in self._sources(value) - self.seen)
        return more <= nominal_bytes(value)

    def _sources(self, value: SSAValue) -> set[SSAValue]:
        """The values of the region that cheap operators lead to this one from."""
        found: set[SSAValue] = set()
        stack, seen = [value], {value}
        while stack:
            for operand in reads_of(stack.pop()):
                if operand in seen or not self._is_inside(operand):
                    continue
                seen.add(operand)
                if is_cheap(operand):
                    stack.append(operand)
                else:
                    found.add(operand)
        return found

    def _is_inside(self, value: SSAValue) -> bool:
        owner = value.owner
        return (owner if isinstance(owner, Block) else owner.parent) is self.forward


def reads_of(value: SSAValue) -> list[SSAValue]:
    """What the operator reads that computes a value."""
    return reads(value.owner) if isinstance(value.owner, Operation) else []


@dataclass
class Residuals(ABC):
    """Lets the block `back` do without the values of `forward`, which it reads so far."""

    reversal: Reversal
    forward: Block
    back: Block

    @property
    def index(self) -> str | None:
        """The index of a loop whose iterations `forward` is."""
        return None

    @abstractmethod
    def keep(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Values that `back` may read, which are those of `forward`."""

    def resolve(self) -> None:
        """Keeps or copies all that is read."""
        inner = list(self.back.walk())
        wanted = dict.fromkeys(value for op in inner for value in op.operands)
        sized = {name for op in inner for name in own_sizes(op)}
        plan = plan_residuals(self.forward, [*wanted], sized, self.index)
        values = dict(zip(plan.kept, self.keep(plan.kept), strict=True))
        names = self.reversal.fresh_names(plan.copied)
        for op in inner:
            if op.parent is self.back:
                rename_sizes(op, names)
        first = next(iter(inner), None)
        assert first is not None, "a region ends in a terminator"
        for op in plan.copied:
            copy = op.clone(values)
            drop_effects(copy)
            rename_sizes(copy, names)
            values |= zip(op.results, copy.results, strict=True)  # renaming makes new ones
            self.back.insert_op_before(copy, first)
        for op in inner:
            op.operands = [values.get(operand, operand) for operand in op.operands]


def extend_results(op: ControlOp) -> list[SSAValue]:
    """Gives an operator results for what its regions yield beyond those that it has."""
    tensor_types, count = op.infer(), len(op.results)
    new = [OpResult(each, op, n) for n, each in enumerate(tensor_types) if n >= count]
    op.results = SSAValues([*op.results, *new])
    return list[SSAValue](new)
