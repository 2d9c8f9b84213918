"""Kernels of eager mode: a template of a graph, compiled for each pattern of sizes that comes
along, and kept on disk as every compilation is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from msgspec import Struct

from weft.array.operators import users_line
from weft.compiler.deferred import fewer_collections
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import Cache, default_cache
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key
from weft.compiler.machine.python.executable import Executable
from weft.compiler.machine.python.fast_call import Call
from weft.compiler.target.target import Target
from weft.dialects.errors import InputError, TypeInferenceError, UnsupportedError
from weft.dialects.weights import Array
from weft.eager.abstract_values import AbstractValue, abstract_value
from weft.eager.patterns import RULES, Dims, rule_of
from weft.eager.templates import Composite, Derivative, Operator, Program, Template

if TYPE_CHECKING:
    from weft.eager.graphs import Built

AbstractKey = tuple[str, int]
"""A dtype's name and a rank."""

PREFIX: Final = "eager"
_SIZE: Final = 2
"""A size that stands for any."""

_MOST_SHAPES: Final = 1024
"""Of which a kernel knows the pattern without looking."""


class Plan(Struct, frozen=True):
    """What is called with which operands, and which of its results, or (as a complement) of the
    operands, the template's results are; and their abstract values.
    """

    operands: int
    used: tuple[int, ...]
    outputs: tuple[int, ...]
    abstract_keys: tuple[AbstractKey, ...]
    executable: Executable | None

    @property
    def call(self) -> Call:
        """What gives the template's results: the executable itself, where these are its own."""
        own = self.outputs == tuple(range(len(self.outputs)))
        if self.executable is None or not own or list(self.used) != [*range(len(self.used))]:
            return self
        return self if len(self.used) < self.operands else self.executable

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The template's results."""
        made: Sequence[Array] = ()
        if self.executable is not None:
            made = self.executable(*(arrays[position] for position in self.used))
        return tuple(
            arrays[~position] if position < 0 else made[position] for position in self.outputs
        )


class Count(Struct):
    """How many kernels this process has made ready so far."""

    made: int = 0


COUNT: Final = Count()
_FIRST: Final[list[Executable]] = []


class Kernel:
    """A template for operands of these abstract values.

    `call` takes arrays and returns the results' as a tuple; `abstract_values` are what these are.
    Raises TypeInferenceError or InputError, which names the line, for sizes that do not fit.
    """

    def __init__(self, template: Template, abstract_values: Sequence[AbstractValue]):
        self._template = template
        self._abstract_keys = tuple(each.key for each in abstract_values)
        self._base, self._taken = _base_of(template)
        self._plans: dict[tuple[Dims, ...], Plan] = {}
        self._recent: dict[tuple[Any, ...], Call] = {}
        self.call: Call = self._by_shape
        self.results: list[AbstractValue] = []
        if not isinstance(template, Derivative):
            likely = self._likely()
            if likely is not None and likely.executable is not None:
                self.call = likely.executable.call_or(self._by_shape, _fail) or self._by_shape

    def _likely(self) -> Plan | None:
        """The plan for sizes of which none is 1; None where sizes are part of the code."""
        shapes = [(_SIZE,) * rank for _, rank in self._abstract_keys]
        try:
            dims = self._dims(shapes)
            free = all(isinstance(dim, str) for each in dims for dim in each)
            return self._plan_of(dims) if free else None
        except (TypeInferenceError, UnsupportedError):
            return None

    def _by_shape(self, *arrays: Array) -> tuple[Array, ...]:
        shapes = tuple(array.shape for array in arrays)
        try:
            found = self._recent.get(shapes)
            if found is None:
                if len(self._recent) >= _MOST_SHAPES:
                    self._recent.clear()
                found = self._recent[shapes] = self._plan(shapes).call
            return found(*arrays)
        except (TypeInferenceError, UnsupportedError, InputError) as error:
            _fail(error)

    def abstract_values_of(self, arrays: Sequence[Array]) -> list[AbstractValue]:
        """What the results are; where no sizes have been seen yet, for these arrays."""
        if not self.results:
            try:
                self._plan([array.shape for array in arrays])
            except (TypeInferenceError, UnsupportedError) as error:
                _fail(error)
        return self.results

    def _dims(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Dims, ...]:
        rule = rule_of(self._base.name)
        return rule(f"graph.{self._base.name}", shapes[: self._taken], self._base.named)

    def _plan(self, shapes: Sequence[tuple[int, ...]]) -> Plan:
        """The plan for the pattern of these sizes. An operator that is not sure of the pattern, as
        one that counts groups of channels is, gets the sizes as they are, or says what is wrong
        with them; of one that has a rule of its own, the rule says that.
        """
        try:
            return self._plan_of(self._dims(shapes))
        except (TypeInferenceError, UnsupportedError):
            if self._base.name in RULES:
                self._dims(shapes)
            return self._plan_of(tuple(shapes[: self._taken]))

    def _plan_of(self, dims: tuple[Dims, ...]) -> Plan:
        if dims not in self._plans:
            plan = self._plans[dims] = _made(self._template, dims, self._abstract_keys)
            self.results[:] = [
                abstract_value(np.dtype(name), rank) for name, rank in plan.abstract_keys
            ]
        return self._plans[dims]


_KERNELS: Final[dict[tuple[Any, ...], Kernel]] = {}


def kernel_of(template: Template, abstract_values: Sequence[AbstractValue]) -> Kernel:
    """The one kernel of a template for operands of these abstract values."""
    key = template, *abstract_values
    found = _KERNELS.get(key)
    if found is None:
        found = _KERNELS[key] = Kernel(template, abstract_values)
    return found


def _fail(error: Exception) -> NoReturn:
    """Raises the error with the line of the user's program, if it lacks that."""
    line, text = users_line(), str(error).removeprefix(f"{PREFIX} ")
    if text.startswith(line):
        raise error
    raise type(error)(f"{line}: {text}") from error


def _base_of(template: Template) -> tuple[Operator | Composite | Program, int]:
    """The operator or composite at the bottom of derivatives, and how many operands it takes."""
    base = template
    while isinstance(base, Derivative):
        base = base.of
    return base, base.operands


def _made(template: Template, dims: tuple[Dims, ...], abstracts: Sequence[AbstractKey]) -> Plan:
    """The plan for a pattern, out of the cache where it was made before."""
    COUNT.made += 1
    store = default_cache(os.environ)
    options = Options(artifact=Artifact(PREFIX, bare=True), brief=True)
    parts = [PREFIX, template.text, str(dims), str(abstracts), options.digest, compiler_digest()]
    key = cache_key(parts)
    found = _found(store, key, options.target, template.operands)
    if found is not None:
        return found
    with fewer_collections():  # no decorator: the user's line is that of the first foreign frame
        return _compiled(store, key, template, dims, abstracts)


def _found(store: Cache, key: str, target: Target, operands: int) -> Plan | None:
    text = store.find_kernel(key)
    if text is None:
        return None
    content: dict[str, Any] = json.loads(text)
    abstract_keys = tuple((str(name), int(rank)) for name, rank in content["abstract"])
    compiled = store.find(key, target) if content["compiled"] else None
    if content["compiled"] and compiled is None:
        return None
    executable = None if compiled is None else _loaded(compiled)
    return Plan(
        operands, tuple(content["used"]), tuple(content["outputs"]), abstract_keys, executable
    )


def _compiled(
    store: Cache,
    key: str,
    template: Template,
    dims: tuple[Dims, ...],
    abstracts: Sequence[AbstractKey],
) -> Plan:
    from weft.compiler.driver.pipeline import compile_module
    from weft.eager.graphs import build

    built: Built = build(template, dims, abstracts)
    executable = None
    if built.module is not None:
        options = Options(artifact=Artifact(PREFIX, bare=True), brief=True)
        compiled = compile_module(built.module, built.weights, options)
        executable = _loaded(store.keep(key, compiled))
    content = {
        "used": built.used,
        "outputs": built.outputs,
        "abstract": built.abstract_keys,
        "compiled": executable is not None,
    }
    store.keep_kernel(key, json.dumps(content).encode())
    return Plan(
        template.operands,
        tuple(built.used),
        tuple(built.outputs),
        tuple(built.abstract_keys),
        executable,
    )


def _loaded(compiled: Compiled) -> Executable:
    """The kernel in this process; those without weights share the threads of the first."""
    if compiled.weights.sources:
        return compiled.executable()
    executable = compiled.executable(None, _FIRST[0] if _FIRST else None)
    if not _FIRST:
        _FIRST.append(executable)
    return executable
