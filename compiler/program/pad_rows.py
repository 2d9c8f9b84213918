"""program -> program: one for lesser sizes than another is for. It pads inputs, runs the other, and
crops outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, i8
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.dispatch import CallProgramOp
from weft.dialects.loop.extents import RequireExtentsOp
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import BOUNDS, CallOp, KernelOp, ProgramOp
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer, buffer_type_of

Op = TypeVar("Op", bound=Operation)

Name = Callable[[KernelOp], object]
"""Names a kernel after what it does; handed in by the pipeline."""


def padding_program(
    chooser: ProgramOp,
    name: str,
    sizes: Mapping[str, int],
    callee: ProgramOp,
    workspace: Expr,
    masks: Collection[str],
    name_kernel: Name,
) -> ModuleOp:
    """A module of the program of that name and its kernels. It takes what the chooser does, in
    sizes of at least 1 and at most `sizes`, and runs the callee, which is for these and needs
    `workspace` bytes. Rows that are missing repeat the last; those of inputs in `masks` are 0.
    """
    program = ProgramOp.of(
        name,
        chooser.symbol_names,
        [buffer_type_of(each) for each in chooser.body.block.args],
        chooser.inputs.data,
    )
    program.attributes |= {key: each for key, each in chooser.attributes.items() if key != BOUNDS}
    program.attributes[BOUNDS] = _bounds(chooser, sizes)
    padding = _Padding(program, sizes, name_kernel)
    for op in callee.body.block.ops:
        if isinstance(op, RequireExtentsOp):
            padding.add(op.clone())  # the callee does not check its sizes
    arguments = list(program.body.block.args)
    read, written = arguments[: program.inputs.data], arguments[program.inputs.data :]
    names = _input_names(program)
    given = [
        padding.pad(each, zero=input_name in masks)
        for each, input_name in zip(read, names, strict=True)
    ]
    filled = [padding.room(each) for each in written]
    arena = padding.add(AllocOp.of(buffer([workspace], i8))).result
    own = [Expr.of(each) for each in callee.symbol_names]
    padding.add(CallProgramOp.of(callee.sym_name.data, own, [*given, *filled], len(read), arena))
    for source, target in zip(filled, written, strict=True):
        padding.crop(source, target)
    return ModuleOp([*padding.kernels.values(), program])


def _bounds(chooser: ProgramOp, sizes: Mapping[str, int]) -> DictionaryAttr:
    known = chooser.attributes.get(BOUNDS)
    bounds = dict(known.data) if isinstance(known, DictionaryAttr) else {}
    own = {name: ExprsAttr((Expr.of(1), Expr.of(most))) for name, most in sizes.items()}
    return DictionaryAttr(bounds | own)


def _input_names(program: ProgramOp) -> list[str]:
    names = program.attributes.get("input_names")
    if isa(names, ArrayAttr[StringAttr]):
        return [name.data for name in names]
    return [""] * program.inputs.data


class _Padding:
    """Writes a padding program; kernels that are alike are one."""

    def __init__(self, program: ProgramOp, sizes: Mapping[str, int], name_kernel: Name):
        self.block = program.body.block
        self.values: dict[Atom, Expr] = {Symbol(name): Expr.of(n) for name, n in sizes.items()}
        self.name_kernel = name_kernel
        self.kernels: dict[str, KernelOp] = {}

    def add(self, op: Op) -> Op:
        """Adds an operation to the program."""
        self.block.add_op(op)
        return op

    def room(self, value: SSAValue) -> SSAValue:
        """A buffer like the value for the greater sizes; itself where they are not in its dims."""
        buffer_type = buffer_type_of(value)
        padded = buffer_type.substitute(self.values)
        return value if padded == buffer_type else self.add(AllocOp.of(padded)).result

    def pad(self, value: SSAValue, *, zero: bool) -> SSAValue:
        """The value with rows behind its own."""
        room = self.room(value)
        if room is not value:
            self._call(
                pad_kernel(buffer_type_of(value), buffer_type_of(room), zero=zero), value, room
            )
        return room

    def crop(self, source: SSAValue, target: SSAValue) -> None:
        """Copies what the target has room for."""
        if source is not target:
            self._call(crop_kernel(buffer_type_of(source), buffer_type_of(target)), source, target)

    def _call(self, kernel: KernelOp, source: SSAValue, target: SSAValue) -> None:
        sizes = [Expr.of(name) for name in kernel.symbol_names]
        self.name_kernel(kernel)
        name = kernel.sym_name.data
        self.kernels.setdefault(name, kernel)
        self.add(CallOp.of(name, sizes, [source, target]))


def pad_kernel(source: BufferType, target: BufferType, *, zero: bool) -> KernelOp:
    """A kernel that copies the source to the start of the target, along every dim, and fills the
    rest with 0, or with the last element of the source along each dim.
    """
    kernel = _kernel("pad_rows", source, target)
    given, padded = kernel.body.block.args
    builder = LoopBuilder(kernel.body.block)
    with builder.loops(source.shape) as index:
        builder.store(padded, index, builder.load(given, index))
    filled = list(source.shape)
    for axis, (dim, whole) in enumerate(zip(source.shape, target.shape, strict=True)):
        if dim == whole:
            continue
        _fill_behind(builder, padded, filled, axis, whole, zero=zero)
        filled[axis] = whole
    return kernel


def _fill_behind(
    builder: LoopBuilder,
    padded: SSAValue,
    filled: Sequence[Expr],
    axis: int,
    whole: Expr,
    *,
    zero: bool,
) -> None:
    """Fills what is stored behind the filled elements along an axis."""
    dim = filled[axis]
    extents = [*filled[:axis], whole - dim, *filled[axis + 1 :]]
    with builder.loops(extents) as index:
        position = [*index[:axis], index[axis] + dim, *index[axis + 1 :]]
        last = [*index[:axis], dim - 1, *index[axis + 1 :]]
        element = buffer_type_of(padded).element
        value = builder.constant(0, element) if zero else builder.load(padded, last)
        builder.store(padded, position, value)


def crop_kernel(source: BufferType, target: BufferType) -> KernelOp:
    """A kernel that copies the start of the source along every dim to the target."""
    kernel = _kernel("crop_rows", source, target)
    builder = LoopBuilder(kernel.body.block)
    with builder.loops(target.shape) as index:
        given, cropped = kernel.body.block.args
        builder.store(cropped, index, builder.load(given, index))
    return kernel


def _kernel(stem: str, source: BufferType, target: BufferType) -> KernelOp:
    names = (name for dim in (*source.shape, *target.shape) for name in dim.symbols())
    return KernelOp.of(stem, list(dict.fromkeys(names)), [source, target])
