"""Verifies of a module what has changed since it was verified before: the same verifiers as
`module.verify()` runs, at a fraction of its time, since most passes leave most of a module alone.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.traits import SymbolUserOpInterface

State = tuple[Any, ...]

_TYPE: Final = attrgetter("type")


class ChangeVerifier:
    """What the operations of a module were when they were last verified."""

    def __init__(self) -> None:
        self._verified: dict[Operation, State] = {}

    def verify(self, module: ModuleOp) -> None:
        """Runs the verifier of each operation that is not as it was, and of those that may look at
        it. Raises VerifyException, as `module.verify()` does.
        """
        states: dict[Operation, State] = {}
        self._verify(module, False, states)
        self._verified = states  # without those that are gone

    def _verify(self, op: Operation, outer_changed: bool, states: dict[Operation, State]) -> bool:
        """Verifies an operation behind those inside of it; returns whether any of them changed.
        What ends a block returns or yields what the operation around it says.
        """
        state = states[op] = _state(op)
        changed = self._verified.get(op) != state
        changed_inside = False
        for region in op.regions:
            for block in region.blocks:
                if block.first_op is None:
                    block.verify()  # what has no operation may need one
                for inner in block.ops:
                    changed_inside |= self._verify(inner, changed, states)
        ends = outer_changed and op.next_op is None
        if changed or changed_inside or ends or _reads_symbols(type(op)):
            op.verify(verify_nested_ops=False)
        return changed or changed_inside


def _state(op: Operation) -> State:
    """All that verifiers read of an operation by itself: where it stands, types, attributes. What
    is the same object is compared no further, so equal states are found at once.
    """
    operands = op._operands  # pyright: ignore[reportPrivateUsage]
    return (
        op.parent,
        op.next_op is None,  # the last of a block has to end it
        operands,
        tuple(map(_TYPE, operands)),
        tuple(map(_TYPE, op.results)),
        op.properties.copy(),
        op.attributes.copy(),
        *[_block_state(block) for region in op.regions for block in region.blocks],
    )


def _block_state(block: Block) -> State:
    return (block, block.parent, *[each.type for each in block.args])


@cache
def _reads_symbols(op: type[Operation]) -> bool:
    """Whether the verifier of such an operation looks at what its symbols name."""
    return op.has_trait(SymbolUserOpInterface, value_if_unregistered=False)
