"""graph -> graph: what a derivative reads much later is computed again, where that costs less than
memory: by cheap operators, of values that are kept until then anyway.

    x = conv ..., y = relu(x), f(y), ..., g(x, y)      ->      ..., y2 = relu(x), g(x, y2)

So a training step keeps, of a convolution with a normalisation and an activation, one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from weft.compiler.graph.differentiate.residuals import CHEAP, FREE, nominal_bytes

LEAST_BYTES = 1 << 16
"""Smaller values are kept."""

LATER = 4
"""Operators that are not cheap between an early and a late use."""

LONGEST = 8
"""Operators that are computed again for one value."""


class RematerializePass(ModulePass):
    """Copies cheap operators of every graph function in front of late uses, those of regions aside:
    what their derivatives read is decided where these are built.
    """

    name = "weft-rematerialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                _Recomputation(function.body.block).run()


class _Recomputation:
    def __init__(self, block: Block) -> None:
        self.block = block
        ops = list(block.ops)
        self.positions: Mapping[Operation, int] = {op: number for number, op in enumerate(ops)}
        self.last_use: dict[SSAValue, int] = {}
        self.costly = [0, *accumulate(int(not isinstance(op, CHEAP)) for op in ops)]

    def run(self) -> None:
        """Looks at each value once, from the first to the last."""
        for op in list(self.block.ops):
            if isinstance(op, CHEAP) and not isinstance(op, FREE) and len(op.results) == 1:
                late = self._late_users(op)
                chain = None if late is None else self._chain(op, late[0])
                if late is not None and chain is not None:
                    self._copy(op, chain, late)

    def _late_users(self, op: Operation) -> list[Operation] | None:
        """The users behind the widest gap between uses, where that is wide enough; None for values
        that are small, or given as results anyway.
        """
        value = op.results[0]
        users = sorted(set(self._users(value)), key=self._of)
        if nominal_bytes(value) < LEAST_BYTES or not users:
            return None
        if any(user.has_trait(IsTerminator) for user in users):
            return None
        steps = list(pairwise([op, *users]))
        widths = [self.costly[self._of(b)] - self.costly[self._of(a) + 1] for a, b in steps]
        widest = max(range(len(widths)), key=widths.__getitem__)
        return users[widest:] if widths[widest] >= LATER and widest > 0 else None

    def _of(self, op: Operation) -> int:
        return self.positions.get(op, len(self.positions))

    def _top(self, op: Operation | None) -> Operation | None:
        """The operator of the block that an operator stands in, or is; None for one that stands
        nowhere any more.
        """
        while op is not None and op.parent is not self.block:
            op = op.parent_op()
        return op

    def _chain(self, op: Operation, late: Operation) -> list[Operation] | None:
        """The operators to compute again, in order; None where they are many, or read what is not
        kept until the late use.
        """
        chain, stack = {op}, [op]
        kept = False
        while stack:
            for operand in stack.pop().operands:
                owner = operand.owner
                if not isinstance(owner, Operation) or owner in chain:
                    continue
                if self._is_kept(operand, late):
                    kept = kept or not isinstance(owner, FREE)
                elif isinstance(owner, CHEAP) and owner.parent is self.block:
                    chain.add(owner)
                    stack.append(owner)
                    if len(chain) > LONGEST:
                        return None
                else:
                    return None
        return sorted(chain, key=self._of) if kept else None

    def _is_kept(self, value: SSAValue, late: Operation) -> bool:
        """Whether something reads a value at the late use or behind it."""
        if isinstance(value.owner, FREE):
            return True
        if value not in self.last_use:
            self.last_use[value] = max(map(self._of, self._users(value)), default=-1)
        return self.last_use[value] >= self._of(late)

    def _users(self, value: SSAValue) -> Iterator[Operation]:
        tops = (self._top(use.operation) for use in value.uses)
        return (top for top in tops if top is not None)

    def _copy(self, op: Operation, chain: list[Operation], late: list[Operation]) -> None:
        values: dict[SSAValue, SSAValue] = {}
        for each in chain:
            self.block.insert_op_before(each.clone(values), late[0])
        old = op.results[0]
        for use in list(old.uses):
            if self._top(use.operation) in late:
                use.operation.operands[use.index] = values[old]
        for value in (old, *(operand for each in chain for operand in each.operands)):
            self.last_use.pop(value, None)
