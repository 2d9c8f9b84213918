"""program -> program: brings every argument of a call into the layout that its kernel reads it in.

A weight becomes a derived weight of the kernel's layout, prepared once while compiling.
Any other value is copied by a kernel to a buffer of that layout, in front of the loops that only
read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.program.layouts.keep_factors import loop_around
from weft.dialects.expr import Atom, Expr, Operand, Symbol
from weft.dialects.loop.dynamic import SubviewOp, weight_of
from weft.dialects.loop.equal_sizes import as_multiples, multiples, noted_equal_sizes
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import COPIES, CallOp, KernelOp, ProgramOp, WeightOp
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer, buffer_type_of

CopyKernel = Callable[[BufferType, BufferType], KernelOp]
"""Makes a (scheduled, canonically named) kernel that copies between two
layouts; handed in by the pipeline.
"""

Conversion = tuple[Block | None, SSAValue, BufferType]
"""A block, in which a value is brought into the layout of a type: others may see another value. A
weight is the same in all of them.
"""


class AssignLayouts(Struct, frozen=True):
    """The pass over one module, with the maker of conversion kernels."""

    copy_kernel: CopyKernel

    def run(self, module: ModuleOp) -> None:
        """Rewrites each program of the module; adds the conversion kernels that it needs."""
        kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        for program in [op for op in module.ops if isinstance(op, ProgramOp)]:
            known = as_multiples(multiples(noted_equal_sizes(program)))
            converted: dict[Conversion, SSAValue] = {}
            for call in [op for op in program.walk() if isinstance(op, CallOp)]:
                self._convert_arguments(call, kernels, converted, known)
        present = {op.sym_name.data for op in module.ops if isinstance(op, KernelOp)}
        first = module.body.block.first_op
        for name, kernel in kernels.items():
            if name not in present and first is not None:
                module.body.block.insert_op_before(kernel, first)

    def _convert_arguments(
        self,
        call: CallOp,
        kernels: dict[str, KernelOp],
        converted: dict[Conversion, SSAValue],
        known: Mapping[Atom, Expr],
    ) -> None:
        kernel = kernels[call.kernel]
        sizes: dict[Atom, Expr] = {
            Symbol(name): size
            for name, size in zip(kernel.symbol_names, call.sizes.data, strict=True)
        }
        for position, argument in enumerate(kernel.body.block.args):
            value = call.arguments[position]
            wanted, given = buffer_type_of(argument).substitute(sizes), buffer_type_of(value)
            if wanted == given or wanted.substitute(known) == given.substitute(known):
                continue
            anchor = loop_around(call, value, kernels) or call
            conversion = ((weight_of(value) or anchor).parent, value, wanted)
            if conversion not in converted:
                converted[conversion] = self._convert(anchor, value, wanted, kernels)
            call.operands[position] = converted[conversion]

    def _convert(
        self, anchor: Operation, value: SSAValue, wanted: BufferType, kernels: dict[str, KernelOp]
    ) -> SSAValue:
        """The value in a layout, copied to it in front of `anchor` if it is no weight."""
        weight = weight_of(value)
        if weight is not None:
            return _derived(weight, value, wanted)
        block = anchor.parent_block()
        assert block is not None, "calls and loops stand in a program"
        target = AllocOp.of(wanted)
        source = buffer_type_of(value)
        kernel = self.copy_kernel(source, wanted)
        kernel = kernels.setdefault(kernel.sym_name.data, kernel)
        names = dict.fromkeys(name for dim in source.shape for name in dim.symbols())
        copy = CallOp.of(
            kernel.sym_name.data, [Expr.of(name) for name in names], [value, target.result]
        )
        copy.attributes[COPIES] = UnitAttr()
        block.insert_ops_before([target, copy], anchor)
        return target.result


def _derived(weight: WeightOp, value: SSAValue, wanted: BufferType) -> SSAValue:
    """A weight, or the same row of one, in the layout of a type."""
    row = value.owner
    if not isinstance(row, SubviewOp):
        derived = WeightOp.of(weight.key.data, wanted)
        Rewriter.insert_op(derived, InsertPoint.before(weight))
        return derived.result
    rows = buffer_type_of(weight.result).shape[0]
    derived = WeightOp.of(weight.key.data, _with_rows(wanted, rows))
    own = SubviewOp.of(derived.result, row.value, wanted)
    Rewriter.insert_op([derived, own], InsertPoint.before(row))
    return own.result


def _with_rows(row: BufferType, rows: Expr) -> BufferType:
    """The type of so many buffers of a type, one behind the other."""
    shape, storage = (rows, *row.shape), (rows, *row.storage)
    if not isinstance(row.layout, LayoutAttr):
        return buffer(shape, row.element)
    shifted: dict[Atom, Expr] = {
        Operand(at): Expr.atom(Operand(at + 1)) for at in range(len(row.shape))
    }
    subscripts = [each.substitute(shifted) for each in row.layout.subscripts.data]
    layout = LayoutAttr(ExprsAttr((Expr.atom(Operand(0)), *subscripts)), ExprsAttr(storage))
    return buffer(shape, row.element, layout)


def drop_unused_weights(module: ModuleOp) -> None:
    """Removes weights that no call reads any more, their derived forms having taken their place."""
    for weight in [op for op in module.walk() if isinstance(op, WeightOp)]:
        for row in [use.operation for use in weight.result.uses]:
            if isinstance(row, SubviewOp) and not row.result.uses:
                Rewriter.erase_op(row)
        if not weight.result.uses:
            Rewriter.erase_op(weight)


class DropUnusedWeightsPass(ModulePass):
    """Removes weights that nothing reads."""

    name = "weft-drop-unused-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        drop_unused_weights(op)
