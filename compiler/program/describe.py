"""program -> plain data: what a call runs, what that costs, and where its buffers are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, NameLoc, UnitAttr, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.program.memory.plan_memory import (
    buffer_bytes,
    kernels_of,
    lifetimes,
    number_operations,
)
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.arithmetic import GeluOp, is_function
from weft.dialects.loop.communication import WaitOp, communications
from weft.dialects.loop.dynamic import weight_of
from weft.dialects.loop.iteration_cost import BRIEF_OPERATIONS, block_cost
from weft.dialects.loop.ops import AllocOp, ForOp, WhileOp
from weft.dialects.loop.program import (
    BRIEF,
    FLOPS,
    IN_PLACE,
    REPEATS,
    SHARES,
    CallOp,
    KernelOp,
    ProgramOp,
    donated_pairs,
    nodes_around,
    number_calls,
)
from weft.dialects.loop.scalar import is_float
from weft.dialects.loop.types import ExprsAttr, buffer_type_of
from weft.dialects.module_attributes import code_options

_FLOATING = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.DivfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.NegfOp,
)
_GELU_FLOPS = 5


class NoteKernelsPass(ModulePass):
    """Notes on each naive kernel what a call of it computes, and, where the options ask for that,
    whether its program computes next to nothing, and that it works on nothing in place where there
    is nothing that it may overwrite; and on each program whether it may run something as often as
    values say, for those who see nothing but declarations of kernels.
    """

    name = "weft-note-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        repeated = _repeats(op)
        brief = code_options(op).brief and not repeated and _is_brief(op)
        keeps = brief and _keeps_all(op)
        for each in op.ops:
            if isinstance(each, KernelOp):
                each.attributes.setdefault(FLOPS, ExprsAttr((kernel_flops(each),)))
                if brief:
                    each.attributes[BRIEF] = UnitAttr()
                if keeps:
                    each.attributes[IN_PLACE] = DenseArrayBase.from_list(i64, [])
            elif isinstance(each, ProgramOp) and (repeated or brief):
                each.attributes[REPEATS if repeated else BRIEF] = UnitAttr()


def _is_brief(module: ModuleOp) -> bool:
    """Whether all that programs of naive kernels do are calls of few operations altogether."""
    kernels, left = kernels_of(module), BRIEF_OPERATIONS
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    for op in (op for program in programs for op in program.body.block.ops):
        if isinstance(op, CallOp):
            cost = block_cost(kernels[op.kernel].body.block).constant
            left -= left if cost is None else cost
        if op.regions or left <= 0:
            return False
    return bool(programs)


def _keeps_all(module: ModuleOp) -> bool:
    """Whether kernels read nothing but inputs and weights that stay what they are."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    allocated = any(isinstance(op, AllocOp) for each in programs for op in each.body.block.ops)
    return not allocated and not any(donated_pairs(each) for each in programs)


def kernel_flops(kernel: KernelOp) -> Expr:
    """The floating-point operations of a naive kernel, over its symbols, or what is noted of them.

    A sum, product, quotient, extremum or mathematical function counts as one, GELU as the five of
    its formula; both sides of a branch count, a loop whose bounds are loaded counts as one
    iteration, and one whose bounds vary with a loop around it has those of its middle.
    """
    noted = kernel.attributes.get(FLOPS)
    if isinstance(noted, ExprsAttr):
        return noted.data[0]
    flops = _block_flops(kernel.body.block, {})
    loaded: list[Atom] = [atom for atom in flops.atoms() if isinstance(atom, SSAValue)]
    return flops.substitute(dict.fromkeys(loaded, Expr.of(1)))


def _block_flops(block: Block, middles: dict[Atom, Expr]) -> Expr:
    total = Expr.of(0)
    for op in block.ops:
        if isinstance(op, ForOp):
            lower, upper = (each.substitute(middles) for each in (op.lower, op.upper))
            extent = (upper - lower).ceildiv(op.step.data)
            inner = _block_flops(op.body.block, middles | {op.index: (lower + upper) // 2})
            total = total + extent * inner
        else:
            total = total + _operation_flops(op)
            for region in op.regions:
                total = total + _block_flops(region.block, middles)
    return total


def _operation_flops(op: Operation) -> int:
    if isinstance(op, GeluOp):
        return _GELU_FLOPS
    computes = isinstance(op, _FLOATING) or is_function(op)
    return int(computes and is_float(op.results[0].type))


def describe_kernels(
    program: ProgramOp,
    kernels: Mapping[str, KernelOp],
    schedules: Mapping[str, Sequence[str]],
    refused: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Each kernel that the program calls: its name, its schedules and those that refused it, its
    calls, and what all of them together compute and touch.
    """
    calls: dict[str, list[CallOp]] = {}
    for op in program.walk():
        if isinstance(op, CallOp):
            calls.setdefault(op.kernel, []).append(op)
    return [
        {
            "name": name,
            "schedules": list(schedules.get(name, ())),
            "refused": list(refused.get(name, ())),
            "calls": len(of_name),
            "flops": _plain(_sum(call_flops(call, kernels[name]) for call in of_name)),
            "bytes": _plain(_sum(call_bytes(call) for call in of_name)),
        }
        for name, of_name in calls.items()
    ]


def describe_calls(
    programs: Sequence[ProgramOp], kernels: Mapping[str, KernelOp]
) -> list[dict[str, Any]]:
    """Each call of a kernel by its number: the kernel, the nodes of the model that it computes, its
    flops and bytes, of which so many are of weights, what threads share of it (`SHARES`), and for
    those of the last program its position among what `describe_memory` counts.
    """
    positions = number_operations(programs[-1])
    described: list[dict[str, Any]] = []
    for call in number_calls(programs):
        step = {"step": positions[call][0]} if call in positions else {}
        described.append(
            {
                "kernel": call.kernel,
                "nodes": nodes_around(call),
                "flops": _plain(call_flops(call, kernels[call.kernel])),
                "bytes": _plain(call_bytes(call)),
                "weights": _plain(weight_bytes(call)),
                "shares": shares_of_call(kernels[call.kernel]),
                **step,
            }
        )
    return described


def call_flops(call: CallOp, kernel: KernelOp) -> Expr:
    """What a call computes, over the program's sizes."""
    sizes: dict[Atom, Expr] = {
        Symbol(symbol): size
        for symbol, size in zip(kernel.symbol_names, call.sizes.data, strict=True)
    }
    return kernel_flops(kernel).substitute(sizes)


def call_bytes(call: CallOp) -> Expr:
    """The bytes of all buffers that a call is given."""
    return _sum(buffer_bytes(buffer_type_of(value)) for value in dict.fromkeys(call.arguments))


def weight_bytes(call: CallOp) -> Expr:
    """The bytes of the weights that a call is given."""
    own = (value for value in dict.fromkeys(call.arguments) if weight_of(value) is not None)
    return _sum(buffer_bytes(buffer_type_of(value)) for value in own)


def shares_of_call(kernel: KernelOp) -> list[int]:
    """What threads share of a kernel, as its summary notes it."""
    noted = kernel.attributes.get(SHARES)
    return list(noted.get_values()) if isinstance(noted, DenseArrayBase) else []


def _repeats(module: ModuleOp) -> bool:
    """Whether a call may run something more often than `describe_kernels` counts."""
    return any(
        isinstance(op, WhileOp) or (isinstance(op, ForOp) and isinstance(of, ProgramOp))
        for of in module.ops
        for op in of.walk()
    )


def describe_memory(program: ProgramOp, *, exact: bool = False) -> list[dict[str, Any]]:
    """Each buffer of the arena: its name, offset and bytes, and the first and last operation of the
    program that need it. Bytes are rounded up as the memory plan does, unless they are to be exact.
    """
    plan: list[dict[str, Any]] = []
    for life in lifetimes(program):
        assert life.alloc.offset is not None, "the memory plan places every buffer"
        plan.append(
            {
                "name": life.alloc.result.name_hint or "",
                "offset": _plain(life.alloc.offset.data[0]),
                "bytes": _plain(
                    buffer_bytes(buffer_type_of(life.alloc.result)) if exact else life.size
                ),
                "first": life.first,
                "last": life.last,
            }
        )
    return plan


def _sum(terms: Iterable[Expr]) -> Expr:
    return sum(terms, Expr.of(0))


def _plain(expr: Expr) -> int | str:
    return str(expr) if expr.constant is None else expr.constant


def describe_collectives(program: ProgramOp) -> list[dict[str, object]]:
    """What ranks do together in a call, in its order, stage after stage: the operation, how many
    ranks a group has, the bytes of the result on each rank or of the message (None for sizes that
    vary), and the node that it is for.
    """
    return [
        {
            "operation": op.operation.data
            if isinstance(op, WaitOp)
            else op.name.removeprefix("loop."),
            "ranks": op.members,
            "bytes": buffer_bytes(
                buffer_type_of(op.target if isinstance(op, WaitOp) else op.buffer)
            ).constant,
            "node": op.location.desc.data if isinstance(op.location, NameLoc) else None,
        }
        for op in communications(program)
    ]
