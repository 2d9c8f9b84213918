"""The text of a model at one of the levels on its way to machine code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr

from weft.compiler.driver.compile_kernels import level_of
from weft.compiler.driver.pipeline import import_model, plan_model, read_graph
from weft.compiler.driver.session import Session
from weft.compiler.frontend.from_graph_file import graph_text, has_weights, write_weights
from weft.compiler.frontend.graph_file_names import weights_path
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.loop_to_llvm.program.emit import emit_program
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.codegen.code_generator import Level
from weft.compiler.machine.codegen.object_code import compile_assembly
from weft.compiler.target.module_target import target_of
from weft.dialects.errors import OptionError
from weft.dialects.graph import NativeCallOp
from weft.dialects.loop.program import KernelOp, ProgramOp, number_calls
from weft.dialects.module_attributes import code_options


def emit_text(source: Source, level: str, session: Session) -> str:
    """The optimised graph, the scheduled loops, or the LLVM IR or assembly of the program and its
    kernels, each of which is a module under a comment with its name.
    """
    if session.options.buckets.sizes:
        raise OptionError("texts of a level require one program, got buckets")
    if level == "graph":
        return f"{read_graph(source, session).module!s}\n"
    imported = plan_model(source, session)
    if level == "loop":
        return f"{imported.module!s}\n"
    return assembly_text(imported.module) if level == "asm" else llvm_text(imported.module)


def llvm_text(module: ModuleOp) -> str:
    """The LLVM IR of each kernel and program of a module, for its target and by its options."""
    return "\n".join(f"; {name}\n{text}\n" for name, text, _ in llvm_modules(module))


def assembly_text(module: ModuleOp) -> str:
    """The assembly of each kernel and program of a module, for its target and by its options."""
    target = target_of(module)
    return "\n".join(
        f"# {name}\n{compile_assembly(text, target, level)}\n"
        for name, text, level in llvm_modules(module)
    )


def save_graph(
    source: Source | ImportedModel, output: Path, session: Session, *, optimised: bool = True
) -> None:
    """Writes the graph, optimised or as it was made, as a graph file, and its weights beside it.
    Raises OptionError for one with buckets, each of which has a graph.
    """
    if session.options.buckets.sizes:
        raise OptionError("a graph file requires one program, got buckets")
    read = read_graph if optimised else import_model
    imported = read(source, session)
    for op in imported.module.walk():
        if isinstance(op, NativeCallOp) and not isinstance(op.code, StringAttr):
            rule = "a graph file requires native kernels of object files"
            raise OptionError(f"{rule}, got {op.declared.name} at an address of this process")
    digest = None
    if has_weights(imported.module):
        with replacing(weights_path(output)) as out:
            digest = write_weights(imported.module, imported.weights, out)
    with replacing(output) as out:
        out.write(graph_text(imported.module, digest, optimised=optimised).encode())


def llvm_modules(module: ModuleOp) -> Iterator[tuple[str, str, Level]]:
    """The LLVM IR of each kernel and program by name, for the module's target, and the level at
    which LLVM generates its code.
    """
    target, options = target_of(module), code_options(module)
    numbers = number_calls(op for op in module.ops if isinstance(op, ProgramOp))
    for op in module.ops:
        if isinstance(op, ProgramOp):
            text = emit_program(op, target, prefix=options.prefix, numbers=numbers)
            yield op.sym_name.data, text, level_of(op)
        elif isinstance(op, KernelOp):
            guarded, strict = bool(options.guarded), options.strict_fp
            text = emit_kernel(op, target, prefix=options.prefix, strict_fp=strict, guarded=guarded)
            yield op.sym_name.data, text, level_of(op)
