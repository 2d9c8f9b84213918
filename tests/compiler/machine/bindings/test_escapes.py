"""Text of any characters as literals of generated languages: compilers read it back (N3, N4)."""

import ast
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.compiler.machine.bindings.escapes import (
    c_literal,
    cmake_literal,
    go_literal,
    pkg_config_text,
    python_literal,
    rust_literal,
)

LITERALS = (c_literal, cmake_literal, go_literal, python_literal, rust_literal)
SPECIAL = "\"\\'`$(){}[];:/*?%#@<>=!+-~^|&,. anxuU0\n\r\t\v\f\0\x1b\x7f\x85\u2028\u202e\u2066\ufeff"


def texts() -> st.SearchStrategy[str]:
    """Text that is mostly what languages give a meaning to."""
    some = st.sampled_from(SPECIAL)
    others = st.integers(0, 0x10FFFF).filter(lambda code: not 0xD800 <= code < 0xE000).map(chr)
    return st.lists(st.one_of(some, some, others), max_size=24).map("".join)


@pytest.mark.parametrize("literal", LITERALS)
@given(text=texts())
def test_n4_literals_are_printable_ascii(literal: Callable[[str], str], text: str):
    """N4"""
    written = literal(text)
    assert written.isascii()
    assert written.isprintable()
    assert not re.search(r"\*/|/\*|\?\?", written) or literal is not c_literal


@given(texts())
def test_literals_of_python_are_their_text(text: str):
    assert ast.literal_eval(python_literal(text)) == text
    assert not set(python_literal(text)[1:-1]) & {"'", '"'}


@given(texts())
def test_lines_of_pkg_config_have_no_syntax(text: str):
    assert re.fullmatch(r"[A-Za-z0-9_.+,:() -]*", pkg_config_text(text))


def read_by(folder: Path, *command: str) -> bytes:
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def read_by_c(folder: Path, written: Sequence[str], compiler: Sequence[str]) -> bytes:
    lines = "".join(f"  fwrite({each}, 1, sizeof({each}), stdout);/*{each}*/\n" for each in written)
    (folder / "a.c").write_text(f"#include <stdio.h>\nint main(void) {{\n{lines}  return 0;\n}}\n")
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-trigraphs", "-Wno-overlength-strings"]
    read_by(folder, *compiler, *strict, "a.c", "-o", "a")
    return read_by(folder, "./a")


def read_by_rust(folder: Path, written: Sequence[str]) -> bytes:
    lines = "".join(f'  print!("{{}}\\0", {each}); // {each}\n' for each in written)
    (folder / "a.rs").write_text(f"fn main() {{\n{lines}}}\n")
    read_by(folder, "rustc", "-D", "warnings", "a.rs")
    return read_by(folder, "./a")


def read_by_go(folder: Path, written: Sequence[str]) -> bytes:
    lines = "".join(f'\tos.Stdout.WriteString({each} + "\\x00") // {each}\n' for each in written)
    (folder / "a.go").write_text(f'package main\n\nimport "os"\n\nfunc main() {{\n{lines}}}\n')
    return read_by(folder, "go", "run", "a.go")


def read_by_cmake(folder: Path, written: Sequence[str]) -> bytes:
    lines = "".join(f'file(APPEND out {each} "~end~")\n# {each}\n' for each in written)
    (folder / "a.cmake").write_text(f'file(WRITE out "")\n{lines}')
    read_by(folder, "cmake", "-P", "a.cmake")
    return (folder / "out").read_bytes().replace(b"~end~", b"\0")


def in_cmake(text: str) -> str:
    """What cmake_literal says that it keeps of a text."""
    return "".join(each if " " <= each <= "~" else ascii(each)[1:-1] for each in text)


LISTS = st.lists(texts(), min_size=60, max_size=60)
FEW = settings(
    max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def zero_ended(texts: Sequence[str]) -> bytes:
    return "".join(f"{text}\0" for text in texts).encode()


@pytest.mark.parametrize("compiler", [["cc", "-std=c99"], ["g++", "-std=c++11", "-xc++"]])
@FEW
@given(given_texts=LISTS)
def test_n3_compilers_of_c_read_the_text_back(
    compiler: list[str], given_texts: list[str], tmp_path_factory: pytest.TempPathFactory
):
    """N3"""
    folder = tmp_path_factory.mktemp("c")
    assert read_by_c(folder, list(map(c_literal, given_texts)), compiler) == zero_ended(given_texts)


@FEW
@given(given_texts=LISTS)
def test_n3_rustc_reads_the_text_back(
    given_texts: list[str], tmp_path_factory: pytest.TempPathFactory
):
    """N3"""
    written = list(map(rust_literal, given_texts))
    assert read_by_rust(tmp_path_factory.mktemp("rust"), written) == zero_ended(given_texts)


@FEW
@given(given_texts=LISTS)
def test_n3_go_reads_the_text_back(
    given_texts: list[str], tmp_path_factory: pytest.TempPathFactory
):
    """N3"""
    written = list(map(go_literal, given_texts))
    assert read_by_go(tmp_path_factory.mktemp("go"), written) == zero_ended(given_texts)


@FEW
@given(given_texts=LISTS)
def test_n3_cmake_reads_the_text_back(
    given_texts: list[str], tmp_path_factory: pytest.TempPathFactory
):
    """N3"""
    written = list(map(cmake_literal, given_texts))
    expected = zero_ended(list(map(in_cmake, given_texts)))
    assert read_by_cmake(tmp_path_factory.mktemp("cmake"), written) == expected
