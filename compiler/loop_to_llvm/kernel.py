"""loop.kernel -> LLVM IR: one module with one hidden function, `void <prefix>.<kernel>(ptr ctx, i64
size.., ptr buffer..)`.

Buffers may overlap where the program passes one twice, for operations in place; so no argument is
marked noalias.
"""

from __future__ import annotations

from functools import reduce

from llvmlite import ir
from xdsl.ir import SSAValue

from weft.compiler.loop_to_llvm.body import BodyEmitter, Unit
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.matrix_product import MatrixProduct
from weft.compiler.loop_to_llvm.memory.storage import Storage
from weft.compiler.loop_to_llvm.module_text import module_text, take_apart
from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER, VOID
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import ForOp, StoreOp
from weft.dialects.loop.program import KernelOp, size_ranges
from weft.dialects.loop.types import buffer_type_of


def kernel_symbol(prefix: str, name: str) -> str:
    """The linker's name of a kernel of the model with that prefix."""
    return f"{prefix}.{name}"


def kernel_type(sizes: int, buffers: int) -> ir.FunctionType:
    """The LLVM type of a kernel that takes so many sizes and buffers."""
    return ir.FunctionType(VOID, [POINTER, *[I64] * sizes, *[POINTER] * buffers])


def emit_kernel(
    kernel: KernelOp,
    target: Target,
    *,
    prefix: str = "weft",
    strict_fp: bool = False,
    exported: bool = False,
    guarded: bool = False,
) -> str:
    """The LLVM IR of a kernel as text. `strict_fp` forbids to contract a product and a sum into one
    operation; `exported` lets others than the artifact's own program call it; `guarded` has it
    trap where it writes beside its buffers on the stack.
    """
    module = ir.Module(kernel.sym_name.data)
    module.triple = target.triple
    symbols, buffers = kernel.symbol_names, kernel.body.block.args
    function_type = kernel_type(len(symbols), len(buffers))
    function = ir.Function(module, function_type, kernel_symbol(prefix, kernel.sym_name.data))
    if not exported:
        function.linkage = "hidden"
    function.attributes.add("nounwind")
    context, *arguments = function.args
    sizes = dict(zip(symbols, arguments, strict=False))
    values: dict[SSAValue, ir.Value | Expr | Storage] = {
        buffer: Storage(pointer, buffer_type_of(buffer))
        for buffer, pointer in zip(buffers, arguments[len(symbols) :], strict=True)
    }
    contracts = target.has_fma and not strict_fp
    unit = Unit(
        target,
        sizes,
        context,
        prefix,
        contracts,
        _widest(kernel),
        guarded,
        _has_tiles(kernel, target),
    )
    frame = Frame(function)
    frame.ranges |= size_ranges(kernel)
    emitter = BodyEmitter(frame, unit, values)
    _emit_body(emitter, kernel)
    emitter.finish()
    text = module_text(module)
    take_apart(module)
    return text


def _emit_body(emitter: BodyEmitter, kernel: KernelOp) -> None:
    """Emits a kernel's loops, where some are nested only to run if a buffer that they write has
    elements: of none, the outer loops may still have very many iterations.
    """
    frame, block = emitter.frame, kernel.body.block
    loops = [op for op in kernel.walk() if isinstance(op, ForOp)]
    stored = {op.buffer for op in kernel.walk() if isinstance(op, StoreOp)}
    sizes = dict.fromkeys(buffer_type_of(each).size for each in block.args if each in stored)
    surely = any((size.range(frame.ranges)[0] or 0) > 0 for size in sizes)
    if surely or not sizes or all(loop.parent_op() is kernel for loop in loops):
        emitter.block(block)
        return
    elements = [emitter.index.uniform(size) for size in sizes]
    some = reduce(frame.builder.or_, elements, ir.Constant(I64, 0))
    with emitter.control.when(frame.builder.icmp_unsigned("!=", some, some.type(0)), "some"):
        emitter.block(block)


def _has_tiles(kernel: KernelOp, target: Target) -> bool:
    """Whether some loop is one over registers that hold tiles of matrices."""
    loops = [op for op in kernel.walk() if isinstance(op, ForOp) and op.matrix is not None]
    return bool(loops) and all(MatrixProduct.of(loop).is_of(target) for loop in loops)


def _widest(kernel: KernelOp) -> int:
    """The most lanes of any vector loop."""
    loops = (op for op in kernel.walk() if isinstance(op, ForOp) and op.vector is not None)
    return max((loop.vector.data for loop in loops if loop.vector is not None), default=1)
