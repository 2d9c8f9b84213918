"""`weft compile`: an ONNX model to machine code, or to any level on the way."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from weft.cli.model import add_compile_options, compile_from, progressing_from
from weft.cli.parser import command_parser
from weft.cli.table import shown_bytes
from weft.cli.terminal import show, tell
from weft.compiler.frontend.graph_file_names import SUFFIX
from weft.compiler.machine.artifact.artifact import WASM, Compiled
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.bindings.files import BINDINGS
from weft.compiler.machine.bindings.names import base_name, base_name_of_library
from weft.compiler.machine.elf.linkers import LINKERS, WEFT
from weft.dialects.errors import OptionError

TEXTS: Final = ("graph", "loop", "llvm", "asm")
BINARIES: Final = ("obj", "a", "so", "wasm")

_EXAMPLES: Final = """\
examples:
  weft compile model.onnx                                 libmodel.so and libmodel.h
  weft compile model.onnx -o build/libnet.a               a static library, by its name
  weft compile model.onnx --emit obj -o build             a folder of objects
  weft compile model.onnx --target-cpu x86-64-v3          for any CPU with AVX2
  weft compile model.onnx --isa v2,v3,v4                  code for three levels of x86-64
  weft compile model.onnx --target-cpu wasm32             model.wasm, for any engine
  weft compile model.onnx --emit so,pc,example-c,python   and what helps others to use it
  weft compile model.onnx --emit graph -o net.mlir        the optimised graph, and net.weights;
  weft compile net.mlir                                   goes on from there
  weft compile model.onnx --emit loop | less              the scheduled loops
  weft compile model.onnx --dump-dir stages               the text of every stage
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft compile", "Compiles an ONNX model. The result needs libc and nothing else.", _EXAMPLES
    )
    made.add_argument("model", help="an ONNX file")
    made.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="lib<model>.so by default; standard output for texts; a folder for obj",
    )
    made.add_argument(
        "--emit",
        metavar="KIND,KIND",
        type=_forms_of,
        help=f"what to write: the text of a level ({', '.join(TEXTS)}), or {', '.join(BINARIES)}; "
        f"with a shared object also bindings for it ({', '.join(BINDINGS)}); by default what the "
        "name of the output says",
    )
    made.add_argument(
        "--linker",
        choices=LINKERS,
        default=WEFT,
        help="what links a shared object: weft, or a linker of this computer",
    )
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Writes what was asked for. Raises WeftError."""
    start = time.perf_counter()
    first_form, *forms = arguments.emit or [_default_form(arguments.output, arguments.target)]
    if first_form in TEXTS:
        _write_text(arguments, first_form)
        return
    if first_form != "so" and arguments.linker != WEFT:
        raise OptionError(f"--linker {arguments.linker} requires a shared object, got {first_form}")
    output = arguments.output or _default_output(arguments, first_form)
    if first_form != "obj" or arguments.output is None:
        base_name_of_library(output) if forms else base_name(output)
    if not output.parent.is_dir():
        raise OptionError(f"-o requires a folder that exists, got {output.parent}")
    compiled = compile_from(arguments)
    _write(compiled, first_form, output, arguments.linker)
    for form in forms:
        compiled.export_form(form, output)
    if sys.stderr.isatty():
        size = "" if output.is_dir() else f" ({shown_bytes(output.stat().st_size)})"
        tell(f"{output}{size} in {time.perf_counter() - start:.2f} s")


def _forms_of(text: str) -> list[str]:
    """One kind, or a shared object with forms; the shared object may be left out."""
    names = [name for name in text.split(",") if name]
    choices = (*TEXTS, *BINARIES, *BINDINGS)
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        rule = f"requires kinds of {', '.join(choices)}"
        raise argparse.ArgumentTypeError(f"{rule}, got {', '.join(unknown) or text!r}")
    main = [name for name in names if name not in BINDINGS] or ["so"]
    forms = [name for name in names if name in BINDINGS]
    if len(main) > 1 or (forms and main != ["so"]):
        raise argparse.ArgumentTypeError(f"requires one kind, or so with others, got {text}")
    return [*main, *forms]


def _default_form(output: Path | None, target: str) -> str:
    if output is None:
        return "wasm" if target == WASM else "so"
    suffix = output.suffix[1:]
    if suffix not in BINARIES[1:]:
        raise OptionError(f"-o requires a name in .so, .a or .wasm, or --emit, got {output}")
    return suffix


def _default_output(arguments: argparse.Namespace, form: str) -> Path:
    stem = Path(arguments.model).stem
    return Path({"obj": stem, "wasm": f"{stem}.wasm"}.get(form, f"lib{stem}.{form}"))


def _write(compiled: Compiled, form: str, output: Path, linker: str) -> None:
    if form == "so":
        compiled.export(output, linker=linker)
    elif form == "a":
        compiled.export_archive(output)
    elif form == "wasm":
        compiled.export_wasm(output)
    else:
        compiled.export_objects(output)


def _write_text(arguments: argparse.Namespace, level: str) -> None:
    from weft.compiler.driver.emit import emit_text, save_graph

    if arguments.isa is not None:
        raise OptionError(f"--emit {level} requires one CPU, got --isa {','.join(arguments.isa)}")
    if level == "graph" and arguments.output is not None:
        if arguments.output.suffix != SUFFIX:
            raise OptionError(f"-o requires a name in {SUFFIX} for a graph, got {arguments.output}")
        with progressing_from(arguments) as start:
            save_graph(arguments.model, arguments.output, start())
        return
    with progressing_from(arguments) as start:
        text = emit_text(arguments.model, level, start())
    if arguments.output is None:
        show(text, end="")
        return
    with replacing(arguments.output) as out:
        out.write(text.encode())
