"""The text of a model at one of the levels on its way to machine code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from weft.compiler.driver.pipeline import plan_model, read_graph
from weft.compiler.driver.session import Session
from weft.compiler.frontend.from_graph_file import graph_text, has_weights, write_weights
from weft.compiler.frontend.graph_file_names import weights_beside
from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.loop_to_llvm.program.emit import emit_program
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.codegen.object_code import compile_assembly
from weft.dialects.errors import OptionError
from weft.dialects.loop.program import KernelOp, ProgramOp


def emit_text(source: Source, level: str, session: Session) -> str:
    """The optimised graph, the scheduled loops, or the LLVM IR or assembly of the program and its
    kernels, each of which is a module under a comment with its name.
    """
    if session.options.buckets:
        raise OptionError("texts of a level require one program, got buckets")
    if level == "graph":
        return f"{read_graph(source, session).module!s}\n"
    imported = plan_model(source, session)
    if level == "loop":
        return f"{imported.module!s}\n"
    target = session.options.target
    comment = "#" if level == "asm" else ";"
    texts: list[str] = []
    for name, text in _llvm_modules(imported.module, session):
        shown = compile_assembly(text, target) if level == "asm" else text
        texts.append(f"{comment} {name}\n{shown}\n")
    return "\n".join(texts)


def save_graph(source: Source | ImportedModel, output: Path, session: Session) -> None:
    """Writes the optimised graph as a graph file, and its weights beside it. Raises OptionError for
    one with buckets, each of which has a graph.
    """
    if session.options.buckets:
        raise OptionError("a graph file requires one program, got buckets")
    imported = read_graph(source, session)
    digest = None
    if has_weights(imported.module):
        with replacing(weights_beside(output)) as out:
            digest = write_weights(imported.module, imported.weights, out)
    with replacing(output) as out:
        out.write(graph_text(imported.module, digest).encode())


def _llvm_modules(module: ModuleOp, session: Session) -> Iterator[tuple[str, str]]:
    options = session.options
    for op in module.ops:
        if isinstance(op, ProgramOp):
            yield op.sym_name.data, emit_program(op, options.target, prefix=options.prefix)
        elif isinstance(op, KernelOp):
            text = emit_kernel(
                op, options.target, prefix=options.prefix, strict_fp=options.strict_fp
            )
            yield op.sym_name.data, text
