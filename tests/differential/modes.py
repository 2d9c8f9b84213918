"""The ways in which a program is run: each makes a function from arrays to flat results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import weft
from tests.differential.program import Program
from tests.differential.reference import Graph
from weft.compilation import compile_cached, options_of
from weft.compiler.machine.artifact.cache import default_cache
from weft.source.interpret import read_function
from weft.tracing.trace import record
from weft.trees import leaves_of

Call = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Mode:
    """One way: `target` names the function of the program's module that is run."""

    name: str
    target: str
    make: Callable[[Callable[..., Any], Program], Sequence[Call]]
    """Gives calls that have to agree bit by bit: those with different numbers of threads."""
    statements: bool | None = None
    """Whether it is for programs of statements, for others, or (None) for all."""

    def takes(self, program: Program) -> bool:
        """Whether it can run a program."""
        if self.name.startswith(("eager", "grad of jit")) and not program.eager:
            return False
        return self.statements in (None, program.statements)


def _arrays(tree: Any) -> list[np.ndarray]:
    return [
        np.asarray(each.numpy() if isinstance(each, weft.Tensor) else each)
        for each in leaves_of(tree)
    ]


def _traced(**options: bool) -> Callable[..., list[Call]]:
    """Traced and compiled once, for one thread and for two."""

    def make(function: Callable[..., Any], program: Program) -> list[Call]:
        model = record(function, *program.specs()).imported("program")
        given = options_of(b"", prefix="program", **options)
        compiled = compile_cached(model, given, default_cache(os.environ))
        runs = [compiled.executable(threads) for threads in (1, 2)]
        return [lambda arrays, run=run: _arrays(run(*arrays)) for run in runs]

    return make


def _source(**options: bool) -> Callable[..., list[Call]]:
    """Compiled from its source, for one thread or two, or for either."""

    def make(function: Callable[..., Any], program: Program) -> list[Call]:
        specs = program.specs() if program.symbolic else ()
        both = (1, 2) if program.seed % 4 == 0 else (1 + program.seed % 2,)  # each compiles anew
        runs = [weft.jit(function, specs=specs, threads=threads, **options) for threads in both]
        return [lambda arrays, run=run: _arrays(run(*arrays)) for run in runs]

    return make


def _eager(function: Callable[..., Any], program: Program) -> list[Call]:
    return [lambda arrays: _arrays(function(*map(weft.Tensor, arrays)))]


def _numpy(function: Callable[..., Any], program: Program) -> list[Call]:
    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            return _arrays(function(*(each.copy() for each in arrays)))

    return [run]


def _of_compiled(function: Callable[..., Any], program: Program) -> list[Call]:
    slopes = weft.grad(weft.jit(function, threads=1), program.floats)
    return [lambda arrays: _arrays(slopes(*map(weft.Tensor, arrays)))]


def _stepped(function: Callable[..., Any], program: Program) -> list[Call]:
    threads = 1 + program.seed % 2
    run = weft.step(function, *program.specs(), donate=program.floats, threads=threads)
    return [lambda arrays: _arrays(run(*(weft.Tensor(each.copy()) for each in arrays)))]


MODES: Sequence[Mode] = (
    Mode("trace", "program", _traced(), False),
    Mode("trace strict", "program", _traced(strict_fp=True), False),
    Mode("trace naive", "program", _traced(naive=True), False),
    Mode("jit", "program", _source()),
    Mode("jit naive", "program", _source(naive=True)),
    Mode("eager", "program", _eager, False),
    Mode("numpy", "program", _numpy, True),
    Mode("trace of grad", "slopes", _traced(), False),
    Mode("trace of grad naive", "slopes", _traced(naive=True), False),
    Mode("jit of grad", "slopes", _source()),
    Mode("jit of grad naive", "slopes", _source(naive=True)),
    Mode("jit of both", "whole", _source()),
    Mode("trace of both", "whole", _traced(), False),
    Mode("trace of both strict", "whole", _traced(strict_fp=True), False),
    Mode("eager grad", "slopes", _eager, False),
    Mode("grad of jit", "loss", _of_compiled, False),
    Mode("step with donation", "step", _stepped, False),
)


def graph_of(
    program: Program, functions: SimpleNamespace, target: str
) -> tuple[Graph, list[np.dtype]]:
    """The graph of one of the program's functions, and its results' dtypes."""
    from weft.dialects.graph.core.dtypes import numpy_dtype
    from weft.dialects.graph.core.types import type_of

    function = getattr(functions, target)
    if program.statements:
        read = read_function(function, program.specs(), {})
        module, weights = read.module, read.recording.weights
    else:
        recorded = record(function, *program.specs())
        module, weights = recorded.module, recorded.recording.weights
    module.verify()
    block = module.body.block.first_op.body.block
    dtypes = [numpy_dtype(type_of(each).element) for each in block.last_op.operands]
    return Graph(block, weights), dtypes
