"""kernel -> the text that a person would write for it: loops by indentation, accesses and
arithmetic as expressions. It is to be read, not parsed.

    for i in 0..n parallel:
      for k in 0..64 reduction(add):
        total[i] = total[i] + a[i, k] * b[k]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.arithmetic import IndexedOp
from weft.dialects.loop.ops import (
    AllocOp,
    ConditionOp,
    ForOp,
    IfOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    SubscriptedOp,
    WhileOp,
)
from weft.dialects.loop.program import WEIGHTS, KernelOp
from weft.dialects.loop.types import BufferType, LayoutAttr, buffer_type_of

_INFIX: Final = {
    "addf": "+", "addi": "+", "subf": "-", "subi": "-", "mulf": "*", "muli": "*", "divf": "/",
    "andi": "&", "ori": "|", "xori": "^",
}  # fmt: skip
_COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def pseudocode(kernel: KernelOp) -> str:
    """The text of a kernel, from its arguments on."""
    return _Writer(kernel).text()


class _Writer:
    """The lines so far, the names of values, and the texts of those that are written where they
    are used.
    """

    def __init__(self, kernel: KernelOp):
        self.kernel = kernel
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.inlined: dict[SSAValue, str] = {}
        self.taken: set[str] = set()

    def text(self) -> str:
        """All lines."""
        weights = str(self.kernel.attributes.get(WEIGHTS, ""))
        for number, argument in enumerate(self.kernel.body.block.args):
            mark = " weight" if f"<{number}>" in weights else ""
            self.lines.append(f"{self._named(argument)}: {_type(buffer_type_of(argument))}{mark}")
        self._block(self.kernel.body.block, "")
        return "\n".join(self.lines)

    def _named(self, value: SSAValue, plain: str = "v") -> str:
        """A name that no other value has that is in use."""
        hint = value.name_hint or plain
        name, number = hint, 1
        while name in self.taken:
            name, number = f"{hint}_{number}", number + 1
        self.taken.add(name)
        self.names[value] = name
        return name

    def _block(self, block: Block, indent: str) -> None:
        outer = set(self.taken)
        for op in block.ops:
            self._operation(op, indent)
        # Names end with their block, so that a loop more or less elsewhere changes no other line.
        self.taken = outer

    def _operation(self, op: Operation, indent: str) -> None:
        match op:
            case ForOp():
                lower, upper = self._expr(op.lower), self._expr(op.upper)
                step = f" step {op.step.data}" if op.step.data != 1 else ""
                hints = "".join(f" {hint}" for hint in op.hints())
                outer = set(self.taken)
                name = self._named(op.index, "i")
                self.lines.append(f"{indent}for {name} in {lower}..{upper}{step}{hints}:")
                self._block(op.body.block, f"{indent}  ")
                self.taken = outer
            case IfOp():
                self.lines.append(f"{indent}if {self._bare(op.condition)}:")
                self._block(op.then.block, f"{indent}  ")
                if op.otherwise.block.ops:
                    self.lines.append(f"{indent}else:")
                    self._block(op.otherwise.block, f"{indent}  ")
            case WhileOp():
                self.lines.append(f"{indent}while:")
                self._block(op.condition.block, f"{indent}  ")
                self.lines.append(f"{indent}do:")
                self._block(op.body.block, f"{indent}  ")
            case _:
                self._statement(op, indent)

    def _statement(self, op: Operation, indent: str) -> None:
        """An operation without regions: a line, or the text of a value that is used once."""
        if isinstance(op, AllocOp):
            layout = _type(buffer_type_of(op.result))
            self.lines.append(f"{indent}{self._named(op.result)}: {layout} {op.scope.data}")
        elif isinstance(op, StoreOp):
            hint = " nontemporal" if op.nontemporal is not None else ""
            self.lines.append(f"{indent}{self._access(op)} = {self._bare(op.value)}{hint}")
        elif isinstance(op, PrefetchOp):
            self.lines.append(f"{indent}prefetch {self._access(op)}")
        elif isinstance(op, ConditionOp):
            self.lines.append(f"{indent}while {self._bare(op.condition)}")
        elif len(op.results) == 1 and _is_inlined(op):
            self.inlined[op.results[0]] = self._computed(op)
        else:
            computed = self._computed(op)
            names = ", ".join(self._named(result) for result in op.results)
            self.lines.append(f"{indent}{names} = {computed}" if names else f"{indent}{computed}")

    def _computed(self, op: Operation) -> str:
        """The expression of an operation's result."""
        name = op.name.partition(".")[2]
        if isinstance(op, LoadOp):
            return self._access(op)
        if isinstance(op, arith.ConstantOp):
            return _constant(op)
        if isinstance(op, IndexedOp):
            return self._expr(op.value)
        operands = [self._value(operand) for operand in op.operands]
        if isinstance(op, (arith.CmpfOp, arith.CmpiOp)):
            return _compared(op, operands)
        if name in _INFIX:
            return f"({f' {_INFIX[name]} '.join(operands)})"
        return f"{name}({', '.join(map(self._bare, op.operands))})"

    def _value(self, value: SSAValue) -> str:
        """What stands for a value: its expression, or its name."""
        text = self.inlined.get(value)
        if text is None:
            return self.names[value] if value in self.names else self._named(value)
        return text

    def _bare(self, value: SSAValue) -> str:
        """The same, without brackets around all of it."""
        text = self._value(value)
        return text[1:-1] if text[:1] == "(" and _is_whole(text[1:-1]) else text

    def _access(self, op: SubscriptedOp) -> str:
        return f"{self._value(op.buffer)}[{', '.join(map(self._expr, op.index))}]"

    def _expr(self, expr: Expr) -> str:
        return expr.format(self._atom)

    def _atom(self, atom: Atom) -> str:
        return self._value(cast("SSAValue", atom)) if isinstance(atom, SSAValue) else str(atom)


def _is_inlined(op: Operation) -> bool:
    """Whether a value is written where it is used: a constant anywhere, else one that is used once,
    in the same block, without a store between.
    """
    if isinstance(op, arith.ConstantOp):
        return True
    users = [use.operation for use in op.results[0].uses]
    if len(users) != 1 or users[0].parent is not op.parent:
        return False
    between = op.next_op
    while between is not None and between is not users[0]:
        if isinstance(between, StoreOp) or between.regions:
            return False
        between = between.next_op
    return not users[0].regions or isinstance(users[0], IfOp)


def _constant(op: arith.ConstantOp) -> str:
    value = op.value
    if isa(value, FloatAttr):
        return f"{value.value.data:.6g}"
    return str(value.value.data) if isinstance(value, IntegerAttr) else str(value)


def _compared(op: arith.CmpfOp | arith.CmpiOp, operands: Sequence[str]) -> str:
    names = arith.CMPF_COMPARISON_OPERATIONS
    if isinstance(op, arith.CmpiOp):
        names = arith.CMPI_COMPARISON_OPERATIONS
    name = names[op.predicate.value.data]
    sign = _COMPARISONS.get(name) or _COMPARISONS.get(name[1:])
    return f"({f' {sign} '.join(operands)})" if sign else f"{name}({', '.join(operands)})"


def _is_whole(inside: str) -> bool:
    """Whether the brackets of a text, the outermost taken off, still match."""
    depth = 0
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return depth == 0


def _type(buffer: BufferType) -> str:
    dims = ", ".join(map(str, buffer.shape))
    layout = f" stored as {buffer.layout.body()}" if isinstance(buffer.layout, LayoutAttr) else ""
    return f"{buffer.element}[{dims}]{layout}"
