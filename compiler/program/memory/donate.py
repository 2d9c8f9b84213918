"""program -> program: outputs that the caller may have where inputs lie, such as parameters after a
step of training, are written when those inputs are read no more.

    loop.program @main(%w, %w2) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.program.memory.in_place import InPlace, in_place_arguments
from weft.compiler.program.memory.plan_memory import kernels_of, number_operations
from weft.dialects.errors import OptionError
from weft.dialects.loop.dynamic import CopyOp, aliased, root
from weft.dialects.loop.ops import AllocOp, IfOp
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, donated_pairs
from weft.dialects.loop.types import buffer_type_of


class DonatePass(ModulePass):
    """Brings programs into a form in which each output of a pair of `donated` (places among inputs
    and among outputs) may lie where its input lies.
    """

    name = "weft-donate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        donate(op)


def donate(module: ModuleOp) -> None:
    """Rewrites the programs of a module whose kernels are known. Raises OptionError for a pair of
    two types.
    """
    kernels = kernels_of(module)
    for program in module.ops:
        if isinstance(program, ProgramOp):
            arguments = program.body.block.args
            pairs, positions = donated_pairs(program), number_operations(program)
            for source, target in pairs:
                operand, result = arguments[source], arguments[program.inputs.data + target]
                if operand.type != result.type:
                    names = operand.name_hint or source, result.name_hint or target
                    got = f"{operand.type} and {result.type} for %{names[0]} and %{names[1]}"
                    raise OptionError(f"donated inputs require outputs of their type, got {got}")
                if not _is_written_last(program, operand, result, kernels, positions):
                    _write_behind(program, result)


def _is_written_last(
    program: ProgramOp,
    operand: SSAValue,
    result: SSAValue,
    kernels: Mapping[str, KernelOp],
    positions: Mapping[Operation, tuple[int, int]],
) -> bool:
    """Whether the operand is read no more when the result is written first, or by the operation
    that writes it alone, of each element in front of it; of branches in each. What other pairs have
    added since operations got their places uses neither.
    """
    writers: dict[Block | None, Operation] = {}
    for user in sorted(_users(result), key=lambda each: positions[each][0]):
        writers.setdefault(user.parent, user)
    read = set(_users(operand))
    for writer in writers.values():
        regions = _branches(writer, program)
        if regions is None:
            return False
        later = (each for each in read if positions[each][1] > positions[writer][0])
        if any(each is not writer and _may_follow(each, regions, program) for each in later):
            return False
        if writer in read and not _goes_in_place(writer, operand, result, kernels):
            return False
    return True


def _branches(op: Operation, program: ProgramOp) -> Mapping[Operation, Region] | None:
    """The region of each branch in which an operation stands; None for one in a loop."""
    regions: dict[Operation, Region] = {}
    outer = op.parent_op()
    while outer is not program:
        region = op.parent_region()
        if not isinstance(outer, IfOp) or region is None:
            return None
        regions[outer] = region
        op, outer = outer, outer.parent_op()
    return regions


def _may_follow(op: Operation, regions: Mapping[Operation, Region], program: ProgramOp) -> bool:
    """Whether an operation may run in a call that takes these regions of branches."""
    while (outer := op.parent_op()) is not None and outer is not program:
        if regions.get(outer, op.parent_region()) is not op.parent_region():
            return False
        op = outer
    return True


def _goes_in_place(
    writer: Operation, operand: SSAValue, result: SSAValue, kernels: Mapping[str, KernelOp]
) -> bool:
    if isinstance(writer, CopyOp):
        return writer.source is operand
    if not isinstance(writer, CallOp):
        return False
    arguments = list(writer.arguments)
    buffers = list(map(root, arguments))  # what is read through a view is read, too
    alone = all(buffers.count(each) == 1 and each in arguments for each in (operand, result))
    if not alone:
        return False
    pair = InPlace(arguments.index(operand), arguments.index(result))
    return writer.kernel in kernels and pair in in_place_arguments(kernels[writer.kernel])


def _users(value: SSAValue) -> Iterator[Operation]:
    """The operations that use a buffer, through views of it as well."""
    for use in value.uses:
        yield use.operation
        if aliased(use.operation) is not None:
            yield from _users(use.operation.results[0])


def _write_behind(program: ProgramOp, result: SSAValue) -> None:
    """Lets the output be computed beside, and copied when all is done."""
    block = program.body.block
    own = AllocOp.of(buffer_type_of(result))
    result.replace_all_uses_with(own.result)
    first = block.first_op
    if first is None:
        block.add_op(own)
    else:
        block.insert_op_before(own, first)
    block.add_op(CopyOp.of(own.result, result))
