"""program -> program: chooses the layouts of the buffers between kernels.

A buffer of the workspace is row-major or blocked, as kernels like it best: the choice starts from
all of one kind and changes single buffers as long as the sum of what kernels and conversions cost
falls. Kernels that get other layouts in some calls become variants. What the caller sees, and what
is viewed under another shape, stays row-major. Runs before kernels are scheduled: subscripts are
logical, so that only types change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from weft.compiler.program.layouts.kernel_table import KernelTable, branch_blocks
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import COPIES, CallOp, KernelOp, ProgramOp, ViewOp
from weft.dialects.loop.types import BufferType, buffer_type_of

BufferTypes = tuple[BufferType, ...]

IMAGE = 4
"""Axes of buffers that have channels whatever is done with them."""

MOST_SWEEPS = 8
"""Over the buffers, until no single change is for the better."""


class LayoutChoices(Protocol):
    """What kernels say about layouts; the driver implements it by the loop level."""

    def candidate(self, buffer_type: BufferType) -> BufferType | None:
        """The other layout that a type may have."""
        ...

    def wants(self, kernel: KernelOp) -> bool:
        """Whether a kernel gains by it where buffers have fewer than four axes. Others of such are
        asked about only where calls connect them to one, for rows of matrices are no channels.
        """
        ...

    def cost(self, kernel: KernelOp, blocked: Sequence[bool]) -> float:
        """What a kernel costs with these arguments in their other layout."""
        ...

    def conversion(self, buffer_type: BufferType) -> float:
        """What it costs to bring a buffer into another layout."""
        ...

    def variant(self, kernel: KernelOp, buffer_types: BufferTypes) -> KernelOp:
        """The kernel with arguments of these types."""
        ...

    def copy(self, source: BufferType, target: BufferType) -> KernelOp:
        """A kernel that converts."""
        ...


def choose_layouts(module: ModuleOp, choices: LayoutChoices) -> None:
    """Rewrites the buffers and calls of each program of the module, and its kernels."""
    table = KernelTable(module)
    for program in [op for op in module.ops if isinstance(op, ProgramOp)]:
        for block in branch_blocks(program):
            chosen = _Search(block, table, choices).run()
            _Rewriting(block, table, choices).run(chosen)
    table.drop_unused()


@dataclass
class _Search:
    """The search for the cheapest choice for one block."""

    block: Block
    table: KernelTable
    choices: LayoutChoices
    known: dict[tuple[str, tuple[bool, ...]], float] = field(
        default_factory=dict[tuple[str, tuple[bool, ...]], float]
    )

    def run(self) -> set[SSAValue]:
        """The buffers that become blocked."""
        self.calls = [op for op in self.block.ops if isinstance(op, CallOp)]
        self.calls_of: dict[SSAValue, list[CallOp]] = {}
        for call in self.calls:
            for argument in dict.fromkeys(call.arguments):
                self.calls_of.setdefault(argument, []).append(call)
        reached = self._reached()
        free = [
            value
            for value in self.calls_of
            if (value in reached or buffer_type_of(value).rank >= IMAGE) and self._is_free(value)
        ]
        if not free:
            return set()
        results = [self._descend(set(start), free) for start in ((), free)]
        return min(results, key=self._total)

    def _reached(self) -> set[SSAValue]:
        """The buffers that are connected by calls to a kernel that may gain."""
        waiting = [call for call in self.calls if self.choices.wants(self.table[call.kernel])]
        reached: set[SSAValue] = set()
        while waiting:
            for value in waiting.pop().arguments:
                if isinstance(value.owner, AllocOp) and value not in reached:
                    reached.add(value)
                    waiting += self.calls_of[value]
        return reached

    def _is_free(self, value: SSAValue) -> bool:
        if not isinstance(value.owner, AllocOp) or value.owner.parent is not self.block:
            return False
        users = [use.operation for use in value.uses]
        known = all(isinstance(user, CallOp | ViewOp) for user in users)
        here = all(user.parent is self.block for user in users)
        return known and here and self.choices.candidate(buffer_type_of(value)) is not None

    def _descend(self, chosen: set[SSAValue], free: list[SSAValue]) -> set[SSAValue]:
        for _ in range(MOST_SWEEPS):
            changed = False
            for value in free:
                before = self._around(value, chosen)
                chosen ^= {value}
                if self._around(value, chosen) < before:
                    changed = True
                else:
                    chosen ^= {value}
            if not changed:
                break
        return chosen

    def _around(self, value: SSAValue, chosen: set[SSAValue]) -> float:
        """What the calls that use a buffer, and its conversion for views, cost."""
        calls = sum(self._call(call, chosen) for call in self.calls_of[value])
        return calls + self._view(value, chosen)

    def _total(self, chosen: set[SSAValue]) -> float:
        calls = sum(self._call(call, chosen) for call in self.calls)
        return calls + sum(self._view(value, chosen) for value in chosen)

    def _view(self, value: SSAValue, chosen: set[SSAValue]) -> float:
        if value not in chosen or not _views(value):
            return 0.0
        return self.choices.conversion(buffer_type_of(value))

    def _call(self, call: CallOp, chosen: set[SSAValue]) -> float:
        blocked = tuple(value in chosen for value in call.arguments)
        key = (call.kernel, blocked)
        if key not in self.known:
            self.known[key] = self.choices.cost(self.table[call.kernel], blocked)
        return self.known[key]


def _argument_types(
    kernel: KernelOp, blocked: Sequence[bool], choices: LayoutChoices
) -> Iterable[BufferType]:
    for argument, is_blocked in zip(kernel.body.block.args, blocked, strict=True):
        buffer_type = buffer_type_of(argument)
        other = choices.candidate(buffer_type) if is_blocked else buffer_type
        assert other is not None, "a kernel's argument has the candidates of the caller's buffer"
        yield other


def _views(value: SSAValue) -> list[ViewOp]:
    return [use.operation for use in value.uses if isinstance(use.operation, ViewOp)]


class _Rewriting(Struct):
    """Brings a choice into a block."""

    block: Block
    table: KernelTable
    choices: LayoutChoices

    def run(self, chosen: set[SSAValue]) -> None:
        """Changes the buffers' types, converts what is viewed, calls variants of kernels."""
        for call in [op for op in self.block.ops if isinstance(op, CallOp)]:
            blocked = [value in chosen for value in call.arguments]
            if any(blocked):
                self._call(call, blocked)
        position = {op: number for number, op in enumerate(self.block.ops)}
        for op in list(position):
            if isinstance(op, AllocOp) and op.result in chosen:
                self._retype(op.result, position)

    def _call(self, call: CallOp, blocked: Sequence[bool]) -> None:
        kernel = self.table[call.kernel]
        buffer_types = tuple(_argument_types(kernel, blocked, self.choices))
        key = (call.kernel, buffer_types)
        name = self.table.variant(key, lambda: self.choices.variant(kernel, buffer_types))
        call.properties["callee"] = SymbolRefAttr(name)

    def _retype(self, value: SSAValue, position: Mapping[Operation, int]) -> None:
        row_major = buffer_type_of(value)
        blocked_type = self.choices.candidate(row_major)
        assert blocked_type is not None, "a chosen buffer has a candidate"
        value = Rewriter.replace_value_with_new_type(value, blocked_type)
        views = sorted(_views(value), key=position.__getitem__)
        if not views:
            return
        copy = self.table.variant(
            (blocked_type, row_major), lambda: self.choices.copy(blocked_type, row_major)
        )
        names = dict.fromkeys(name for dim in row_major.shape for name in dim.symbols())
        target = AllocOp.of(row_major)
        call = CallOp.of(copy, [Expr.of(name) for name in names], [value, target.result])
        call.attributes[COPIES] = UnitAttr()
        self.block.insert_ops_before([target, call], views[0])
        for view in views:
            view.operands[0] = target.result
