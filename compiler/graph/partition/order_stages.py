"""The order in which the ranks of a pipeline compute: that of the program, but where the derivative
goes back through the stages, that of a simulation of all ranks.

Each rank goes on with what it has started, else takes what a later stage has sent back, else what
comes first in the program; and it begins no more than as many batches beyond those that came back
as it is ranks from the end. Of batches whose gradients are added up that is one forward, one
backward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct, field
from xdsl.ir import Operation

from weft.compiler.graph.differentiate.residuals import nominal_bytes
from weft.compiler.graph.partition.assign_stages import BOUNDARIES, Assignment, reads
from weft.dialects.graph import EffectOp, StageOfOp, StageOp

_LATENCY: Final = 1.0
"""Of a message. Times are the bytes that operators read and write: less than any of them."""

_Batch = tuple[bool, int, int]
"""What belongs together on a rank: whether it follows a `stage_of`, the marks in front of it, and
those that it leads to.
"""

RankOf = Callable[[Operation], int]


def order_stages(
    ops: Sequence[Operation], assignment: Assignment, rank_of: RankOf, ranks: int
) -> list[Operation]:
    """The operators in an order from which each rank takes its own."""
    if not any(isinstance(op, StageOfOp) for op in ops):
        return list(ops)
    return _Simulation(ops, assignment, rank_of, ranks).run()


class _Queue(Struct):
    """Operators of one batch that a rank can compute, by their positions: those whose operands have
    arrived, and the others by when theirs do.
    """

    arrived: list[int] = field(default_factory=list[int])
    coming: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def first(self, time: float) -> tuple[float, int]:
        """When the first one begins that may not before a time, and its position."""
        while self.coming and self.coming[0][0] <= time:
            heappush(self.arrived, heappop(self.coming)[1])
        return (time, self.arrived[0]) if self.arrived else self.coming[0]

    def pop(self) -> None:
        """Takes out what `first` gave."""
        if self.arrived:
            heappop(self.arrived)
        else:
            heappop(self.coming)


class _Rank(Struct):
    """A rank: its time, what it can compute of each batch, what it has started, how many values
    marks have taken to others, and when what follows from these came back.
    """

    time: float = 0.0
    batch: _Batch | None = None
    ready: dict[_Batch, _Queue] = field(default_factory=dict[_Batch, _Queue])
    started: set[_Batch] = field(default_factory=set[_Batch])
    given: int = 0
    returned: list[float] = field(default_factory=list[float])


class _Simulation:
    def __init__(
        self, ops: Sequence[Operation], assignment: Assignment, rank_of: RankOf, ranks: int
    ):
        self.ops, self.assignment, self.rank_of = ops, assignment, rank_of
        self.position = {op: number for number, op in enumerate(ops)}
        self.ranks = [_Rank() for _ in range(ranks)]
        self.needs = self._needs()
        self.users: dict[Operation, list[Operation]] = {op: [] for op in ops}
        for op, needed in self.needs.items():
            for each in needed:
                self.users[each].append(op)
        self.left = {op: len(needed) for op, needed in self.needs.items()}
        self.batches = self._batches()
        self.done: dict[Operation, float] = {}

    def _needs(self) -> dict[Operation, list[Operation]]:
        """What each operator has to wait for; what acts on a rank waits for what has acted."""
        needs: dict[Operation, list[Operation]] = {}
        acted: dict[int, Operation] = {}
        for op in self.ops:
            owners = [each.owner for each in reads(op)]
            if any(isinstance(each, EffectOp) for each in op.walk()):
                owners.append(acted.get(self.rank_of(op), op))
                acted[self.rank_of(op)] = op
            found = [each for each in owners if isinstance(each, Operation) and each is not op]
            needs[op] = [each for each in dict.fromkeys(found) if each in self.position]
        return needs

    def _batches(self) -> Mapping[Operation, _Batch]:
        boundaries = [op for op in self.ops if isinstance(op, BOUNDARIES)]
        bits: dict[Operation, int] = {op: 1 << number for number, op in enumerate(boundaries)}
        before: dict[Operation, int] = {}
        for op in self.ops:
            before[op] = bits.get(op, 0)
            for each in self.needs[op]:
                before[op] |= before[each]
        leads = dict.fromkeys(self.ops, 0)
        for op in reversed(self.ops):
            for each in self.users[op]:
                if isinstance(each, StageOp) and self._crosses(each):
                    leads[op] |= bits[each]
                elif not isinstance(each, StageOfOp) and self.rank_of(op) == self.rank_of(each):
                    leads[op] |= leads[each]
        return {op: (op in self.assignment.reverse, before[op], leads[op]) for op in self.ops}

    def _crosses(self, mark: Operation) -> bool:
        """Whether a mark is between two ranks."""
        source = mark.operands[0].owner
        if not isinstance(source, Operation) or source not in self.position:
            return False
        return self.rank_of(source) != self.rank_of(mark)

    def run(self) -> list[Operation]:
        """All operators in the order in which ranks begin them."""
        found: list[Operation] = []
        for op in [each for each in self.ops if not self.left[each]]:
            self._make_ready(op, found)
        while any(rank.ready for rank in self.ranks):
            choices = self._choices(limited=True) or self._choices(limited=False)
            start, number, position, batch = min(choices, key=lambda each: each[:2])
            rank, op = self.ranks[number], self.ops[position]
            queue = rank.ready[batch]
            queue.pop()
            if not queue.arrived and not queue.coming:
                del rank.ready[batch]
            rank.batch = batch
            rank.started.add(batch)
            values = [*reads(op), *op.results]
            rank.time = start + 1 + sum(map(nominal_bytes, values))
            found.append(op)
            self._finish(op, rank.time, found)
        return found

    def _choices(self, *, limited: bool) -> list[tuple[float, int, int, _Batch]]:
        """For each rank when it does what it does next, the position of that, and its batch;
        `limited` to what it may begin.
        """
        choices: list[tuple[float, int, int, _Batch]] = []
        for number, rank in enumerate(self.ranks):
            firsts = [
                (start, batch != rank.batch, not batch[0], position, batch)
                for batch, queue in rank.ready.items()
                if not limited or self._may_begin(number, batch)
                for start, position in (queue.first(self._earliest(number, batch)),)
            ]
            if firsts:
                start, _, _, position, batch = min(firsts)
                choices.append((start, number, position, batch))
        return choices

    def _earliest(self, number: int, batch: _Batch) -> float:
        """When a rank can begin what is of a batch, if its operands are there."""
        rank, limit = self.ranks[number], self._beyond(number)
        if 0 <= limit < len(rank.returned) and not self._goes_on(number, batch):
            return max(rank.time, rank.returned[limit])
        return rank.time

    def _beyond(self, number: int) -> int:
        """How many values have to be back before a rank begins with another batch, less one."""
        return self.ranks[number].given - (len(self.ranks) - number)

    def _goes_on(self, number: int, batch: _Batch) -> bool:
        """Whether a rank has started with a batch, or the batch leads to no other."""
        reverse, _, leads = batch
        return reverse or not leads or batch in self.ranks[number].started

    def _at(self, op: Operation) -> int | None:
        """The rank of an operator; marks are on all."""
        return None if isinstance(op, BOUNDARIES) else self.rank_of(op)

    def _may_begin(self, number: int, batch: _Batch) -> bool:
        is_free = self._beyond(number) < len(self.ranks[number].returned)
        return is_free or self._goes_on(number, batch)

    def _make_ready(self, op: Operation, found: list[Operation]) -> None:
        """Lets the rank choose an operator; a mark takes no time."""
        if not isinstance(op, BOUNDARIES):
            number = self.rank_of(op)
            arrivals = (
                self.done[each] + (0 if self._at(each) == number else _LATENCY)
                for each in self.needs[op]
            )
            queue = self.ranks[number].ready.setdefault(self.batches[op], _Queue())
            heappush(queue.coming, (max(arrivals, default=0.0), self.position[op]))
            return
        source = op.operands[0].owner
        time = max((self.done[each] for each in self.needs[op]), default=0.0)
        if self._crosses(op) and isinstance(op, StageOfOp):
            self.ranks[self.rank_of(op)].returned.append(time + _LATENCY)
        elif self._crosses(op) and isinstance(source, Operation):
            self.ranks[self.rank_of(source)].given += 1
        found.append(op)
        self._finish(op, time, found)

    def _finish(self, op: Operation, time: float, found: list[Operation]) -> None:
        self.done[op] = time
        for user in self.users[op]:
            self.left[user] -= 1
            if not self.left[user]:
                self._make_ready(user, found)
