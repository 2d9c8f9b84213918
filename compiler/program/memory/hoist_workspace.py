"""program -> program: temporaries that kernels allocate in the workspace become
arguments that the program allocates.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import TEMPORARIES, CallOp, KernelOp, ProgramOp
from weft.dialects.loop.types import BufferType, buffer_type_of


class HoistWorkspacePass(ModulePass):
    """Moves every `loop.alloc workspace` of a kernel into its callers,
    so that the memory plan sees it.
    """

    name = "weft-hoist-workspace"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hoist_workspace(op)


def hoist_workspace(module: ModuleOp) -> None:
    """Rewrites each kernel once and all of its calls."""
    hoisted = {
        kernel.sym_name.data: (kernel.symbol_names, hoist_kernel(kernel))
        for kernel in module.ops
        if isinstance(kernel, KernelOp)
    }
    for program in module.ops:
        if isinstance(program, ProgramOp):
            for call in [op for op in program.walk() if isinstance(op, CallOp)]:
                symbols, types = hoisted[call.kernel]
                _extend_call(call, symbols, types)


def hoist_kernel(kernel: KernelOp) -> list[BufferType]:
    """Turns the kernel's workspace allocations into arguments, unless that is noted as done;
    returns their types.
    """
    noted = kernel.attributes.get(TEMPORARIES)
    if isa(noted, IntAttr):
        arguments = kernel.body.block.args
        return [buffer_type_of(each) for each in arguments[len(arguments) - noted.data :]]
    types: list[BufferType] = []
    for alloc in [
        op for op in kernel.walk() if isinstance(op, AllocOp) and op.scope.data == "workspace"
    ]:
        assert alloc.parent_op() is kernel, "a workspace allocation stands at the top of its kernel"
        argument = kernel.body.block.insert_arg(alloc.result.type, len(kernel.body.block.args))
        argument.name_hint = alloc.result.name_hint
        types.append(buffer_type_of(alloc.result))
        alloc.result.replace_all_uses_with(argument)
        Rewriter.erase_op(alloc)
    return types


def _extend_call(call: CallOp, symbols: list[str], types: list[BufferType]) -> None:
    if not types:
        return
    values: dict[Atom, Expr] = {
        Symbol(name): size for name, size in zip(symbols, call.sizes.data, strict=True)
    }
    temporaries: list[SSAValue] = []
    block = call.parent_block()
    assert block is not None, "a call stands in a program"
    for buffer_type in types:
        alloc = AllocOp.of(buffer_type.substitute(values))
        block.insert_op_before(alloc, call)
        temporaries.append(alloc.result)
    call.operands = [*call.operands, *temporaries]
