"""program -> program: the ticks that each call takes become one more output of the program."""

from __future__ import annotations

from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from weft.dialects.context import parse_module
from weft.dialects.expr import Expr
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp
from weft.dialects.loop.scalar import I64
from weft.dialects.loop.types import buffer

TICKS: Final = "weft.ticks"
"""The output's name: ticks of each call in the order of `timed_calls`, then the last reading."""

START: Final = "clock_start"
ADD: Final = "clock_add"

_CLOCKS: Final = """\
loop.kernel @clock_start(%ticks: {type}) {{
  loop.for %i = 0 to {size} {{
    %zero = arith.constant 0 : i64
    loop.store %zero, %ticks[%i] : {type}
  }}
  %now = loop.clock : i64
  loop.store %now, %ticks[{last}] : {type}
}}
loop.kernel @clock_add[slot](%ticks: {type}) {{
  %now = loop.clock : i64
  %before = loop.load %ticks[{last}] : {type}
  %spent = arith.subi %now, %before : i64
  %sum = loop.load %ticks[slot] : {type}
  %more = arith.addi %sum, %spent : i64
  loop.store %more, %ticks[slot] : {type}
  loop.store %now, %ticks[{last}] : {type}
}}
"""


class TimeCallsPass(ModulePass):
    """Reads the clock after each call of the program and adds up what has passed since before."""

    name = "weft-time-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        time_calls(op)


def timed_calls(program: ProgramOp) -> list[str]:
    """The kernels that the program calls, once for each place, clocks aside."""
    calls = [op.kernel for op in program.walk() if isinstance(op, CallOp)]
    return [name for name in calls if name not in (START, ADD)]


def time_calls(module: ModuleOp) -> None:
    """Gives the program of the module its clock."""
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    calls = [op for op in program.walk() if isinstance(op, CallOp)]
    ticks = _ticks(program, len(calls) + 1)
    for slot, call in enumerate(calls):
        _insert(CallOp.of(ADD, [Expr.of(slot)], [ticks]), InsertPoint.after(call))
    _insert(CallOp.of(START, [], [ticks]), InsertPoint.at_start(program.body.block))
    for kernel in _clocks(len(calls) + 1):
        module.body.block.insert_op_before(kernel, program)


def _ticks(program: ProgramOp, size: int) -> SSAValue:
    """The new output."""
    block = program.body.block
    argument = block.insert_arg(buffer([size], I64), len(block.args))
    argument.name_hint = "ticks"
    names = program.attributes.get("output_names")
    if isa(names, ArrayAttr[StringAttr]):
        program.attributes["output_names"] = ArrayAttr([*names, StringAttr(TICKS)])
    return argument


def _insert(call: CallOp, anchor: InsertPoint) -> None:
    Rewriter.insert_op(call, anchor)


def _clocks(size: int) -> list[KernelOp]:
    text = _CLOCKS.format(type=f"!loop.buffer<[{size}], i64>", size=size, last=size - 1)
    module = parse_module(text, "<clocks>")
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    for kernel in kernels:
        kernel.detach()
    return kernels
