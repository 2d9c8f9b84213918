"""Operands within a border: kernels that pad a copy of an operand can read one that is stored in
its border already.

    fill p;  for i:  p[i + 1] = x[i];  S(p)   ->   S(x'),  where x is stored at [1, n] of x'
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.dialects import arith
from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from weft.compiler.loop.nest import perfect_nest
from weft.dialects.expr import Atom, Expr, Operand
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import (
    BufferType,
    ExprsAttr,
    LayoutAttr,
    buffer_type_of,
    register_type,
)


class Halo(Struct, frozen=True):
    """How many elements of one value are stored before and behind each dim of a buffer."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    value: Attribute

    def around(self, buffer_type: BufferType) -> BufferType:
        """The type of a row-major or blocked buffer with its border."""
        grown = [
            a + n + b for a, n, b in zip(self.before, buffer_type.shape, self.behind, strict=True)
        ]
        dims = ExprsAttr(tuple(grown))
        if isinstance(buffer_type.layout, NoneAttr):
            return BufferType(dims, buffer_type.element, buffer_type.layout)
        positions = buffer_type.layout.subscripts.data
        storage = [
            extent + sum(self._border(position))
            for position, extent in zip(positions, buffer_type.layout.storage.data, strict=True)
        ]
        layout = LayoutAttr(buffer_type.layout.subscripts, ExprsAttr(tuple(storage)))
        return BufferType(dims, buffer_type.element, layout)

    def _border(self, position: Expr) -> tuple[int, int]:
        """The border along a subscript of the storage that indexes one whole dim."""
        for dim in range(len(self.before)):
            if position == Expr.of(Operand(dim)):
                return self.before[dim], self.behind[dim]
        return 0, 0

    def within(self, buffer_type: BufferType) -> BufferType:
        """The type of the buffer as it is stored inside its border."""
        around = self.around(buffer_type)
        positions = [Expr.of(Operand(dim)) for dim in range(buffer_type.rank)]
        moved: dict[Atom, Expr] = {
            Operand(dim): position + self.before[dim] for dim, position in enumerate(positions)
        }
        if isinstance(around.layout, LayoutAttr):
            positions = list(around.layout.subscripts.data)
        shifted = ExprsAttr(tuple(position.substitute(moved) for position in positions))
        return BufferType(
            buffer_type.dims, buffer_type.element, LayoutAttr(shifted, ExprsAttr(around.storage))
        )


class _Padding(Struct, frozen=True):
    """A padded copy in a kernel: its halo, allocation, and the nests that fill it."""

    halo: Halo
    allocation: AllocOp
    nests: tuple[ForOp, ForOp]


def halo_of(kernel: KernelOp, position: int) -> Halo | None:
    """The border of one value that the kernel puts around a copy of an argument that it reads
    nowhere else; None where it does not.
    """
    padding = _padding_of(kernel.body.block.args[position])
    return None if padding is None else padding.halo


def _padding_of(argument: SSAValue) -> _Padding | None:
    """The padded copy that is all that a kernel does with an argument: a local buffer that one nest
    fills with a constant, and a later one partly overwrites with the argument.
    """
    # The argument is loaded by the copy alone: within its border its elements have other addresses.
    load, copy = _only_user(argument), None
    if isinstance(load, LoadOp):
        copy = _only_user(load.result)
    if not isinstance(load, LoadOp) or not isinstance(copy, StoreOp):
        return None
    allocation = copy.buffer.owner
    if not isinstance(allocation, AllocOp) or not _reaches_all(load):
        return None
    # The buffer becomes the argument, which other kernels read too: besides copy and fill it may
    # only be loaded, and the fill has to leave one value in all of the border.
    others = [use.operation for use in copy.buffer.uses if use.operation is not copy]
    fills = [other for other in others if isinstance(other, StoreOp)]
    constant = fills[0].value.owner if len(fills) == 1 else None
    known = all(isinstance(other, AccessOp) for other in others)
    if not isinstance(constant, arith.ConstantOp) or not known or not _reaches_all(fills[0]):
        return None
    # Both nests go, so nothing else may be in them; and a fill that came after the copy would leave
    # nothing of the argument.
    nests = enclosing_loops(fills[0])[0], enclosing_loops(copy)[0]
    if not (_is_only(nests[0], constant, fills[0]) and _is_only(nests[1], load, copy)):
        return None
    in_order = nests[0].is_before_in_block(nests[1])
    halo = _halo(buffer_type_of(argument), copy, load, constant.value)
    fits = halo is not None and halo.around(buffer_type_of(argument)) == copy.buffer_type
    return _Padding(halo, allocation, nests) if halo and fits and in_order else None


def _only_user(value: SSAValue) -> Operation | None:
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def _reaches_all(access: AccessOp) -> bool:
    """Whether the loops around an access index the dims of its buffer, each from end to end."""
    loops = enclosing_loops(access)
    extents: dict[Expr, Expr] = {
        Expr.atom(loop.index): loop.extent
        for loop in loops
        if loop.lower == 0 and loop.step.data == 1
    }
    dims = list(zip(access.index, access.buffer_type.shape, strict=True))
    moving = [(expr, dim) for expr, dim in dims if dim != 1 or expr != 0]
    whole = all(extents.get(expr) == dim for expr, dim in moving)
    return whole and bool(moving) and len({expr for expr, _ in moving}) == len(moving) == len(loops)


def _is_only(nest: ForOp, *ops: Operation) -> bool:
    """Whether a perfect nest holds these operations and no others."""
    return list(perfect_nest(nest)[-1].body.block.ops) == list(ops)


def _halo(buffer_type: BufferType, copy: StoreOp, load: LoadOp, value: Attribute) -> Halo | None:
    before = [(to - at).constant for to, at in zip(copy.index, load.index, strict=True)]
    grown = zip(copy.buffer_type.shape, buffer_type.shape, strict=True)
    both = [(around - dim).constant for around, dim in grown]
    if any(n is None for n in (*before, *both)):
        return None
    front = tuple(n or 0 for n in before)
    behind = tuple((n or 0) - a for n, a in zip(both, front, strict=True))
    return Halo(front, behind, value) if min(*front, *behind) >= 0 else None


def without_padding(kernel: KernelOp, position: int) -> KernelOp:
    """A copy of the kernel that takes the argument within its border and copies it no more."""
    copy = kernel.clone()
    argument = copy.body.block.args[position]
    padding = _padding_of(argument)
    assert padding is not None, "the caller asked for the halo"
    for nest in padding.nests:
        Rewriter.erase_op(nest)
    buffer_type = buffer_type_of(padding.allocation.result)
    argument = Rewriter.replace_value_with_new_type(argument, buffer_type)
    padding.allocation.result.replace_all_uses_with(argument)
    Rewriter.erase_op(padding.allocation)
    return copy


def with_types(kernel: KernelOp, buffer_types: Sequence[BufferType]) -> KernelOp:
    """A copy of the kernel whose arguments have these types."""
    copy = kernel.clone()
    for argument, buffer_type in zip(list(copy.body.block.args), buffer_types, strict=True):
        if argument.type != buffer_type:
            Rewriter.replace_value_with_new_type(argument, buffer_type)
    return copy


def border_kernel(buffer_type: BufferType, halo: Halo) -> KernelOp:
    """A kernel that fills the border around a buffer of that type; its argument holds both."""
    around = halo.around(buffer_type)
    symbols = list(dict.fromkeys(name for dim in buffer_type.shape for name in dim.symbols()))
    kernel = KernelOp.of("border", symbols, [around])
    builder = LoopBuilder(kernel.body.block)
    for axis in range(buffer_type.rank):
        inner = buffer_type.shape[axis] + halo.before[axis]
        for start, count in ((Expr.of(0), halo.before[axis]), (inner, halo.behind[axis])):
            if count:
                _fill(builder, kernel, around, halo, (axis, start, count))
    return kernel


def _fill(
    builder: LoopBuilder,
    kernel: KernelOp,
    around: BufferType,
    halo: Halo,
    part: tuple[int, Expr, int],
) -> None:
    """Fills one side: whole along later axes, without the sides of earlier ones."""
    axis, start, count = part
    extents = list(around.shape)
    starts = [Expr.of(0)] * around.rank
    extents[axis], starts[axis] = Expr.of(count), start
    for earlier in range(axis):
        extents[earlier] = extents[earlier] - halo.before[earlier] - halo.behind[earlier]
        starts[earlier] = Expr.of(halo.before[earlier])
    with builder.loops(extents) as index:
        constant = arith.ConstantOp.create(
            result_types=[register_type(around.element)], properties={"value": halo.value}
        )
        value = builder.builder.insert(constant).result
        position = [at + first for at, first in zip(index, starts, strict=True)]
        builder.builder.insert(StoreOp.of(value, kernel.body.block.args[0], position))
