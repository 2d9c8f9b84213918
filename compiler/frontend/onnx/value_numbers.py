"""Numbers of graph values by what they are computed by: a size which two nodes find is one."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import SSAValue

from weft.dialects.graph import GraphOp


class ValueNumbers:
    """The same number for values that the same operators give on the same operands."""

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, int] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, value: SSAValue) -> int:
        """The number of a value; each is looked at once."""
        pending = [value]
        while pending:
            op = pending[-1].owner
            operands = list(op.operands) if isinstance(op, GraphOp) else []
            missing = [each for each in operands if each not in self._numbers]
            if missing:
                pending += missing
            else:
                self._number(pending.pop(), operands)
        return self._numbers[value]

    def _number(self, value: SSAValue, operands: list[SSAValue]) -> None:
        op = value.owner
        key: Hashable = value
        if isinstance(op, GraphOp):
            properties = tuple(sorted(op.properties.items(), key=lambda pair: pair[0]))
            numbers = tuple(self._numbers[each] for each in operands)
            position = next(at for at, result in enumerate(op.results) if result == value)
            key = op.name, properties, numbers, position
        self._numbers[value] = self._known.setdefault(key, len(self._known))
