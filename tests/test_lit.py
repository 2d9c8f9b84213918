"""Runs the golden tests under lit/ in this process; `lit lit/` runs the same files from a shell.

A file names its commands in lines `// RUN: weft-opt %s [options] | ... | filecheck %s [options]`:
stages of weft-opt, and filecheck at the end.
"""

import contextlib
import io
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

LIT = Path(__file__).parents[1] / "lit"
CASES = sorted(LIT.rglob("*.mlir"))


@dataclass(frozen=True)
class RunLine:
    """One command of a golden test: the arguments of each weft-opt stage and of filecheck."""

    stages: tuple[tuple[str, ...], ...]
    filecheck: tuple[str, ...]


def parse_run_lines(path: Path) -> tuple[RunLine, ...]:
    lines = path.read_text().splitlines()
    commands = [line.partition("RUN:")[2] for line in lines if line.startswith("// RUN:")]
    assert commands, f"{path} requires a line `// RUN: weft-opt %s | filecheck %s`, got none"
    return tuple(parse_run_line(command, path) for command in commands)


def parse_run_line(command: str, path: Path) -> RunLine:
    parts = [_arguments(part, path) for part in command.split("|")]
    tools = [part[0] for part in parts]
    expected = ["weft-opt"] * (len(tools) - 1) + ["filecheck"]
    assert len(tools) > 1, f"{path}: a RUN line requires `| filecheck %s`, got {command!r}"
    assert tools == expected, f"{path}: a RUN line requires the tools {expected}, got {tools}"
    return RunLine(tuple(part[1:] for part in parts[:-1]), parts[-1][1:])


def _arguments(part: str, path: Path) -> tuple[str, ...]:
    return tuple(shlex.split(part.replace("%s", shlex.quote(str(path)))))


def run_case(path: Path) -> None:
    """Runs every RUN line of a golden test; fails with filecheck's message and what it saw."""
    from weft.cli.opt import run_opt

    for line in parse_run_lines(path):
        text: str | None = None
        for stage in line.stages:
            text = run_opt(stage, text)
        assert text is not None
        check(line.filecheck, text)


def check(arguments: tuple[str, ...], text: str) -> None:
    """What the command filecheck decides about `text`; no check, or only CHECK-NOT, fails."""
    options = parse_argv_options(["filecheck", *arguments])
    checks = tuple(Parser.from_opts(options))
    positive = [check for check in checks if check.name != "NOT"]
    name = options.match_filename
    assert positive, f"{name} requires a CHECK line that must match, got none"
    _refuse_misspelt_checks(name, options.check_prefixes, {check.source_line for check in checks})
    matcher = Matcher(options, FInput("<stdin>", text), Parser.from_opts(options))
    matcher.stderr = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        code = matcher.run()
    assert code == 0, f"{matcher.stderr.getvalue()}\nthe output was:\n{text}"


def _refuse_misspelt_checks(name: str, prefixes: list[str], understood: set[int]) -> None:
    """filecheck skips what it does not know, such as `CHECK-NXT:`; here it is an error."""
    for number, line in enumerate(Path(name).read_text().splitlines(), start=1):
        looks_like_a_check = line.strip().startswith(tuple(f"// {prefix}" for prefix in prefixes))
        assert not looks_like_a_check or number in understood, (
            f"{name}:{number} requires a directive that filecheck knows, got {line.strip()!r}"
        )


@pytest.mark.parametrize("path", CASES, ids=lambda path: str(path.relative_to(LIT)))
def test_golden(path: Path):
    run_case(path)


def test_run_line_has_stages_and_a_check(tmp_path: Path):
    case = tmp_path / "case.mlir"
    case.write_text('// RUN: weft-opt %s -p "a{b=1},c" | weft-opt | filecheck %s\n')
    (line,) = parse_run_lines(case)
    assert line.stages == ((str(case), "-p", "a{b=1},c"), ())
    assert line.filecheck == (str(case),)


@pytest.mark.parametrize(
    "text",
    ["// CHECK: a\n", "// RUN: weft-opt %s\n", "// RUN: sed %s | filecheck %s\n"],
    ids=["no RUN line", "no filecheck", "another tool"],
)
def test_file_without_a_proper_run_line_fails(text: str, tmp_path: Path):
    case = tmp_path / "case.mlir"
    case.write_text(text)
    with pytest.raises(AssertionError, match="requires"):
        parse_run_lines(case)


def test_check_accepts_what_it_describes(tmp_path: Path):
    case = tmp_path / "case.mlir"
    case.write_text("// CHECK: %[[X:[a-z]+]] = add\n// CHECK-NEXT: return %[[X]]\n")
    check((str(case),), "%sum = add\nreturn %sum\n")


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("// CHECK: sub\n", "Couldn't match"),
        ("// CHECK: add\n// CHECK-NOT: return\n", "return"),
        ("// no check\n", "requires a CHECK line"),
        ("// CHECK-NOT: sub\n", "requires a CHECK line"),
        ("// CHECK: add\n// CHECK-NXT: add\n", "requires a directive"),
    ],
)
def test_check_refuses(checks: str, message: str, tmp_path: Path):
    case = tmp_path / "case.mlir"
    case.write_text(checks)
    with pytest.raises(AssertionError, match=message):
        check((str(case),), "%sum = add\nreturn %sum\n")


def test_there_are_golden_tests():
    assert CASES


def test_lit_runs_them_from_a_shell():
    """One of them: all are run above, in a third of the time."""
    command = [Path(sys.executable).with_name("lit"), "-v", CASES[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    passed = f"PASS: weft :: {CASES[0].relative_to(LIT)} (1 of 1)"
    assert passed in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
