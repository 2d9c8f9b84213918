"""Movements of movements, and of what elementwise operators and products read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.graph.match import only_user
from weft.compiler.graph.simplify.rewrites.expressions import (
    Match,
    Operator,
    Rewrite,
    Value,
    graph,
)
from weft.dialects.expr import Expr
from weft.dialects.graph import ExpandOp, ReshapeOp, TransposeOp
from weft.dialects.graph.core.algebra import Term, joined, shape_attr
from weft.dialects.graph.core.elementwise import BinaryOp
from weft.dialects.graph.core.op import ints
from weft.dialects.graph.core.types import I32, type_of
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.comparison import WhereOp
from weft.dialects.graph.ops.matmul import MatmulOp
from weft.dialects.graph.ops.sort import ArgsortOp
from weft.dialects.graph.reindexing.gather import GatherElementsOp, GatherOp
from weft.dialects.graph.reindexing.slicing import (
    ConcatOp,
    ScatterSliceOp,
    SliceOp,
    SplitOp,
    exprs,
    offsets,
)

x, y = Value("x"), Value("y")
indices = Value("indices", is_constant=True)


class Box(Struct, frozen=True):
    """What a slice takes of a tensor: for each axis the first index, how many, and the step."""

    source: SSAValue
    starts: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    steps: tuple[int, ...]

    def of(self, m: Match) -> Term:
        """The slice."""
        starts, sizes = shape_attr(self.starts), shape_attr(self.sizes)
        part = m.b.slice(self.source, starts=starts, sizes=sizes, steps=list(self.steps))
        return Term(m.b, part)

    def meets(self, other: Box, axis: int) -> bool:
        """Whether the other box begins along an axis where this one ends, and is else the same."""
        end = self.starts[axis] + self.sizes[axis] * self.steps[axis]
        moved = replace(other, starts=_with(other.starts, axis, self.starts[axis]))
        return other.starts[axis] == end and moved == replace(
            self, sizes=_with(self.sizes, axis, other.sizes[axis])
        )

    def and_more(self, other: Box, axis: int) -> Box:
        """Both as one, where they meet."""
        return replace(self, sizes=_with(self.sizes, axis, self.sizes[axis] + other.sizes[axis]))


def _with(dims: Sequence[Expr], axis: int, dim: Expr) -> tuple[Expr, ...]:
    return (*dims[:axis], dim, *dims[axis + 1 :])


def _box(value: SSAValue) -> Box | None:
    """What a part of a tensor is of it; None where the value is no part."""
    owner = value.owner
    if isinstance(owner, SliceOp):
        return Box(owner.operand, exprs(owner.starts), exprs(owner.sizes), ints(owner.steps))
    if not isinstance(owner, SplitOp) or not type_of(owner.operand).has_rank:
        return None
    shape = type_of(value).shape
    start = offsets(exprs(owner.sizes))[list(owner.parts).index(value)]
    starts = _with([Expr.of(0)] * len(shape), owner.position(len(shape)), start)
    return Box(owner.operand, starts, shape, (1,) * len(shape))


def _slice_of_slice(m: Match) -> Term | None:
    """`start + i * step` of what is `start' + i * step'` itself."""
    inner, outer = _box(m.op("inner", SliceOp).result), _box(m.root.results[0])
    assert inner is not None, "a slice is a part"
    assert outer is not None, "a slice is a part"
    pairs = list(zip(inner.starts, outer.starts, inner.steps, outer.steps, strict=True))
    starts = tuple(first + start * step for first, start, step, _ in pairs)
    steps = tuple(step * by for _, _, step, by in pairs)
    return Box(inner.source, starts, outer.sizes, steps).of(m)


def _sum_in_box(m: Match) -> Term | None:
    """The sum where the box is, which is a small part of the tensor; elsewhere zeros were added."""
    scattered = m.op("scattered", ScatterSliceOp)
    tensor_type, part_type = type_of(m["x"].value), type_of(scattered.operand)
    whole, part = tensor_type.size.constant, part_type.size.constant
    if tensor_type != scattered.result_type or not whole or part is None or 4 * part > whole:
        return None
    starts, steps = exprs(scattered.starts), ints(scattered.steps)
    box = Box(m["x"].value, starts, part_type.shape, steps).of(m) + m["y"]
    changed = m.b.insert_slice(m["x"].value, box.value, starts=scattered.starts, steps=list(steps))
    return Term(m.b, changed)


def _slice_of_concat(m: Match) -> Term | None:
    """A part of the one operand that all of it comes from."""
    whole, box = m.op("whole", ConcatOp), _box(m.root.results[0])
    assert box is not None, "a slice is a part"
    axis = whole.position(len(box.starts))
    last = box.starts[axis] + (box.sizes[axis] - 1) * box.steps[axis]
    for part, start, size in zip(whole.inputs, offsets(whole.sizes()), whole.sizes(), strict=True):
        if all(_within(index, start, size) for index in (box.starts[axis], last)):
            starts = _with(box.starts, axis, box.starts[axis] - start)
            return replace(box, source=part, starts=starts).of(m)
    return None


def _slice_of_parts(m: Match) -> Term | None:
    """Parts of several operands, one after the other, where it is known how many elements each has:
    of one with the indices `[start, end)` those from `ceil((start - first) / step)` on, up to
    `ceil((end - first) / step)`.
    """
    whole, box = m.op("whole", ConcatOp), _box(m.root.results[0])
    assert box is not None, "a slice is a part"
    axis = whole.position(len(box.starts))
    first, size, step = box.starts[axis], box.sizes[axis], box.steps[axis]
    if step < 0:
        return None
    taken: list[SSAValue] = []
    for part, start, length in zip(
        whole.inputs, offsets(whole.sizes()), whole.sizes(), strict=True
    ):
        low, high = (_clamped((end - first).ceildiv(step), size) for end in (start, start + length))
        if low is None or high is None:
            return None
        starts = _with(box.starts, axis, first + low * step - start)
        own = replace(box, source=part, starts=starts, sizes=_with(box.sizes, axis, high - low))
        taken += [own.of(m).value] if low != high else []
    return _joined(m, taken, axis) if taken else None


def _clamped(position: Expr, size: Expr) -> Expr | None:
    """A position as one of 0 to a size; None where that depends on sizes."""
    if _never_negative(-position):
        return Expr.of(0)
    if _never_negative(position - size):
        return size
    inside = _never_negative(position) and _never_negative(size - position)
    return position if inside else None


def _never_negative(expr: Expr) -> bool:
    """Whether the value is 0 or more whatever the sizes are."""
    low, _ = expr.range({})
    return low is not None and low >= 0


def _within(index: Expr, start: Expr, size: Expr) -> bool:
    """Whether an index is inside of a part, whatever the sizes are."""
    return _never_negative(index - start) and _never_negative(start + size - 1 - index)


def _concat_of_concat(m: Match) -> Term | None:
    """The operands of all in one row."""
    outer = m.op("outer", ConcatOp)
    axis = outer.position(outer.result_type.rank)
    operands: list[SSAValue] = []
    for operand in outer.inputs:
        inner = _joined_for_one(operand, axis)
        operands += [operand] if inner is None else inner.inputs
        m.matched += [] if inner is None else [inner]
    return _joined(m, operands, axis) if len(operands) > len(outer.inputs) else None


def _joined_for_one(value: SSAValue, axis: int) -> ConcatOp | None:
    """What puts a value together along an axis for its one user."""
    owner = value.owner
    if not isinstance(owner, ConcatOp) or only_user(value) is None:
        return None
    return owner if owner.position(type_of(value).rank) == axis else None


def _joined(m: Match, values: Sequence[SSAValue], axis: int) -> Term:
    return joined([Term(m.b, value) for value in values], axis)


def _concat_of_parts(m: Match) -> Term | None:
    """Parts that lie side by side in their tensor are one part."""
    whole = m.op("whole", ConcatOp)
    axis = whole.position(whole.result_type.rank)
    runs: list[SSAValue | Box] = []
    for operand in whole.inputs:
        box, last, owner = _box(operand), runs[-1] if runs else None, operand.owner
        m.matched += [owner] if isinstance(owner, SliceOp | SplitOp) else []
        if box is not None and isinstance(last, Box) and last.meets(box, axis):
            runs[-1] = last.and_more(box, axis)
        else:
            runs.append(operand if box is None else box)
    if len(runs) == len(whole.inputs):
        return None
    return _joined(m, [run.of(m).value if isinstance(run, Box) else run for run in runs], axis)


def _slice_of_axis(m: Match) -> Term | None:
    """Indices at equal distances along an axis of known size are a slice."""
    gather, source = m.op("gather", GatherOp), m["x"]
    axis, numbers = gather.position, m.array("indices")
    size = source.shape[axis].constant
    if size is None or numbers is None or numbers.ndim > 1 or not numbers.size:
        return None
    positions = np.where(numbers < 0, numbers + size, numbers).reshape(-1).tolist()
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    if step == 0 or positions != list(
        range(positions[0], positions[0] + step * len(positions), step)
    ):
        return None
    rank = len(source.shape)
    starts = _with([Expr.of(0)] * rank, axis, Expr.of(positions[0]))
    sizes = _with(source.shape, axis, Expr.of(len(positions)))
    steps = tuple(step if each == axis else 1 for each in range(rank))
    part = Box(source.value, starts, sizes, steps).of(m)
    return part.reshape(gather.result_type.shape)


def _first_of_gathered(m: Match) -> Term | None:
    """The first elements in the order of a sort, by the first of its positions."""
    box, gather = _first(m.root.results[0]), m.op("gather", GatherElementsOp)
    if box is None or box[0] != gather.position:
        return None
    order = Term(m.b, m.op("order", ArgsortOp).result)
    return m.again(gather, m.values["x"], order.part(*box).value)


def _first_of_cast(m: Match) -> Term | None:
    """The same for positions that are cast."""
    box, cast = _first(m.root.results[0]), m.op("cast", CastOp)
    return None if box is None else Term(m.b, cast.operand).part(*box).cast(cast.to)


def _first_of_order(m: Match) -> Term | None:
    """A sort of which all that read it, or elements in its order, take the same first positions."""
    order = m.op("order", ArgsortOp)
    box, users = _first(m.root.results[0]), [use.operation for use in order.result.uses]
    if box is None or box[0] != order.position:
        return None
    for user in users:
        moved = isinstance(user, CastOp | GatherElementsOp)
        reader = only_user(user.results[0]) if moved else user
        if not isinstance(reader, SliceOp) or _first(reader.result) != box:
            return None
    return m.again(order, order.operand, count=shape_attr([box[2]]))


def _first(value: SSAValue) -> tuple[int, int, Expr] | None:
    """The one axis along which a slice takes the first elements alone, 0, and how many."""
    box = _box(value)
    if box is None or any(start != 0 for start in box.starts) or {*box.steps} != {1}:
        return None
    shape = type_of(box.source).shape
    cut = [axis for axis, size in enumerate(box.sizes) if size != shape[axis]]
    return (cut[0], 0, box.sizes[cut[0]]) if len(cut) == 1 else None


def _transpose_of_both(m: Match) -> Term | None:
    """`f(x.T, y.T)` as `f(x, y).T`, where both have the same axes in the same order."""
    first, second = m.op("first", TransposeOp), m.op("second", TransposeOp)
    if first.axes != second.axes:
        return None
    return m.again(m.root, first.operand, second.operand).transpose(first.axes)


def _transposed_rows(m: Match) -> Term | None:
    """`f(transpose(x), w)` as `transpose(f(x, w))`, where `f` is of rows and `transpose`
    moves these: rows that follow each other in memory are one dim of a product.
    """
    outer, most = m.op("outer", TransposeOp), 2 if isinstance(m.root, MatmulOp) else 1
    last = len(outer.axes) - 1
    if last < 2 or outer.axes[last] != last or len(m["w"].shape) > most:
        return None
    return m.again(m.root, outer.operand, m.values["w"]).transpose(outer.axes)


def _transposed_product(m: Match) -> Term | None:
    """`(x.T @ y).T` as `y.T @ x`, one transpose less at least; batches stay where they are. Other
    orders of the axes stay behind the product, where `y` is transposed as well.
    """
    product, order = m.op("product", MatmulOp), m.op("outer", TransposeOp).axes
    last = len(order) - 1
    swap = (*range(last - 1), last, last - 1)
    behind = [swap[axis] for axis in order]
    if m.op("inner", TransposeOp).axes != swap:
        return None
    factors = product.lhs, product.rhs
    if behind != sorted(behind) and not all(isinstance(x.owner, TransposeOp) for x in factors):
        return None
    if any(type_of(each).rank != len(order) for each in factors):
        return None
    lhs, rhs = (Term(m.b, each).transpose(swap) for each in factors)
    return rhs.matmul(lhs).transpose(behind)


def _unexpanded(m: Match) -> Term | None:
    """`f(expand(x), y)` as `f(x, y)`, which broadcasts `x` where that gives the same shape; dims of
    1 in front of those of `x` go as well.
    """
    operands = list(m.root.slots())
    for at, each in enumerate(operands):
        if each is not None and _is_broadcast(each.owner):
            m.matched.append(each.owner)
            operands[at] = each.owner.operand
    return m.again(m.root, *operands) if operands != list(m.root.slots()) else None


def _is_broadcast(op: Operation | Block) -> TypeGuard[ExpandOp | ReshapeOp]:
    """Whether an operator repeats elements along dims of 1, or puts such dims in front."""
    if not isinstance(op, ReshapeOp) or not type_of(op.operand).has_rank:
        return isinstance(op, ExpandOp)
    inner, outer = type_of(op.operand).shape, op.result_type.shape
    return outer == (*[Expr.of(1)] * (len(outer) - len(inner)), *inner) != inner


def _transposed(product: Operator) -> Operator:
    return graph.transpose(product.named("product").alone()).named("outer")


def _part(name: str) -> Operator:
    return Operator((SliceOp, SplitOp), (x,)).named(name)


transposed = graph.transpose(x).named("outer").alone()
broadcast = Operator((ExpandOp, ReshapeOp), (x,))
factor = graph.transpose(Value("z")).named("inner")
product = graph.transpose(graph.matmul(x, y).alone()).named("outer").alone()

order = graph.argsort(y).named("order")

MOVEMENTS = (
    Rewrite("slice of slice", graph.slice(graph.slice(x).named("inner")), _slice_of_slice),
    Rewrite(
        "sum with a scattered part",
        graph.add(x, graph.scatter_slice(y).named("scattered").alone()),
        _sum_in_box,
        exact=False,
    ),
    Rewrite("slice of concat", graph.slice(graph.concat().named("whole")), _slice_of_concat),
    Rewrite(
        "slice of several parts",
        graph.slice(graph.concat().named("whole").alone()),
        _slice_of_parts,
    ),
    Rewrite(
        "concat of concat",
        graph.concat(graph.concat().alone()).anywhere().named("outer"),
        _concat_of_concat,
    ),
    Rewrite(
        "concat of adjacent parts",
        graph.concat(_part("first"), _part("second")).anywhere().named("whole"),
        _concat_of_parts,
    ),
    Rewrite(
        "first elements of a sort",
        graph.slice(graph.gather_elements(x, order).named("gather").alone()),
        _first_of_gathered,
    ),
    Rewrite(
        "first of a sort's positions in 32 bits",
        graph.slice(graph.cast(order, to=I32).named("cast").alone()),
        _first_of_cast,
    ),
    Rewrite(
        "first of a sort's positions",
        graph.slice(order),
        _first_of_order,
    ),
    Rewrite("gather of a range", graph.gather(x, indices).named("gather"), _slice_of_axis),
    Rewrite(
        "f(x.T, y.T)",
        Operator(
            (BinaryOp,),
            (graph.transpose(x).named("first").alone(), graph.transpose(y).named("second").alone()),
        ),
        _transpose_of_both,
    ),
    *(
        Rewrite(
            f"{'y, ' * at}expand(x)",
            Operator((BinaryOp, WhereOp), (*map(Value, "yz"[:at]), broadcast)),
            _unexpanded,
        )
        for at in range(3)
    ),
    Rewrite("transpose(x) @ w", graph.matmul(transposed, Value("w")), _transposed_rows),
    Rewrite("transpose(x @ y) + w", graph.add(product, Value("w")), _transposed_rows),
    Rewrite("(x.T @ y).T", _transposed(graph.matmul(factor, y)), _transposed_product),
    Rewrite("(x @ y.T).T", _transposed(graph.matmul(x, factor)), _transposed_product),
)
