"""Room on the stack that buffers have one after the other: less of the first cache for all of them.

t = alloc scratch;  for i:  t[i] = ...          t = alloca
for i:  u = ... t[i]                       ->
v = alloc scratch;  for i:  v[i] = ... u        v = t
"""

from __future__ import annotations

from xdsl.ir import Block, Operation

from weft.dialects.loop.ops import AllocOp


class StackSlots:
    """Which buffer of a function follows which; a block that is emitted several times has the same
    order each time.
    """

    def __init__(self) -> None:
        self._followers: dict[AllocOp, AllocOp] = {}
        self._orders: dict[Block, dict[Operation, int]] = {}

    def before(self, allocation: AllocOp) -> AllocOp | None:
        """The buffer whose room an allocation takes over: of the same type, allocated in the same
        block, and not used any more.
        """
        block = allocation.parent
        if block is None or allocation.scope.data != "scratch":
            return None
        order = self._order(block)
        for earlier in block.ops:
            if earlier is allocation:
                return None
            if not isinstance(earlier, AllocOp) or not _alike(earlier, allocation):
                continue
            free = self._followers.get(earlier, allocation) is allocation
            if free and _last_use(earlier, block, order) < order[allocation]:
                self._followers[earlier] = allocation
                return earlier
        return None

    def _order(self, block: Block) -> dict[Operation, int]:
        if block not in self._orders:
            self._orders[block] = {op: number for number, op in enumerate(block.ops)}
        return self._orders[block]


def _alike(first: AllocOp, second: AllocOp) -> bool:
    return first.scope == second.scope and first.result.type == second.result.type


def _last_use(allocation: AllocOp, block: Block, order: dict[Operation, int]) -> int:
    uses = (block.find_ancestor_op_in_block(use.operation) for use in allocation.result.uses)
    return max((order[op] for op in uses if op is not None), default=len(order))
