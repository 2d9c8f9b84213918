"""Hostile names of files, tensors, nodes and sizes, and what compilers make of the files that weft
generates for them.

`python -m tests.names` tries all names; tests/weft/cli/test_names.py some of them. Every name gives
files that compile without a warning, or is refused in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from weft.cli.main import main
from weft.compiler.machine.bindings.files import BINDINGS
from weft.dialects.errors import printable_lines

CANARY = "canary"
"""A file that code in a name would make."""

_CODE = (
    f'm" + __import__("os").popen("touch {CANARY}").read() + "',
    f"m' + open('{CANARY}', 'w').name + '",
    f'"""\nopen("{CANARY}", "w")\n"""',
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY};", f"| touch {CANARY}",
    f"&& touch {CANARY} #", "$ENV{HOME};${CANARY}", "${pcfiledir}", "@PACKAGE_INIT@",
    f"execute_process(COMMAND touch {CANARY})", f"*/ #error {CANARY} /*", "/* a */ b", "// a \\",
    '"; #include "missing.h', '#include "missing.h"', f"{{__import__('os').mkdir('{CANARY}')}}",
    "%s%n%p%x", "{0}", "{}", "{prefix}", "$prefix", "$$", "%(a)s", "<script>", "[red]x[/red]",
    "${a;b}", "a;b", "a,b", "'; DROP TABLE", "--help", "-Wl,-z", "-rf", "@a", "!a", "~", "*", "?",
    "??/", "??=define", "a??/\nb", "\\", "\\\\", 'a\\"b', "a\\\nb", "\\u000a", "\\x41", "//", "#",
)  # fmt: skip
_CHARACTERS = (
    "a b", " a", "a ", "\t", "a\tb", "a\nb", "a\r\nb", "\n", "a\x00b", "\x01\x02\x03\x04", "\x07",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x7f", "\x85", "\x9b31m", "\u2028", "\u2029",
    "\u202eabc", "a\u202a\u2066b\u2069", "\u200b", "\ufeff", "\ufffe", "\U000e0001", "größe",
    "日本語", "😀", "é" * 200, "x" * 3000, "ﬀ", "Ⅷ", "a\u0301",
)  # fmt: skip
_WORDS = (
    "class", "None", "True", "import", "lambda", "int", "float", "void", "return", "struct",
    "template", "typename", "nullptr", "fn", "impl", "self", "Self", "crate", "mod", "func", "type",
    "package", "range", "map", "main", "init", "if", "end", "weft", "llvm", "json", "ctypes",
    "linux", "std", "errors", "unsafe", "C", "_", "__metadata__", "__init__", "weft.padding.0",
    "context", "dims", "inputs", "workspace", "size", "n", "max", "floordiv",
)  # fmt: skip
_ALIKE = (
    "a!",
    "a?",
    "a_2",
    "a__2",
    "a.",
    "A",
    "-a",
    ".a",
    "3d",
    "1",
    "",
    "..",
    "a/b",
    "a-b",
    "a+b",
)

HOSTILE = tuple(dict.fromkeys(each for each in (*_CODE, *_CHARACTERS, *_WORDS, *_ALIKE) if each))
"""More than a hundred names: code, characters, words that languages have taken, and names that
differ only in what no identifier has.
"""


def sample(count: int) -> list[str]:
    """So many of the names, from all over the list."""
    return [HOSTILE[n * len(HOSTILE) // count] for n in range(count)]


@dataclass(frozen=True)
class Artifact:
    """A shared object and all that was generated for it, in a folder of its own."""

    folder: Path
    prefix: str
    stem: str

    @staticmethod
    def of(folder: Path) -> Artifact:
        """The one in a folder."""
        (binding,), (library,) = folder.glob("*.py"), folder.glob("*.so")
        return Artifact(folder, binding.stem, library.stem.removeprefix("lib"))


def weft(*arguments: object, fails: bool = False) -> str:
    """What a command writes, in which nothing is left that a terminal obeys."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main(list(map(str, arguments)))
    said = out.getvalue() + error.getvalue()
    assert said == printable_lines(said), ascii(said)
    assert (status, error.getvalue() != "") == (int(fails), fails), said
    assert not fails or said.count("\n") == 1, said
    return said


def tool(folder: Path, *command: object, **variables: str) -> str:
    """What a compiler writes, which has nothing to complain about."""
    texts = list(map(str, command))
    done = subprocess.run(
        texts, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), f"{texts[:3]}: {done.stderr[:3000]}"
    return done.stdout


def model_of(names: Sequence[str], title: str) -> onnx.ModelProto:
    """A model of a tensor, a node, a weight and a size of each name."""
    graph = onnx.GraphProto(name=title, doc_string=title)
    for number, name in enumerate(names):
        kind = [TensorProto.FLOAT, [name, 3]]
        graph.input.append(helper.make_tensor_value_info(name, *kind))
        graph.output.append(helper.make_tensor_value_info(f"{name}?", *kind))
        weight = onnx.numpy_helper.from_array(np.full(3, number, np.float32), f"{name}!")
        graph.initializer.append(weight)
        graph.node.append(helper.make_node("Add", [name, f"{name}!"], [f"{name}?"], name=name))
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, model_version=3)
    helper.set_model_props(model, {name: name for name in names})
    return model


def compile_files(names: Sequence[str], folder: Path) -> list[Artifact]:
    """The artifacts of models whose files have these names: under their own, or refused in one
    line and then under one that is given.
    """
    kinds = ",".join(["so", *BINDINGS])
    made: list[Artifact] = []
    for number, name in enumerate(names):
        own = folder / f"d{number}"
        (own / "model").mkdir(parents=True)
        source = own / "model" / f"{name}.onnx"
        try:
            onnx.save(model_of(["x"], name), source)
        except (OSError, ValueError):  # no file can have this name
            continue
        if not re.fullmatch("[A-Za-z_+][A-Za-z0-9_.+-]*", name):
            assert "requires a name of letters" in weft("compile", source, fails=True)
            name = f"m{number}"
        weft("compile", source, "--emit", kinds, "-o", own / f"lib{name}.so")
        made.append(Artifact.of(own))
    return made


def compile_values(names: Sequence[str], folder: Path) -> Artifact:
    """The artifact of a model whose tensors, nodes, weights and sizes have these names, with every
    other kind of result and through every command that shows names.
    """
    own = folder / "values"
    own.mkdir()
    source, library = own / "values.onnx", own / "libvalues.so"
    onnx.save(model_of(names, names[0]), source)
    weft("compile", source, "--emit", ",".join(["so", *BINDINGS]), "-o", library)
    for output in ("values.a", "values.mlir", "objects"):
        kind = {"values.a": "a", "values.mlir": "graph", "objects": "obj"}[output]
        weft("compile", source, "--emit", kind, "-o", own / output)
    weft("compile", source, "--target-cpu", "wasm32", "-o", own / "values.wasm")
    for kind in ("graph", "loop", "llvm", "asm"):
        weft("compile", source, "--emit", kind)
    weft("compile", own / "values.mlir", "-o", own / "again.so")
    shown = [
        json.loads(weft("inspect", own / each, "--json")) for each in (library.name, "again.so")
    ]
    for kind in ("inputs", "outputs", "symbols"):
        assert shown[0][kind] == shown[1][kind]
    assert [each["name"] for each in shown[0]["inputs"]] == list(names)
    sizes = [part for name in shown[0]["symbols"] for part in ("--dim", f"{name}=2")]
    weft("inspect", library)
    weft("verify", library)
    weft("run", library, "--random", *sizes, "--output-dir", own / "outputs")
    weft("run", library, "--random", fails=True)
    (own / "again.so").unlink()
    return Artifact.of(own)


def check_c(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Headers in C99 and C++, examples in C11."""
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    headers = {each.prefix: each.folder / f"lib{each.stem}.h" for each in artifacts}
    text = "".join(f'#include "{path}"\n' for path in headers.values())
    (folder / "headers.c").write_text(f"{text}int main(void) {{ return 0; }}\n")
    tool(folder, "cc", "-std=c99", "-Wno-overlength-strings", *strict, "headers.c")
    tool(folder, "g++", "-std=c++11", "-xc++", *strict, "headers.c")
    examples = [each.folder / f"{each.stem}_example.c" for each in artifacts]
    tool(folder, "cc", "-std=c11", *strict, *examples)


def check_python(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Every module is compiled without a warning, imported, and loads its library."""
    lines = "".join(
        f"sys.path.insert(0, {str(each.folder)!r}); sys.modules.pop({each.prefix!r}, None)\n"
        f"import {each.prefix}; {each.prefix}.Model(threads=1)\n"
        for each in artifacts
    )
    tool(folder, sys.executable, "-W", "error", "-B", "-c", f"import sys\n{lines}")


def check_rust(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Every module under its own name."""
    modules = {each.prefix: each for each in artifacts}.values()
    lines = "".join(
        f'#[path = "{each.folder}/{each.prefix}.rs"]\npub mod {each.prefix};\n' for each in modules
    )
    (folder / "modules.rs").write_text(lines)
    kind = ["--crate-type", "lib", "--emit", "metadata", "--edition", "2021"]
    tool(folder, "rustc", "-D", "warnings", *kind, "modules.rs")


def check_go(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Every package, and a program that imports all."""
    (folder / "go.mod").write_text("module weft.example\n\ngo 1.18\n")
    imports = "".join(f'\t_ "weft.example/{each.folder.name}"\n' for each in artifacts)
    (folder / "all").mkdir()
    (folder / "all" / "all.go").write_text(f"package all\n\nimport (\n{imports})\n")
    tool(folder, "go", "vet", "./...")


def check_build_files(artifacts: Sequence[Artifact], folder: Path) -> None:
    """CMake finds and includes every library twice, pkg-config knows all."""
    lines = "".join(
        2 * f'include("{each.folder}/{each.stem}Config.cmake")\n'
        f'find_package({each.stem} 2 CONFIG REQUIRED PATHS "{each.folder}" NO_DEFAULT_PATH)\n'
        f"if(NOT TARGET {each.stem}::{each.stem})\n  message(FATAL_ERROR {each.stem})\nendif()\n"
        for each in artifacts
    )
    start = "cmake_minimum_required(VERSION 3.10)\nproject(user C)\n"
    (folder / "CMakeLists.txt").write_text(f"{start}{lines}")
    tool(folder, "cmake", "-S", ".", "-B", "build", "-Werror=dev")
    path = ":".join(str(each.folder) for each in artifacts)
    stems = [each.stem for each in artifacts]
    said = tool(folder, "pkg-config", "--modversion", *stems, PKG_CONFIG_PATH=path)
    assert set(said.split()) == {"3"}
    tool(folder, "pkg-config", "--cflags", "--libs", *stems, PKG_CONFIG_PATH=path)


def check_descriptions(artifact: Artifact, folder: Path) -> None:
    """The library of hostile names is the one that the bindings of Rust and Go were made for."""
    (folder / "main.rs").write_text(
        f'#[path = "{artifact.folder}/{artifact.prefix}.rs"]\nmod model;\n'
        'fn main() {\n  model::Model::new(1).unwrap();\n  println!("made");\n}\n'
    )
    where = ["-L", artifact.folder, "-C", f"link-arg=-Wl,-rpath,{artifact.folder}"]
    tool(folder, "rustc", "-D", "warnings", *where, "-l", artifact.stem, "main.rs")
    assert tool(folder, "./main") == "made\n"
    (artifact.folder / "made_test.go").write_text(
        f'package {artifact.prefix}\n\nimport "testing"\n\nfunc TestNew(t *testing.T) {{\n'
        "\tif _, err := New(1); err != nil {\n\t\tt.Error(err)\n\t}\n}\n"
    )
    tool(folder, "go", "test", f"./{artifact.folder.name}")


def check(values: Sequence[str], files: Sequence[str], folder: Path) -> int:
    """Tries names as those of values, and as those of files, in a folder; returns how many
    artifacts there are.
    """
    before = Path.cwd()
    os.chdir(folder)  # where code in a name would leave the canary
    try:
        of_values = compile_values(values, folder)
        artifacts = [of_values, *compile_files(files, folder)]
        for look_at in (check_c, check_python, check_rust, check_go, check_build_files):
            start = time.perf_counter()
            look_at(artifacts, folder)
            print(f"{look_at.__name__}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
        check_descriptions(of_values, folder)
    finally:
        os.chdir(before)
    assert not list(folder.rglob(CANARY)), "code in a name has run"
    return len(artifacts)


def _main() -> None:
    parser = argparse.ArgumentParser("python -m tests.names", description=__doc__)
    parser.add_argument("--count", type=int, default=len(HOSTILE), help="so many of the names")
    names = sample(parser.parse_args().count)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_CACHE_DIR"] = f"{folder}/cache"
        count = check(names, names, Path(folder).resolve())
    print(f"{len(names)} names, {count} artifacts: all compile or were refused in one line")


if __name__ == "__main__":
    _main()
