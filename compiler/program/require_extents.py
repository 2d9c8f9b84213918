"""program -> program: requires that no buffer is too large, before anything uses its sizes.

Checks of the call's sizes stand at the start of the program. Those of data-dependent sizes stand
behind the last of their `loop.bind_symbol`, or at the start of the block. What compilation proves,
or another check implies, is left out. Naive kernels show the tensors inside of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, LocationAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from weft.compiler.program.memory.plan_memory import kernels_of
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.dynamic import BindSymbolOp
from weft.dialects.loop.extents import RequireExtentsOp, Volume, not_implied, size_limits
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, size_ranges
from weft.dialects.loop.types import BufferType


class RequireExtentsPass(ModulePass):
    """Puts `loop.require_extents` in front of what uses buffers that may be too large."""

    name = "weft-require-extents"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        require_extents(op)


def require_extents(module: ModuleOp) -> None:
    """Adds the requirements to each program of the module, whose kernels are naive."""
    inner = {
        name: (kernel.symbol_names, _tensors_inside(kernel))
        for name, kernel in kernels_of(module).items()
    }
    for program in module.ops:
        if isinstance(program, ProgramOp):
            _Requirements(program, inner).insert()


def _tensors_inside(kernel: KernelOp) -> list[BufferType]:
    inner_types = (op.result.type for op in kernel.walk() if isinstance(op, AllocOp))
    return list(dict.fromkeys(each for each in inner_types if isinstance(each, BufferType)))


class _Buffer(Struct, frozen=True):
    """A buffer's type, its name in errors, and what it comes from."""

    buffer_type: BufferType
    volume: Volume
    who: str
    location: LocationAttr


class _Requirements:
    """The requirements of one program; `inner` are the sizes of its kernels, and the tensors inside
    of these.
    """

    def __init__(self, program: ProgramOp, inner: Mapping[str, tuple[list[str], list[BufferType]]]):
        self.program = program
        self.inner = inner
        self.volumes: dict[BufferType, Volume] = {}
        self.free = set(program.symbol_names)
        bound = {op.size.data for op in program.walk() if isinstance(op, BindSymbolOp)}
        self.finds_sizes = bool(bound)
        self.ranges = size_limits([*program.symbol_names, *bound], size_ranges(program))

    def insert(self) -> None:
        """Adds them all."""
        block = self.program.body.block
        if self.finds_sizes:
            self._visit(block, set())
        if self.free:
            buffers: dict[Volume, _Buffer] = {}
            inside = (buffer for op in block.walk() for buffer in self._buffers(op))
            for each in chain(self._arguments(), inside):
                buffers.setdefault(each.volume, each)
            free = [each for volume, each in buffers.items() if volume.names() <= self.free]
            self._insert(block, None, free)

    def _arguments(self) -> Iterator[_Buffer]:
        program, count = self.program, self.program.inputs.data
        names = [*_names(program, "input_names"), *_names(program, "output_names")]
        for number, argument in enumerate(program.body.block.args):
            side = "input" if number < count else "output"
            name = names[number] if number < len(names) else argument.name_hint or str(number)
            assert isinstance(argument.type, BufferType), "programs take buffers"
            yield self._buffer(argument.type, f"{side} '{name}'", program.location)

    def _buffer(self, buffer_type: BufferType, who: str, location: LocationAttr) -> _Buffer:
        if buffer_type not in self.volumes:
            self.volumes[buffer_type] = Volume.of(buffer_type)
        return _Buffer(buffer_type, self.volumes[buffer_type], who, location)

    def _buffers(self, op: Operation) -> Iterator[_Buffer]:
        """The buffers that an operation is about, those inside of the kernel that it calls too."""
        value_types = [value.type for value in (*op.results, *op.operands)]
        if isinstance(op, CallOp):
            value_types += self._inside(op)
        for value_type in value_types:
            if isinstance(value_type, BufferType):
                yield self._buffer(value_type, "a tensor", op.location)

    def _inside(self, call: CallOp) -> list[BufferType]:
        names, inner_types = self.inner.get(call.kernel, ((), ()))
        pairs = zip(names, call.sizes.data, strict=False)
        values: dict[Atom, Expr] = {Symbol(name): size for name, size in pairs}
        return [each.substitute(values) for each in inner_types]

    def _visit(self, block: Block, required: set[Volume]) -> None:
        """Requires what is about found sizes; `required` is so where the block starts."""
        binds: dict[str, tuple[int, BindSymbolOp]] = {}
        needed: dict[BindSymbolOp | None, list[_Buffer]] = {}
        for number, op in enumerate(list(block.ops)):
            if isinstance(op, BindSymbolOp):
                binds[op.size.data] = number, op
                required = {each for each in required if op.size.data not in each.names()}
            for buffer in self._buffers(op):
                volume = buffer.volume
                if volume in required or volume.names() <= self.free:
                    continue
                required.add(volume)
                known = dict(binds[name] for name in volume.names() if name in binds)
                last = known[max(known)] if known else None
                needed.setdefault(last, []).append(buffer)
            for region in op.regions:
                self._visit(region.block, set(required))
        for bind, buffers in needed.items():
            self._insert(block, bind, buffers)

    def _insert(
        self, block: Block, behind: BindSymbolOp | None, buffers: Sequence[_Buffer]
    ) -> None:
        """Adds what has to be checked of buffers, at the block's start or behind a bind."""
        first = {each.volume: each for each in reversed(buffers)}
        volumes = not_implied((each.volume for each in buffers), self.ranges)
        made = [
            RequireExtentsOp.of(each.buffer_type, each.who, each.location)
            for each in map(first.__getitem__, volumes)
        ]
        if behind is not None:
            block.insert_ops_after(made, behind)
        elif block.first_op is not None:
            block.insert_ops_before(made, block.first_op)
        else:
            block.add_ops(made)


def _names(program: ProgramOp, key: str) -> list[str]:
    names = program.attributes.get(key)
    return [name.data for name in names] if isa(names, ArrayAttr[StringAttr]) else []
