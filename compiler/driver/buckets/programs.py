"""The programs around those of buckets: what chooses one by the sizes of a call, what pads lesser
sizes, and the proof that padding changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.utils.hints import isa

from weft.compiler.driver.options import Options
from weft.compiler.graph.bound_sizes import input_sizes
from weft.compiler.graph_to_loop.lower_graph import lower_module
from weft.compiler.graph_to_loop.naive_kernels import canonicalize_kernel
from weft.compiler.loop_to_llvm.program.emit import workspace_bytes
from weft.compiler.program.buckets import choosing_program
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.compiler.program.pad_rows import padding_program
from weft.compiler.program.prove_rows import RowProof
from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.loop.program import ProgramOp
from weft.dialects.loop.types import buffer_type_of


def require_bucket_sizes(module: ModuleOp, options: Options) -> None:
    """Refuses buckets of what is no named size of an input."""
    names = input_sizes(module)
    unknown = [name for each in options.buckets.sizes for name in each.names if name not in names]
    if unknown:
        rule = f"buckets require sizes of the inputs ({', '.join(names)})"
        raise OptionError(f"{rule}, got {', '.join(unknown)}")


def chooser_of(module: ModuleOp, options: Options) -> ProgramOp:
    """The program that chooses, for the model of this graph."""
    lowered = module.clone()
    lower_module(lowered)
    program = next(op for op in lowered.ops if isinstance(op, ProgramOp))
    buckets = options.buckets
    otherwise, padded = buckets.otherwise == "dynamic", buckets.fit == "pad"
    return choosing_program(program, buckets.combinations(), padded=padded, otherwise=otherwise)


def require_independent_rows(graph: ModuleOp, options: Options) -> None:
    """Checks that buckets may be padded to; `graph` has an operator a kernel, and is used up.

    Raises UnsupportedError that names, for each size, the node where rows start to depend on each
    other, and OptionError for a mask that is no input of its size.
    """
    lower_module(graph, strict=options.strict_fp)
    program = next(op for op in graph.ops if isinstance(op, ProgramOp))
    _check_masks(program, options)
    masked = {each.size for each in options.buckets.masks}
    sized = [name for bucket in options.buckets.sizes for name in bucket.names]
    names = [name for name in sized if name not in masked]
    proofs = {name: RowProof(program, kernels_of(graph), name).dependence() for name in names}
    got = [f"{name}: {found}" for name, found in proofs.items() if found is not None]
    if got:
        rule = "padding to buckets requires rows that do not depend on each other, or a mask"
        raise UnsupportedError(f"{rule}, got {'; '.join(got)}")


def _check_masks(program: ProgramOp, options: Options) -> None:
    names = program.attributes.get("input_names")
    known = [name.data for name in names] if isa(names, ArrayAttr[StringAttr]) else []
    shapes = [buffer_type_of(each).shape for each in program.body.block.args]
    for mask in options.buckets.masks:
        shape = shapes[known.index(mask.input)] if mask.input in known else ()
        if not any(str(dim) == mask.size for dim in shape):
            rule = f"bucket mask requires an input with the dim {mask.size}"
            raise OptionError(f"{rule}, got {mask.input}")


def padding_modules(
    chooser: ProgramOp, bodies: Sequence[ProgramOp], options: Options
) -> list[ModuleOp]:
    """A module for each bucket of a program that pads to it, naive kernels beside it; `bodies` are
    the planned programs of the buckets.
    """
    masks = {each.input for each in options.buckets.masks}
    name = chooser.sym_name.data
    modules: list[ModuleOp] = []
    table = options.buckets.combinations()
    for number, (sizes, body) in enumerate(zip(table, bodies, strict=False)):
        callee = body.clone()
        callee.properties["sym_name"] = StringAttr(f"{name}_{number}")
        own, size = f"{name}_{number}_padded", workspace_bytes(body)
        modules.append(
            padding_program(chooser, own, sizes, callee, size, masks, canonicalize_kernel)
        )
    return modules
