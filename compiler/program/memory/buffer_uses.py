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
        self._positions = {op: number for number, op in enumerate(self._ops)}

    def __call__(self, op: Operation) -> int:
        return self._positions[op]

    def at(self, position: int) -> Operation:
        """The operation at a place."""
        return self._ops[position]

    def put(self, op: Operation, position: int) -> None:
        """Notes that another operation stands at a place now."""
        self._ops[position] = op
        self._positions[op] = position


class BufferUses:
    """The operations of blocks in which whole buffers, or what is in them, are used; each is
    looked for once.
    """

    def __init__(self) -> None:
        self._orders: dict[Block, Order] = {}
        self._positions: dict[SSAValue, dict[Block, list[int]]] = {}

    def order(self, block: Block) -> Order:
        """The places of a block's operations."""
        if block not in self._orders:
            self._orders[block] = Order(block)
        return self._orders[block]

    def positions(self, buffer: SSAValue, block: Block) -> list[int]:
        """Where in a block a buffer is used, in order."""
        known = self._positions.setdefault(buffer, {})
        if block not in known:
            known[block] = sorted(map(self.order(block), _users_in(buffer, block)))
        return known[block]

    def join(self, fresh: SSAValue, state: SSAValue, block: Block, dropped: CopyOp | None) -> None:
        """Notes that one buffer is about to take the place of another, which is a block's own; the
        operation between them is dropped.
        """
        own, positions = self.positions(fresh, block), self.positions(state, block)
        for position in own:
            found = bisect_left(positions, position)
            if found == len(positions) or positions[found] != position:
                insort(positions, position)
        if dropped is not None:
            del positions[bisect_left(positions, self.order(block)(dropped))]
        self._positions[state] = {block: positions}
        del self._positions[fresh]


def _users_in(buffer: SSAValue, block: Block) -> list[Operation]:
    """The operations of a block in which a buffer, or what is in it, is used."""
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
