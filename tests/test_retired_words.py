"""Names use the field's words: the private ones that they have replaced do not come back.

Identifiers of Python (folders, modules, classes, functions, parameters, attributes and constants),
names in the IR and options of passes and commands are split at underscores, hyphens and capitals.
Prose is not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Final

import pytest

from weft.cli.opt import ALL_PASSES, DIALECTS
from weft.compiler.loop.schedules import SCHEDULES
from weft.dialects.stablehlo import CHLO, QUANT, STABLEHLO

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("compiler", "dialects", "weft", "benchmarks")

FOREIGN: Final = (STABLEHLO, CHLO, QUANT)
"""Dialects of others, whose names are theirs."""

RETIRED: Final[Mapping[str, str]] = {
    "abreast": "interleaved",
    "ahead": "prefetch, or prologue",
    "alternate": "double_buffer",
    "begun": "started",
    "beside": "other, companion, background",
    "bring together": "pack",
    "carried": "iter_args, loop_carried",
    "collides": "set conflict",
    "crowds": "set conflict",
    "deep sums": "split_k",
    "drop overwritten": "eliminate_dead_stores",
    "drop unread": "eliminate_dead_buffer",
    "effort": "cost",
    "facts": "metadata",
    "far": "locality, distance",
    "few columns": "small_n",
    "found size": "dynamic or data-dependent size",
    "fuse at": "compute_at",
    "gives": "returns, yields",
    "growing": "growable",
    "inline nest": "compute_inline",
    "join groups": "fuse siblings",
    "join producers": "compute_at",
    "join products": "fuse_matmuls",
    "journal": "undo_log",
    "known call": "cached call",
    "known size": "static_size",
    "kind": "type, or what it is the kind of",
    "kinds": "types",
    "large angles": "payne_hanek",
    "lie apart": "are_disjoint",
    "long sums": "blocked_summation",
    "marks": "hints",
    "mended": "fixed",
    "overlap calls": "parallelize_calls",
    "place": "position, offset, address, location",
    "places": "positions",
    "quick": "fast_path",
    "rare": "slow_path",
    "reading": "interpret",
    "recompute": "rematerialize",
    "regrow": "realloc",
    "reload": "current_view",
    "road": "session",
    "rooms": "stack_slots",
    "rounds": "iterations",
    "seal": "trailer",
    "settle": "evaluate_constants",
    "split transposed": "decompose_transposed_conv",
    "stage partial": "stage_accumulators",
    "surroundings": "captures",
    "timeline": "live_intervals",
    "truth": "condition",
    "turned": "transposed",
    "vector groups": "unroll_and_jam",
    "ways": "branches",
    "write out": "unroll",
}
"""A word, or words that follow each other, and what to write instead."""

EXCEPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "ahead": {"weft/bench/engines/__init__.py": "modules imported ahead of time, in every worker"},
    "begun": {
        "compiler/loop_to_llvm/program/polling.py": "the clock of a program that has started",
        "weft/optim/optimizers.py": "the state of an optimiser before its first step",
    },
    "carried": {
        "compiler/loop/legality.py": "a loop-carried dependence",
        "dialects/graph/regions/repeat.py": "the loop-carried values of graph.for and graph.while",
        "weft/source/statements/loop_carried.py": "loop-carried variables",
        "weft/tracing/control.py": "loop-carried values",
    },
    "timeline": {"compiler/machine/python/spans.py": "what a thread does over time"},
    "far": {
        "compiler/graph/schedule_memory.py": "a jump pointer to a far ancestor",
        "compiler/loop_to_llvm/runtime": "the cancellations so far",
        "compiler/loop_to_llvm/vector_math/error_function.py": "the tail of erfc",
        "weft/bench/rounds.py": "an engine that is far behind",
    },
    "alternate": {
        "compiler/loop_to_llvm/vector_math/constants.py": "a series of alternating signs"
    },
    "rare": {"weft/cli/main.py": "the commands that few people use"},
    "kind": {
        "compiler/machine/wasm/link.py": "WebAssembly's kinds of symbols",
        "compiler/machine/wasm/object_file.py": "the kinds of symbols",
        "weft/array/methods.py": "NumPy's keyword",
        "weft/array/parts.py": "NumPy's keyword",
        "weft/array_api": "the array API's and NumPy's keyword",
    },
    "place": {"weft/array_api/functions/choosing.py": "the name of NumPy's function"},
    "rounds": {
        "benchmarks": "rounds of interleaved measurements",
        "weft/bench": "rounds of interleaved measurements",
        "weft/cli/bench.py": "rounds of interleaved measurements",
        "dialects/graph/ops/random.py": "the rounds of a block cipher",
    },
}
"""Where a word stays, by path or folder, with the reason."""


@pytest.fixture(scope="module")
def defined() -> list[tuple[str, str]]:
    return list(identifiers())


def test_no_retired_word_in_identifiers(defined: list[tuple[str, str]]):
    assert [name for name in defined if is_retired(*name)] == []


def test_no_retired_word_in_the_ir():
    assert [name for name in ir_names() if is_retired("", name)] == []


def test_no_retired_word_in_options():
    assert [name for name in options() if is_retired(*name)] == []


@pytest.mark.parametrize(
    "name", ["few_columns", "FewColumnsPass", "_few_columns_of", "few-columns"]
)
def test_words_are_found_however_they_are_joined(name: str):
    assert is_retired("compiler/loop/x.py", name)


def test_each_exception_is_needed(defined: list[tuple[str, str]]):
    names = [*defined, *options()]
    seen = {(path, word) for path, name in names for word in words_in(name)}
    for word, paths in EXCEPTIONS.items():
        assert word in RETIRED
        for path in paths:
            assert any(found == word and is_at(at, path) for at, found in seen), (word, path)


def is_retired(path: str, name: str) -> bool:
    """Whether a name has a retired word that has no exception there."""
    return any(
        not any(is_at(path, each) for each in EXCEPTIONS.get(word, ())) for word in words_in(name)
    )


def words_in(name: str) -> list[str]:
    """The retired words in a name."""
    text = f" {' '.join(re.findall('[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+', name)).lower()} "
    for phrase in (" in place ", " place halos "):  # to overwrite an operand; a verb
        text = text.replace(phrase, " ")
    return [word for word in RETIRED if f" {word} " in text]


def is_at(path: str, exception: str) -> bool:
    """Whether a path is the one of an exception, or in its folder."""
    return path == exception or path.startswith(f"{exception}/")


def source_files() -> Iterator[tuple[str, str]]:
    """The path of each file and what is in it; links to folders are not followed."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def identifiers() -> Iterator[tuple[str, str]]:
    """The names that the sources define, each with its path."""
    for path, text in source_files():
        yield path, path.removesuffix(".py")
        for name in defined_names(ast.parse(text).body):
            yield path, name


def defined_names(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements define, and those inside of them; no local variables."""
    for statement in body:
        match statement:
            case ast.ClassDef():
                yield statement.name
                yield from defined_names(statement.body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name
                every = statement.args
                yield from (
                    each.arg for each in (*every.posonlyargs, *every.args, *every.kwonlyargs)
                )
                yield from attributes(statement)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                yield name
            case ast.If(body=inner):
                yield from defined_names(inner)
            case _:
                pass


def attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The attributes that a function assigns, and the names of functions inside of it."""
    for node in function.body:
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)]):
                yield name
            case ast.AnnAssign(target=ast.Attribute(attr=name)):
                yield name
            case ast.FunctionDef():
                yield from defined_names([node])
            case _:
                pass


def ir_names() -> Iterator[str]:
    """Names of operators, of their properties, of passes, primitives and schedules."""
    for dialect in (each for each in DIALECTS if each not in FOREIGN):
        for op in dialect.operations:
            yield op.name
            yield from op.get_irdl_definition().properties
    yield from (each.name for each in (*ALL_PASSES, *SCHEDULES))


def options() -> Iterator[tuple[str, str]]:
    """Options of passes and of commands."""
    for each in ALL_PASSES:
        assert is_dataclass(each)
        yield from (("", field.name) for field in fields(each))
    for path, text in source_files():
        if path.startswith(("weft/cli/", "weft/bench/", "benchmarks/")):
            yield from ((path, option) for option in re.findall('"--([a-z-]+)"', text))
