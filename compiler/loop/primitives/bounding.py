"""The primitive that ends a loop where, as data tell, none of its iterations matter any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.legality import require_only_accessed
from weft.compiler.loop.matchers import sum_of_products
from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    combiner_of,
    describe,
    is_defined_inside,
    is_inside,
    is_pure,
    new_loop,
    redirect,
    set_exprs,
    stores_in,
    subscripts,
)
from weft.compiler.loop.primitives.marking import unroll
from weft.compiler.loop.primitives.ordering import reorder
from weft.compiler.loop.primitives.recording import primitive
from weft.compiler.loop.primitives.tiling import require_unmarked, tile
from weft.compiler.loop.strides import stride
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.loop.arithmetic import IndexOp
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.scalar import BOOL, I32, INDEX, Scalar, constant, is_float
from weft.dialects.loop.types import buffer, buffer_type_of


class Search(NamedTuple):
    """The loops over the accumulators of a search, which nothing is carried by."""

    lanes: tuple[ForOp, ...]


@primitive
def bound_loop(loop: ForOp, by: Operation, before: ForOp, size: int) -> Search:
    """Ends a loop behind the last `size` iterations of which one matters.

        for i:  for j < n:  t[i, j] = S(i, j)
        for i:  for j < n:  y[i, j] = c[i, j] ? t[i, j] : z
        ->  for jo < n / 16:  for i:  for ji < 16:  b[ji] = c[i, 16*jo + ji] ? jo + 1 : b[ji]
            for i:  for j < min(n, 16 * max(b)):  t[i, j] = S(i, j)
            for i:  for j < n:  y[i, j] = c[i, j] ? t[i, j] : z

    `by` is the select that alone reads what the loop stores, or the load of a factor of which the
    loop adds up products: a term that is zero counts for nothing. The search is `before` the nest
    around the loop. Raises IllegalSchedule where anybody else reads what the loop stores, the
    condition is computed from what changes meanwhile, and for a sum that is not marked as one.
    """
    require_unmarked("bound_loop", loop)
    if loop.lower != 0 or loop.step.data != 1:
        _refuse("a loop that counts from zero", loop)
    if loop.extent.constant is not None and loop.extent.constant < size:
        _refuse(f"at least {size} iterations", loop)
    condition, column = _sum(loop, by) if isinstance(by, LoadOp) else _selected(loop, by, before)
    ops = _computed_by(condition, by)
    _require_unchanged(ops, by, before)
    if not is_inside(loop, before):
        _refuse("a nest around the loop, or the loop itself, to search before", before)
    around = [each for each in _loops_between(by, before) if each is not column]
    loops = [*(each for each in around if _reads(ops, each)), column]
    _require_box(ops, loops, [*around, column])
    value, lanes = _search(ops, condition, loops, size, before)
    found, extent = maximum([Expr.of(0), Expr.atom(value)]), loop.extent
    whole = extent % size == 0
    end = minimum([extent // size, found]) * size if whole else minimum([extent, found * size])
    set_exprs(loop, [loop.lower, end])
    return Search(tuple(lanes))


def _refuse(rule: str, got: Operation) -> NoReturn:
    raise IllegalSchedule(f"bound_loop requires {rule}, got {describe(got)}")


def _sum(loop: ForOp, factor: LoadOp) -> tuple[SSAValue, ForOp]:
    """The factor, and the loop that adds up its products."""
    product = sum_of_products(loop)
    known = product is not None and factor in product[:2] and combiner_of(loop) == "add"
    if not known or not is_float(factor.buffer_type.element):
        _refuse("a sum of products of the factor, of floats", factor)
    return factor.result, loop


def _selected(loop: ForOp, select: Operation, before: ForOp) -> tuple[SSAValue, ForOp]:
    """The condition by which what the loop stores is read, and the loop that reads it."""
    stored = {store.buffer for store in stores_in(loop)}
    if not isinstance(select, arith.SelectOp) or len(stored) != 1 or is_inside(select, before):
        _refuse("a later select between what the loop stores and something else", select)
    (target,) = stored
    accesses = require_only_accessed("bound_loop", target)
    inside = [access for access in accesses if is_inside(access, loop)]
    (load, *others) = [access for access in accesses if access not in inside] or [None]
    if not isinstance(target.owner, AllocOp) or not is_float(buffer_type_of(target).element):
        _refuse("a local buffer of floats", select)
    if others or not isinstance(load, LoadOp):
        _refuse("that the select alone reads what the loop stores", select)
    value = load.result
    while value is not select.operands[1]:
        users = [use.operation for use in value.uses]
        if len(users) != 1 or not is_pure(users[0]) or users[0] is select:
            _refuse("that the select alone reads what the loop stores", load)
        value = users[0].results[0]
    if value.uses.get_length() != 1:
        _refuse("that the select alone reads what the loop stores", load)
    columns = [each for each in enclosing_loops(load) if _is_same_dim(loop, inside, load, each)]
    if not columns:
        _refuse("a select for each iteration of the loop", select)
    return select.operands[0], columns[0]


def _is_same_dim(loop: ForOp, accesses: Sequence[AccessOp], load: LoadOp, column: ForOp) -> bool:
    """Whether a loop's index is the subscript of what is loaded that the other loop's index is of
    what is stored, in no other dim, and both count alike.
    """
    dims = {
        dim
        for access, each in ((load, column), *((access, loop) for access in accesses))
        for dim, expr in enumerate(subscripts(access))
        if each.index in expr.atoms()
    }
    alike = (column.lower, column.extent, column.step.data) == (loop.lower, loop.extent, 1)
    exact = all(
        subscripts(access)[dim] == Expr.atom(loop.index) for access in accesses for dim in dims
    )
    own = all(subscripts(load)[dim] == Expr.atom(column.index) for dim in dims)
    return len(dims) == 1 and alike and exact and own


def _computed_by(condition: SSAValue, by: Operation) -> list[Operation]:
    """The operations of the loop around `by` that compute the condition, in their order."""
    needed: dict[Operation, None] = {}
    pending = [condition]
    while pending:
        op = pending.pop().owner
        if isinstance(op, Operation) and op.parent is by.parent and op not in needed:
            if not isinstance(op, LoadOp) and not is_pure(op):
                _refuse("a condition that is computed from loads alone", op)
            needed[op] = None
            pending += op.operands
    assert by.parent is not None, "a condition is in a loop"
    return [op for op in by.parent.ops if op in needed]


def _require_unchanged(ops: Sequence[Operation], by: Operation, before: ForOp) -> None:
    """Refuses a condition whose loads something stores to between the search and `by`."""
    loaded = {op.buffer for op in ops if isinstance(op, LoadOp)}
    for between in _until(by, before):
        for access in accesses_in(between):
            if isinstance(access, StoreOp) and access.buffer in loaded:
                _refuse("a condition that nothing stores to in between", access)


def _require_box(ops: Sequence[Operation], loops: Sequence[ForOp], around: Sequence[ForOp]) -> None:
    """Refuses a condition that a nest of the loops alone could not compute."""
    for loop in loops:
        plain = loop.lower == 0 and loop.step.data == 1
        if not plain or any(is_defined_inside(value, around[0]) for value in loop.operands):
            _refuse("loops from zero to what does not vary", loop)
    known = {loop.index for loop in loops} | {result for op in ops for result in op.results}
    for op in ops:
        for value in op.operands:
            if value not in known and any(is_defined_inside(value, loop) for loop in around):
                _refuse("a condition that is computed next to what it selects", op)


def _until(by: Operation, before: ForOp) -> Iterator[Operation]:
    """The operations of a block from one up to that which `by` is inside."""
    current: Operation | None = before
    while current is not None:
        yield current
        if is_inside(by, current):
            return
        current = current.next_op
    _refuse("a select behind the loop", by)


def _loops_between(by: Operation, before: ForOp) -> list[ForOp]:
    """The loops around `by` that are not around the search."""
    shared = enclosing_loops(before)
    return [loop for loop in enclosing_loops(by) if loop not in shared]


def _reads(ops: Sequence[Operation], loop: ForOp) -> bool:
    return any(loop.index in op.operands for op in ops)


def _search(
    ops: Sequence[Operation], condition: SSAValue, loops: Sequence[ForOp], size: int, before: ForOp
) -> tuple[SSAValue, list[ForOp]]:
    """Nests before a loop which find how many times `size` iterations of the last of the loops
    there are up to one for which the condition holds; and the loops over accumulators.
    """
    *outer, column = loops
    rows = next((loop for loop in outer[::-1] if _goes_along(ops, loop)), None)
    point = InsertPoint.before(before)
    count = size if rows is None else rows.extent.constant or size
    found = _accumulators("found", count, point)
    lanes = [_zero(found, count, point)]
    order = [column, *(loop for loop in outer if loop is not rows), *([rows] if rows else [])]
    copies = {loop: new_loop(loop.extent, loop.index.name_hint or "i") for loop in order}
    for each in copies.values():
        Rewriter.insert_op(each, point)
        point = InsertPoint.at_end(each.body.block)
    indices = {loop.index: copy.index for loop, copy in copies.items()}
    here = Expr.atom(copies[column].index)
    position = here % size if rows is None else Expr.atom(copies[rows].index)
    _note(ops, condition, indices, Builder(point), found, position, here // size + 1)
    if rows is not None:
        return _greatest(found, count, InsertPoint.before(before)), [*lanes, copies[rows]]
    outside, inside, rest = tile(copies[column], size)
    reorder(outside, *(copies[loop] for loop in order[1:]), inside)
    for access in accesses_to(found, rest) if rest is not None else ():
        redirect(access, found, [Expr.of(0)])
    return _greatest(found, count, InsertPoint.before(before)), [*lanes, inside]


def _goes_along(ops: Sequence[Operation], loop: ForOp) -> bool:
    """Whether loads go along a loop of a constant number of iterations."""
    loads = [op for op in ops if isinstance(op, LoadOp)]
    return loop.extent.constant is not None and any(stride(load, loop) == 1 for load in loads)


def _accumulators(name: str, count: int, point: InsertPoint) -> SSAValue:
    allocation = AllocOp.of(buffer([count], I32), "registers")
    allocation.result.name_hint = name
    Rewriter.insert_op(allocation, point)
    return allocation.result


def _zero(found: SSAValue, count: int, point: InsertPoint) -> ForOp:
    """A loop that says of all accumulators that nothing was found."""
    loop = new_loop(count, "l")
    Rewriter.insert_op(loop, point)
    builder = Builder(InsertPoint.at_end(loop.body.block))
    zero = constant(builder, 0, I32)
    builder.insert(StoreOp.of(zero.value, found, [Expr.atom(loop.index)]))
    return loop


def _note(
    ops: Sequence[Operation],
    condition: SSAValue,
    indices: Mapping[SSAValue, SSAValue],
    builder: Builder,
    found: SSAValue,
    position: Expr,
    number: Expr,
) -> None:
    """Sets an accumulator to a number where the condition holds."""
    values = dict(indices)
    for op in ops:
        builder.insert(op.clone(values))
    value = values[condition]
    holds = Scalar(builder, value, value.type).cast(BOOL)
    index = builder.insert(IndexOp.of(number))
    new = Scalar(builder, index.result, INDEX).cast(I32)
    old = Scalar(builder, builder.insert(LoadOp.of(found, [position])).result, I32)
    builder.insert(StoreOp.of(holds.select(new, old).value, found, [position]))


def _greatest(found: SSAValue, count: int, point: InsertPoint) -> SSAValue:
    """The greatest accumulator, as an index."""
    most = _accumulators("most", 1, point)
    _zero(most, 1, point)
    loop = new_loop(count, "l")
    Rewriter.insert_op(loop, point)
    builder = Builder(InsertPoint.at_end(loop.body.block))
    each, so_far = (
        Scalar(builder, builder.insert(LoadOp.of(source, [at])).result, I32)
        for source, at in ((found, Expr.atom(loop.index)), (most, Expr.of(0)))
    )
    builder.insert(StoreOp.of(each.maximum(so_far).value, most, [Expr.of(0)]))
    unroll(loop)
    builder = Builder(point)
    last = Scalar(builder, builder.insert(LoadOp.of(most, [Expr.of(0)])).result, I32)
    return last.cast(INDEX).value
