"""Where the buffers of a program are used, kept up while one takes the place of another."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from weft.dialects.loop.dynamic import CopyOp, aliased


class Order:
    """The places of the operations of a block, by which they can be told to follow each other."""

    def __init__(self, block: Block):
        self._ops = list(block.ops)
        self._places = {op: number for number, op in enumerate(self._ops)}

    def __call__(self, op: Operation) -> int:
        return self._places[op]

    def at(self, place: int) -> Operation:
        """The operation at a place."""
        return self._ops[place]

    def put(self, op: Operation, place: int) -> None:
        """Notes that another operation stands at a place now."""
        self._ops[place] = op
        self._places[op] = place


class BufferUses:
    """The operations of blocks in which whole buffers, or what lies in them, are used; each is
    looked for once.
    """

    def __init__(self) -> None:
        self._orders: dict[Block, Order] = {}
        self._places: dict[SSAValue, dict[Block, list[int]]] = {}

    def order(self, block: Block) -> Order:
        """The places of a block's operations."""
        if block not in self._orders:
            self._orders[block] = Order(block)
        return self._orders[block]

    def places(self, buffer: SSAValue, block: Block) -> list[int]:
        """Where in a block a buffer is used, in order."""
        known = self._places.setdefault(buffer, {})
        if block not in known:
            known[block] = sorted(map(self.order(block), _users_in(buffer, block)))
        return known[block]

    def join(self, fresh: SSAValue, state: SSAValue, block: Block, dropped: CopyOp | None) -> None:
        """Notes that one buffer is about to take the place of another, which is a block's own; the
        operation between them is dropped.
        """
        own, places = self.places(fresh, block), self.places(state, block)
        for place in own:
            found = bisect_left(places, place)
            if found == len(places) or places[found] != place:
                insort(places, place)
        if dropped is not None:
            del places[bisect_left(places, self.order(block)(dropped))]
        self._places[state] = {block: places}
        del self._places[fresh]


def _users_in(buffer: SSAValue, block: Block) -> list[Operation]:
    """The operations of a block in which a buffer, or what lies in it, is used."""
    found: dict[Operation, None] = {}
    for user in _users(buffer):
        around: Operation | None = user
        while around is not None and around.parent is not block:
            around = around.parent_op()
        if around is not None:
            found[around] = None
    return list(found)


def _users(buffer: SSAValue) -> Iterator[Operation]:
    for use in buffer.uses:
        if aliased(use.operation) is not None:
            yield from _users(use.operation.results[0])
        yield use.operation
