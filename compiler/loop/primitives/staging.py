"""The primitives that give a loop a local tile of a buffer: a copy, or partial results of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdsl.builder import Builder
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.matchers import Update, update_of
from weft.compiler.loop.nest import (
    accesses_to,
    bounds_of,
    child_in,
    combiner_of,
    describe,
    extreme,
    is_defined_inside,
    is_inside,
    least_iterations,
    new_loop,
    ranges_of,
    redirect,
    subscript_atoms,
    subscripts,
    value_block,
    value_name,
)
from weft.compiler.loop.primitives.partials import combine, neutral_of
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr
from weft.dialects.interval import Range
from weft.dialects.loop.ops import (
    AccessOp,
    AllocOp,
    ForOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    enclosing_loops,
)
from weft.dialects.loop.program import KernelOp, size_ranges
from weft.dialects.loop.scalar import constant
from weft.dialects.loop.types import LayoutAttr, buffer, buffer_type_of


class Staged(NamedTuple):
    """The local buffer, and the nests that fill it and write it back: at least one loop each, of
    one iteration for a single element, or none at all where nothing is copied.
    """

    buffer: SSAValue
    load_in: tuple[ForOp, ...]
    write_back: tuple[ForOp, ...]


class _Region(NamedTuple):
    """A box of a buffer: its first element and how many there are along each dimension."""

    base: tuple[Expr, ...]
    extents: tuple[Expr, ...]


@primitive
def stage_tile(
    source: SSAValue,
    at: ForOp | KernelOp,
    scope: str = "registers",
    *,
    layout: LayoutAttr | None = None,
    named: str | None = None,
    load: LoadOp | None = None,
) -> Staged:
    """Gives each iteration of `at` a copy of its own of the tile of a buffer that it uses.

        for jo:                                   for jo:  a = alloc [6, 16]
          for ii, ji:  C[ii, 16*jo + ji] = 0        for ii, ji:  a[ii, ji] = 0
          for k:  for ii, ji:  C[...] += ...   ->   for k:  for ii, ji:  a[ii, ji] += ...
                                                    for ii, ji:  C[ii, 16*jo + ji] = a[ii, ji]

    The tile is the box that the subscripts span over the loops inside `at`. It is loaded first
    unless it is overwritten first, and written back if it is stored to, unless it is a temporary
    used nowhere else, which then goes. `layout` is that of the copy. Of a buffer that is loaded
    with several subscripts and not stored to, the copy may serve those of one `load` alone.

    A tile that is shorter in some iterations gets room for the longest. Raises IllegalSchedule for
    a tile whose offset is not known, for one without a longest outside of the workspace, and where
    writing it back would touch elements that the iteration does not store.
    """
    body = at.body.block
    accesses = _staged_accesses(source, at, load)
    _require_whole_view(source, at)
    region = _region_of(source, accesses, at)
    sizes = region.extents if scope == "workspace" else _sizes(source, region, at, scope)
    fresh = _is_overwritten_first(accesses, region, at)
    stored = any(isinstance(access, StoreOp) for access in accesses)
    temporary = fresh and _is_used_only_in(source, at)
    if stored and not temporary:
        _require_whole_store(source, accesses, region, at)
    children = [child for child in (child_in(body, access) for access in accesses) if child]
    copy = _allocate(source, sizes, scope, layout, named, children[0])
    for access in accesses:
        _redirect(access, copy, region)
    load_in = () if fresh else _copy(source, copy, region, InsertPoint.before(children[0]), True)
    write_back: tuple[ForOp, ...] = ()
    if stored and not temporary:
        write_back = _copy(source, copy, region, InsertPoint.after(children[-1]), False)
    if temporary:
        assert isinstance(source.owner, AllocOp), "a temporary is allocated"
        Rewriter.erase_op(source.owner)
    return Staged(copy, load_in, write_back)


@primitive
def stage_accumulators(
    source: SSAValue,
    at: ForOp,
    scope: str = "registers",
    *,
    layout: LayoutAttr | None = None,
    named: str | None = None,
) -> Staged:
    """Gives each iteration of `at` partial results of its own of the tile that it updates, which
    join the tile at its end.

        for ko:                           for ko:  p = alloc [6, 16]
          for ki reduction(add):            for ii, ji:  p[ii, ji] = 0
            for ii, ji:  C[...] += ...  ->  for ki reduction(add):  for ii, ji:  p[ii, ji] += ...
                                            for ii, ji:  C[...] += p[ii, ji]

    Sums of the sums of blocks keep more digits than one long sum. Raises IllegalSchedule where a
    loop inside comes back to an element and is no reduction of the kind of all updates, where
    anything else accesses the buffer there, and for tiles that `stage` refuses.
    """
    accesses = accesses_to(source, at)
    update = _require_updates(source, accesses, at)
    _require_whole_view(source, at)
    region = _region_of(source, accesses, at)
    sizes = _sizes(source, region, at, scope)
    _require_whole_store(source, accesses, region, at)
    children = [child for child in (child_in(at.body.block, a) for a in accesses) if child]
    partial = _allocate(source, sizes, scope, layout, named, children[0])
    fill, offsets, inside = _nest_over(region, InsertPoint.before(children[0]), "in")
    neutral = neutral_of(update.combiner, buffer_type_of(source).element)
    value = constant(inside, neutral, buffer_type_of(source).element).value
    inside.insert(StoreOp.of(value, partial, offsets))
    join, offsets, inside = _nest_over(region, InsertPoint.after(children[-1]), "st")
    index = [base + offset for base, offset in zip(region.base, offsets, strict=True)]
    combine(update, (source, index), partial, offsets, inside.insertion_point)
    for access in accesses:
        _redirect(access, partial, region)
    return Staged(partial, fill, join)


def _staged_accesses(
    source: SSAValue, at: ForOp | KernelOp, load: LoadOp | None
) -> Sequence[AccessOp]:
    """The accesses that a copy serves: all, or those with the subscripts of one load."""
    accesses = accesses_to(source, at)
    if not accesses:
        got = f"{value_name(source)} in {_where(at)}"
        raise IllegalSchedule(f"stage_tile requires a buffer that is used there, got {got}")
    return accesses if load is None else _alike(load, accesses)


def _alike(load: LoadOp, accesses: Sequence[AccessOp]) -> list[AccessOp]:
    """The accesses with the subscripts of one load, where all of them are loads."""
    wrong = next((each for each in accesses if isinstance(each, StoreOp)), load)
    if wrong is not load or load not in accesses:
        rule = "a load of a buffer that is not stored to there"
        raise IllegalSchedule(f"stage_tile requires {rule}, got {describe(wrong)}")
    return [each for each in accesses if each.index == load.index]


def _require_updates(source: SSAValue, accesses: Sequence[AccessOp], at: ForOp) -> Update:
    """The update of a buffer in a loop; refuses one whose terms may not have partial results."""
    updates = [update_of(access) for access in accesses]
    first = updates[0] if updates else None
    if first is None:
        got = describe(accesses[0]) if accesses else f"{value_name(source)} in {describe(at)}"
        raise IllegalSchedule(
            f"stage_accumulators requires a buffer that is updated there, got {got}"
        )
    # One update alone is one term in each iteration; of several, the loop has to allow it.
    alone = {update.store for update in updates if update is not None} == {first.store}
    for access, update in zip(accesses, updates, strict=True):
        combiners = {combiner_of(loop) for loop in _loops_revisiting(access, at)}
        combiners |= set() if alone else {combiner_of(at)}
        if update is None or combiners - {first.combiner} or update.combiner != first.combiner:
            rule = f"reductions of the updates' kind ({first.combiner})"
            raise IllegalSchedule(f"stage_accumulators requires {rule}, got {describe(access)}")
    return first


def _loops_revisiting(access: AccessOp, at: ForOp) -> list[ForOp]:
    """The loops inside `at` that access one element in all of their iterations."""
    used = subscript_atoms(access)
    loops = [loop for loop in enclosing_loops(access) if _is_within(loop, at)]
    return [loop for loop in loops if loop.index not in used]


def _require_whole_view(source: SSAValue, at: ForOp | KernelOp) -> None:
    """Refuses a buffer that is seen under another shape too, or is allocated inside of a part of
    `at`; an argument may be prefetched, and stays, while a local buffer may go.
    """
    if is_defined_inside(source, at) and value_block(source) is not at.body.block:
        got = f"{value_name(source)} in {_where(at)}"
        rule = "a buffer that lives as long as its copy"
        raise IllegalSchedule(f"stage_tile requires {rule}, got {got}")
    local = isinstance(source.owner, AllocOp)
    for use in source.uses:
        if not isinstance(use.operation, AccessOp if local else (AccessOp, PrefetchOp)):
            rule = f"that {value_name(source)} is only loaded and stored"
            raise IllegalSchedule(f"stage_tile requires {rule}, got {describe(use.operation)}")


def _where(at: ForOp | KernelOp) -> str:
    return f"@{at.sym_name.data}" if isinstance(at, KernelOp) else describe(at)


def _region_of(source: SSAValue, accesses: Sequence[AccessOp], at: ForOp | KernelOp) -> _Region:
    boxes = [_box_of(access, at) for access in accesses]
    base: list[Expr] = []
    extents: list[Expr] = []
    for dim in range(buffer_type_of(source).rank):
        lows, highs = zip(*(box[dim] for box in boxes), strict=True)
        low = _one_extreme(lows, accesses, greatest=False)
        base.append(low)
        extents.append(_one_extreme(highs, accesses, greatest=True) - low + 1)
    return _Region(tuple(base), tuple(extents))


def _sizes(source: SSAValue, region: _Region, at: ForOp | KernelOp, scope: str) -> tuple[Expr, ...]:
    """The most elements that the region has along each dimension."""
    loops = [] if isinstance(at, KernelOp) else [*enclosing_loops(at), at]
    ranges = ranges_of(bounds_of(loops), size_ranges(at))
    most = [extent.range(ranges)[1] for extent in region.extents]
    if None in most:
        got = f"{value_name(source)} with {[str(extent) for extent in region.extents]}"
        raise IllegalSchedule(f"stage_tile requires a tile of bounded size for {scope}, got {got}")
    return tuple(Expr.of(size) for size in most if size is not None)


def _box_of(access: AccessOp, at: ForOp | KernelOp) -> list[tuple[Expr, Expr]]:
    """The least and greatest subscript of each dimension over the loops inside `at`."""
    bounds = bounds_of(loop for loop in enclosing_loops(access) if _is_within(loop, at))
    box: list[tuple[Expr, Expr]] = []
    for dim, expr in enumerate(subscripts(access)):
        low = extreme(expr, bounds, greatest=False)
        high = extreme(expr, bounds, greatest=True)
        if low is None or high is None:
            low, high = _span_inside(expr, ranges_of(bounds), access.buffer_type.shape[dim])
        if low is None or high is None or _depends_on(at, low, high):
            rule = "subscripts that are known to lie in a box"
            raise IllegalSchedule(f"stage_tile requires {rule}, got {describe(access)}")
        box.append((low, high))
    return box


def _span_inside(
    expr: Expr, ranges: Mapping[Atom, Range], extent: Expr
) -> tuple[Expr | None, Expr | None]:
    """The bounds, as numbers, of a subscript that is not monotonic, as of a remainder; none where
    they are not known, or exceed the dim.
    """
    low, high = expr.range(ranges)
    if low is None or high is None or low < 0 or high >= (extent.constant or 0):
        return None, None
    return Expr.of(low), Expr.of(high)


def _is_within(loop: ForOp, at: ForOp | KernelOp) -> bool:
    return loop is not at and is_inside(loop, at)


def _depends_on(at: ForOp | KernelOp, *exprs: Expr) -> bool:
    """Whether expressions use a value that is computed inside `at`, other than its own index."""
    return any(
        isinstance(atom, SSAValue)
        and isinstance(atom.owner, Operation)
        and is_inside(atom.owner, at)
        for expr in exprs
        for atom in expr.atoms()
    )


def _one_extreme(values: Sequence[Expr], accesses: Sequence[AccessOp], *, greatest: bool) -> Expr:
    best, *others = dict.fromkeys(values)
    for value in others:
        low, high = (value - best).range({})
        if low is not None and low >= 0:
            best = value if greatest else best
        elif high is not None and high <= 0:
            best = best if greatest else value
        else:
            got = ", ".join(dict.fromkeys(describe(access) for access in accesses))
            raise IllegalSchedule(f"stage_tile requires accesses of one box, got {got}")
    return best


def _is_overwritten_first(
    accesses: Sequence[AccessOp], region: _Region, at: ForOp | KernelOp
) -> bool:
    """Whether the first access stores the whole tile before anything loads from it."""
    first = accesses[0]
    if not isinstance(first, StoreOp) or not _stores_whole(first, region, at):
        return False
    nest = child_in(at.body.block, first)
    assert nest is not None, "an access is in a child of the loop it is staged at"
    same = [access for access in accesses if is_inside(access, nest)]
    return all(access.index == first.index for access in same)


def _stores_whole(store: StoreOp, region: _Region, at: ForOp | KernelOp) -> bool:
    """Whether a store reaches each element of the region in every iteration of `at`."""
    inside = [loop for loop in enclosing_loops(store) if _is_within(loop, at)]
    parent = store.parent_op()
    while parent is not None and parent is not at:
        if not isinstance(parent, ForOp):
            return False
        parent = parent.parent_op()
    spans = (
        _span_is_dense(expr - base, extent, inside)
        for expr, base, extent in zip(subscripts(store), *region, strict=True)
    )
    used = [a for expr in subscripts(store) for a in set(expr.atoms()) if _is_index(a, inside)]
    runs = all(loop.index in used or least_iterations(loop) > 0 for loop in inside)
    return all(spans) and len(used) == len(set(used)) and runs


def _is_index(atom: object, loops: Sequence[ForOp]) -> bool:
    return any(atom is loop.index for loop in loops)


def _span_is_dense(offset: Expr, extent: Expr, loops: Sequence[ForOp]) -> bool:
    """Whether an offset takes each value below the extent: digits over rectangular loops."""
    reach = Expr.of(1)
    digits = [loop for loop in loops if loop.index in set(offset.atoms())]
    for loop in sorted(digits, key=lambda loop: offset.coefficient(loop.index).constant or 0):
        if offset.coefficient(loop.index) != reach or loop.lower != 0 or loop.step.data != 1:
            return False
        offset = offset - Expr.atom(loop.index) * reach
        reach = reach * loop.extent
    return offset == 0 and reach == extent


def _is_used_only_in(source: SSAValue, at: ForOp | KernelOp) -> bool:
    local = isinstance(source.owner, AllocOp)
    return local and all(is_inside(use.operation, at) for use in source.uses)


def _require_whole_store(
    source: SSAValue, accesses: Sequence[AccessOp], region: _Region, at: ForOp | KernelOp
) -> None:
    stores = [access for access in accesses if isinstance(access, StoreOp)]
    if not any(_stores_whole(store, region, at) for store in stores):
        rule = f"a store to the whole tile of {value_name(source)}"
        raise IllegalSchedule(f"stage_tile requires {rule}, got {describe(stores[0])}")


def _allocate(
    source: SSAValue,
    sizes: Sequence[Expr],
    scope: str,
    layout: LayoutAttr | None,
    name: str | None,
    before: Operation,
) -> SSAValue:
    type = buffer(sizes, buffer_type_of(source).element, layout)
    allocation = AllocOp.of(type, scope)
    allocation.result.name_hint = name or f"{source.name_hint or 'buffer'}_{scope[0]}"
    Rewriter.insert_op(allocation, InsertPoint.before(before))
    return allocation.result


def _redirect(access: AccessOp, copy: SSAValue, region: _Region) -> None:
    offsets = [expr - base for expr, base in zip(subscripts(access), region.base, strict=True)]
    redirect(access, copy, offsets)


def _copy(
    source: SSAValue, copy: SSAValue, region: _Region, point: InsertPoint, inward: bool
) -> tuple[ForOp, ...]:
    """The nest that copies the region into the local buffer, or back."""
    loops, offsets, builder = _nest_over(region, point, "ld" if inward else "st")
    index = [base + offset for base, offset in zip(region.base, offsets, strict=True)]
    ends = ((source, index), (copy, offsets)) if inward else ((copy, offsets), (source, index))
    (origin, origin_index), (target, target_index) = ends
    loaded = builder.insert(LoadOp.of(origin, origin_index))
    builder.insert(StoreOp.of(loaded.result, target, target_index))
    return loops


def _nest_over(
    region: _Region, point: InsertPoint, name: str
) -> tuple[tuple[ForOp, ...], list[Expr], Builder]:
    """A nest over the elements of a region, the offset of each in it, and a builder inside.

    Dims of one element have no loop. A single element has one of one iteration: schedules continue
    with the loops that copy, so there is one wherever something is copied.
    """
    builder = Builder(point)
    loops: list[ForOp] = []
    offsets = [Expr.of(0)] * len(region.extents)
    several = [dim for dim, extent in enumerate(region.extents) if extent != 1]
    for dim, extent in [(dim, region.extents[dim]) for dim in several] or [(0, 1)]:
        loops.append(builder.insert(new_loop(extent, f"{name}{dim}")))
        builder.insertion_point = InsertPoint.at_end(loops[-1].body.block)
        if several:
            offsets[dim] = Expr.atom(loops[-1].index)
    return tuple(loops), offsets, builder
