"""StackSlots of a size: how many files a folder, how many lines a file and a function may have."""

import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import source_files

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "compiler", "dialects", "examples", "tests", "weft")

MOST_FILES = 25
MOST_LINES = 450
LONGEST_FUNCTION = 50
MEDIAN_FUNCTION = 6
NINE_OF_TEN_FUNCTIONS = 18


def python_files() -> Iterator[Path]:
    """Every Python file of the repository; links inside `weft` are not followed."""
    for folder in FOLDERS:
        yield from (ROOT / folder).rglob("*.py")


def functions_in(source: str) -> Iterator[tuple[str, int]]:
    """The name of each function and its lines, without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) is not None
            text = node.body[0]
            described = (text.end_lineno or 0) - text.lineno + 1 if documented else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - described


def test_folders_have_few_files():
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in python_files())
    assert counts["tests"] > 5, "the files beside this one are counted"
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_files_are_short():
    lines = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in source_files()}
    assert {str(path): n for path, n in lines.items() if n > MOST_LINES} == {}


def test_functions_are_short():
    found = [
        (f"{path.relative_to(ROOT).as_posix()}:{name}", lines)
        for path in source_files()
        for name, lines in functions_in(path.read_text())
    ]
    assert {name for name, lines in found if lines > LONGEST_FUNCTION} == set()
    lengths = [lines for _, lines in found]
    assert statistics.median(lengths) <= MEDIAN_FUNCTION
    assert statistics.quantiles(lengths, n=10)[-1] <= NINE_OF_TEN_FUNCTIONS


def test_lines_of_a_function_are_counted():
    source = 'def f():\n    """Says\n    much."""\n    return 1\nclass A:\n    def g(self): ...\n'
    assert list(functions_in(source)) == [("f", 2), ("g", 1)]
