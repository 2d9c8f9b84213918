"""Groups of operators become naive kernels: the operators' own loop nests one after the other, with
temporaries between them. A kernel is named after the hash of its text, so that equal ones are one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import SSAValue

from weft.compiler.graph_to_loop.kernel_sizes import rename_sizes
from weft.compiler.graph_to_loop.lower_control import buffer_of
from weft.dialects.graph import ConstantOp, FusedOp, GraphOp
from weft.dialects.graph.core.types import ShapeAttr, TensorType, type_of
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import BufferType


def lower_group(
    group: FusedOp,
    arguments: Sequence[SSAValue],
    constants: Mapping[SSAValue, ConstantOp],
    *,
    strict: bool = False,
) -> KernelOp:
    """The naive kernel of a group: its arguments' buffers, then its results'.

    Constants that the group gets as literals become part of the loops that read them.
    """
    yielded = list(group.yielded)
    tensor_types = [type_of(value) for value in (*arguments, *yielded)]
    kernel = KernelOp.of(
        kernel_stem(group.members),
        sizes_of(group.members, tensor_types),
        [buffer_of(each) for each in tensor_types],
    )
    kernel.location = location_of(group) or kernel.location
    block = kernel.body.block
    builder = LoopBuilder(block, strict=strict)
    buffers: dict[SSAValue, SSAValue] = dict(zip((*arguments, *yielded), block.args, strict=True))
    for value, constant in constants.items():
        bind_constant(builder, buffers, value, constant)
    for op in group.members:
        if isinstance(op, ConstantOp) and op.result not in buffers:
            bind_constant(builder, buffers, op.result, op)
            continue
        for result in op.results:
            if result not in buffers:
                buffers[result] = _temporary(builder, type_of(result))
        op.lower(
            builder,
            [buffers[operand] for operand in op.operands],
            [buffers[result] for result in op.results],
        )
    return kernel


def bind_constant(
    builder: LoopBuilder, buffers: dict[SSAValue, SSAValue], value: SSAValue, constant: ConstantOp
) -> None:
    """A splat is no buffer at all; other literals are written to a temporary."""
    assert constant.literal is not None, "a group holds inline constants only"
    tensor_type = constant.result_type
    if len(constant.literal.data) == 1:
        buffers[value] = builder.literal(
            constant.literal.data[0], tensor_type.shape, tensor_type.element
        )
    else:
        buffers[value] = _temporary(builder, tensor_type)
        constant.lower(builder, [], [buffers[value]])


def _temporary(builder: LoopBuilder, tensor_type: TensorType) -> SSAValue:
    return builder.temporary(tensor_type.shape, tensor_type.element)


def copy_kernel(source: BufferType, target: BufferType) -> KernelOp:
    """A kernel that copies every logical element from one buffer to
    another, whatever their layouts.
    """
    symbols = list(dict.fromkeys(name for dim in source.shape for name in dim.symbols()))
    kernel = KernelOp.of("copy", symbols, [source, target])
    builder = LoopBuilder(kernel.body.block)
    with builder.loops(source.shape) as index:
        builder.store(
            kernel.body.block.args[1], index, builder.load(kernel.body.block.args[0], index)
        )
    return kernel


def canonicalize_kernel(kernel: KernelOp) -> str:
    """Renames symbols to `n0, n1, ...` and the kernel after the hash
    of its text; returns that text.

    Two kernels with the same text are the same kernel.
    """
    names = {name: f"n{position}" for position, name in enumerate(kernel.symbol_names)}
    if any(name != new for name, new in names.items()):
        rename_sizes(kernel, names)
    stem = kernel.sym_name.data
    for position, argument in enumerate(kernel.body.block.args):
        argument.name_hint = f"a{position}"
    kernel.properties["sym_name"] = StringAttr("kernel")
    text = str(kernel)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    kernel.properties["sym_name"] = StringAttr(f"{stem}_{digest}")
    return text


def symbols_of(tensor_types: Sequence[TensorType]) -> list[str]:
    """The sizes that the types of tensors name, each once."""
    return list(
        dict.fromkeys(name for each in tensor_types for dim in each.shape for name in dim.symbols())
    )


def sizes_of(members: Sequence[GraphOp], arguments: Sequence[TensorType]) -> list[str]:
    """The sizes that a kernel of operators needs: those of its types, and of their attributes."""
    inner = [type_of(result) for op in members for result in op.results]
    attributes = (value for op in members for value in op.properties.values())
    dims = [dim for value in attributes if isinstance(value, ShapeAttr) for dim in value.data or ()]
    names = [*symbols_of([*arguments, *inner]), *(name for dim in dims for name in dim.symbols())]
    return list(dict.fromkeys(names))


def kernel_stem(members: Sequence[GraphOp]) -> str:
    """The name of a group's kernel but for its hash: at most four operators' names."""
    names = [op.name.removeprefix("graph.") for op in members if not isinstance(op, ConstantOp)]
    return "_".join(names[:4]) or "constant"


def location_of(group: FusedOp) -> LocationAttr | None:
    """The locations of the nodes that a group's operators come from; None where none has any."""
    names = list(
        dict.fromkeys(op.location for op in group.members if isinstance(op.location, NameLoc))
    )
    if not names:
        return None
    return names[0] if len(names) == 1 else FusedLoc(tuple(names), NoneAttr())
