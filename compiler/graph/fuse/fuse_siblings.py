"""graph -> graph: groups of operators that go over the same elements become one group with several
results, so that what one computes is not read again by the other.

    s = a + b;  y = f(s);  z = g(s)      ->      s, y, z = fused(a, b)

Such are elementwise operators, reductions over rows of what these compute, what inserts that into a
tensor, and what reads a table at the indices that they compute. Running totals of the same elements
are one group as well: each element waits for the total before it, of one while the other is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.graph.match import is_row_of_slice, only_user
from weft.dialects.context import Refusals
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import ShapeAttr, type_of
from weft.dialects.graph.ops.reduce import ReduceOp
from weft.dialects.graph.ops.scan import ScanOp
from weft.dialects.graph.reindexing.gather import AlongAxisIndexedOp, GatherElementsOp, GatherOp
from weft.dialects.graph.reindexing.insert import InsertSliceOp
from weft.dialects.graph.reindexing.movement import IndexMapOp

LARGEST_JOINED = 64
"""Operators; keeps kernels at a size that every later stage handles quickly."""

MOST_RESULTS = 8
"""Streams of stores that a kernel goes along with."""


class Group(Struct, eq=False):
    """Operators that will be one kernel, in order;
    `anchor` is the one that is no elementwise operator or movement.
    """

    members: list[GraphOp] = field(default_factory=list[GraphOp])
    anchor: GraphOp | None = None

    def in_order(self) -> list[GraphOp]:
        """The members, those that continue from reductions behind all others."""
        behind: set[SSAValue] = set()
        for op in self.members:
            if isinstance(op, ReduceOp) or not behind.isdisjoint(op.operands):
                behind.update(op.results)
        return sorted(self.members, key=lambda op: not behind.isdisjoint(op.operands))

    def results(self) -> list[SSAValue]:
        """The values that something outside of the group reads."""
        inside = set(self.members)
        values = [result for op in self.members for result in op.results]
        return [each for each in values if any(use.operation not in inside for use in each.uses)]


class _Shape(Struct):
    """The elements that a group goes over, and how its rows are reduced, if they are: the dims of a
    row's results, and which of the axes are combined.
    """

    dims: ShapeAttr
    reduced: tuple[int, ...] = ()
    rows: ShapeAttr | None = None

    def takes(self, other: _Shape) -> bool:
        """Whether loops over these elements compute the other group as well."""
        return self.dims == other.dims and (
            not (self.reduced and other.reduced)
            or (self.reduced == other.reduced and self.rows == other.rows)
        )

    def joined(self, other: _Shape) -> _Shape:
        return self if self.reduced else other


class _Readers:
    """The operators of a block that read a value, or in which something does, in order."""

    def __init__(self, position: Mapping[Operation, int]):
        self._position = position
        self._ops = list(position)
        self._found: dict[SSAValue, list[int]] = {}

    def until(self, value: SSAValue, last: int) -> Iterator[Operation]:
        """Those up to a position; what stands behind it is in no group that ends before it."""
        if value not in self._found:
            self._found[value] = sorted({self._top(use.operation) for use in value.uses})
        for number in self._found[value]:
            if number > last:
                return
            yield self._ops[number]

    def _top(self, user: Operation) -> int:
        while user not in self._position:
            outer = user.parent_op()
            assert outer is not None, "users lie in the block"
            user = outer
        return self._position[user]


def fuse_siblings(
    block: Block,
    groups: dict[Operation, Group],
    position: Mapping[Operation, int],
    refusals: Refusals | None = None,
) -> None:
    """Joins groups to those that compute what they read, from the first to the last. Why others
    stay apart is added to `refusals`, if asked for.
    """
    shapes: dict[Group, _Shape | None] = {}
    readers = _Readers(position)
    for op in block.ops:
        group = groups.get(op)
        if group is None or group.members[-1] is not op:
            continue
        shapes[group] = _shape_of(group)
        for producer in list(_producers(group, groups)):
            first, second = shapes.get(producer), shapes[group]
            if first is None or second is None or not first.takes(second):
                reason = "they go over different elements"
            elif not _flows_along(producer, group, first):
                reason = "an element is read that another iteration computes"
            elif not _may_wait(producer, group, groups, position, readers):
                reason = "other readers come first, or the kernel would have too many results"
            else:
                join(producer, group, groups, position)
                shapes[group] = first.joined(second)
                continue
            if refusals is not None:
                _note_all(refusals, producer, group, f"as siblings: {reason}")
    _join_scans(groups, position, readers)


def _join_scans(
    groups: dict[Operation, Group], position: Mapping[Operation, int], readers: _Readers
) -> None:
    """Joins groups of running totals along the same lines that read the same value, in the order
    in which they stand: a total may be computed of what is made of another.
    """
    scans: dict[Group, int] = {}
    reading: dict[SSAValue, list[Group]] = {}
    for group in sorted(set(groups.values()), key=lambda each: position[each.members[-1]]):
        if not isinstance(group.anchor, ScanOp):
            continue
        alike = {first for value in _read_by(group) for first in reading.get(value, ())}
        for first in sorted(alike & scans.keys(), key=lambda each: scans[each]):
            if _same_lines(first, group) and _may_wait(first, group, groups, position, readers):
                join(first, group, groups, position)
                del scans[first]
                break
        scans[group] = position[group.members[-1]]
        for value in _read_by(group):
            reading.setdefault(value, []).append(group)


def _read_by(group: Group) -> dict[SSAValue, None]:
    return dict.fromkeys(value for op in group.members for value in op.operands)


def _same_lines(one: Group, other: Group) -> bool:
    """Whether totals run along the same lines."""
    first, second = one.anchor, other.anchor
    assert isinstance(first, ScanOp), "a group of running totals"
    assert isinstance(second, ScanOp), "a group of running totals"
    lines = ((each.result_type.dims, each.position, each.reverse) for each in (first, second))
    return len(set(lines)) == 1


def note_refusal(
    refusals: Refusals | None, value: SSAValue, reader: Operation, reason: str
) -> None:
    """Notes why what computes a value and what reads it stay apart, where that is asked for."""
    if refusals is not None:
        key = refusal_name(value), refusal_name(reader.results[0])
        refusals.setdefault(key, []).append(reason)


def refusal_name(value: SSAValue) -> str:
    """What refusals call a value: its name, else the operator and where that comes from."""
    owner = value.owner
    if value.name_hint or not isinstance(owner, Operation):
        return value.name_hint or ""
    return f"{owner.name} {owner.location}"


def _note_all(refusals: Refusals, producer: Group, consumer: Group, reason: str) -> None:
    """Notes that of every value that one group reads of another."""
    made = set(producer.results())
    for op in consumer.members:
        for value in dict.fromkeys(op.operands):
            if value in made:
                note_refusal(refusals, value, op, reason)


def _producers(group: Group, groups: Mapping[Operation, Group]) -> Iterator[Group]:
    """The groups that compute what a group reads."""
    found = (
        groups.get(operand.owner)
        for op in group.members
        for operand in op.operands
        if isinstance(operand.owner, Operation)
    )
    yield from dict.fromkeys(each for each in found if each is not None and each is not group)


def _shape_of(group: Group) -> _Shape | None:
    """The elements that all operators of a group go over; None where they have several shapes."""
    anchor = group.anchor
    if isinstance(anchor, InsertSliceOp) and group.members[-1] is anchor:
        dims = type_of(anchor.updates).dims
        same = dims.data is not None and _all_have(group.members[:-1], dims)
        return _Shape(dims) if same and _is_read_in_place(group) else None
    if anchor is None or _gathers_in_place(anchor):
        dims = type_of(group.members[-1].results[0]).dims
        same = dims.data is not None and _all_have(group.members, dims)
        return _Shape(dims) if same and _is_read_in_place(group) else None
    if not isinstance(anchor, ReduceOp) or not _is_read_in_place(group):
        return None
    dims, rows = type_of(anchor.operand).dims, type_of(anchor.results[0]).dims
    reduced = anchor.reduced()
    if not _are_last(reduced, len(dims.data or ())):
        return None
    position = group.members.index(anchor)
    before, behind = group.members[:position], group.members[position + 1 :]
    fits = _all_have(before, dims) and _all_have(behind, rows)
    return _Shape(dims, reduced, rows) if fits else None


def _all_have(members: Sequence[GraphOp], dims: ShapeAttr) -> bool:
    shapes = (type_of(op.results[0]).dims for op in members if not _is_moved_on(op))
    return all(shape == dims for shape in shapes)


def _is_moved_on(op: GraphOp) -> bool:
    """Whether another movement alone reads a movement, at an index that follows from its own."""
    return isinstance(op, IndexMapOp) and is_row_of_slice(only_user(op.result))


def _are_last(axes: Sequence[int], rank: int) -> bool:
    """Whether rows are reduced, and there are rows."""
    return 0 < len(axes) < rank and list(axes) == list(range(rank - len(axes), rank))


def _is_read_in_place(group: Group) -> bool:
    """Whether no movement in a group moves what the group computes."""
    inside = {result for op in group.members if not _is_moved_on(op) for result in op.results}
    moved = (op for op in group.members if isinstance(op, IndexMapOp | AlongAxisIndexedOp))
    return not any(op.operand in inside for op in moved)


def _gathers_in_place(op: GraphOp) -> bool:
    """Whether each element of the result is one of a table, by the index at its own place."""
    if not isinstance(op, GatherOp | GatherElementsOp):
        return False
    return type_of(op.indices).dims == type_of(op.result).dims


def _flows_along(producer: Group, consumer: Group, shape: _Shape) -> bool:
    """Whether all that one group reads of another is read at the element that was just computed."""
    made = {result for op in producer.members for result in op.results}
    for op in consumer.members:
        for operand in op.operands:
            if operand not in made:
                continue
            here = type_of(operand).dims == shape.dims
            if isinstance(op, AlongAxisIndexedOp):
                here = here and operand is not op.operand
            reads = op is consumer.anchor or (
                isinstance(op, ElementwiseOp) and type_of(op.results[0]).dims == shape.dims
            )
            if not (here and reads):
                return False
    return True


def _may_wait(
    producer: Group,
    consumer: Group,
    groups: Mapping[Operation, Group],
    position: Mapping[Operation, int],
    readers: _Readers,
) -> bool:
    """Whether what else reads the producer's results comes behind the consumer."""
    together = {*producer.members, *consumer.members}
    if len(together) > LARGEST_JOINED:
        return False
    results = {*producer.results(), *consumer.results()}
    read = [each for each in results if any(use.operation not in together for use in each.uses)]
    if len(read) > MOST_RESULTS:
        return False
    last = position[consumer.members[-1]]
    return not any(
        user not in together and _insert_at(user, groups, position) <= last
        for value in producer.results()
        for user in readers.until(value, last)
    )


def _insert_at(
    user: Operation, groups: Mapping[Operation, Group], position: Mapping[Operation, int]
) -> int:
    """Where an operator of the block stands: a group stands where its last member does."""
    return position[groups[user].members[-1] if user in groups else user]


def join(
    producer: Group,
    consumer: Group,
    groups: dict[Operation, Group],
    position: Mapping[Operation, int],
) -> None:
    """Puts the members of one group, which stand at these positions, into another."""
    consumer.members = sorted([*producer.members, *consumer.members], key=lambda op: position[op])
    consumer.anchor = consumer.anchor or producer.anchor
    for op in producer.members:
        groups[op] = consumer
