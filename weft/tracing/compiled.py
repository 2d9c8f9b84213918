"""`trace`: what a Python function does with tensors without values, compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from msgspec import Struct

from weft.array.interleaved import from_interleaved, interleaved
from weft.array.operators import ArrayOperators, users_line
from weft.compilation import compile_cached
from weft.compiler.deferred import deferred
from weft.compiler.driver.options import Changes, Options
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import InputError
from weft.eager.tensor import tensor_of
from weft.tracing.spec import described_examples, options_for, spec_of
from weft.tracing.survey.stored import StoredProgram, found_or_made, stored_program
from weft.trees import LEAF, Structure, described, flatten, parts_of, unflatten

if TYPE_CHECKING:
    from weft.probing import inside, watching
    from weft.tracing import trace as recording
else:
    inside = deferred("weft.probing.inside")
    watching = deferred("weft.probing.watching")
    recording = deferred("weft.tracing.trace")


class _Trees(Struct, frozen=True):
    """What a traced function takes (by the names of parameters) and gives: see `Trace`."""

    inputs: Structure
    outputs: Structure
    are_complex: tuple[bool, ...]
    has_complex: bool


class TracedFunction:
    """What `trace` gives: it is called as the function is, with trees like the examples, and
    returns what the function does; tensors for tensors, arrays for arrays. All else is that of the
    `weft.Executable` in `executable`, which takes and gives the leaves.
    """

    def __init__(
        self, executable: Executable, trees: _Trees, imported: Callable[[], ImportedModel]
    ):
        self.executable, self.imported = executable, imported
        self._inputs, self._outputs = trees.inputs, trees.outputs
        self._names = [name for name, _ in trees.inputs.below]
        self._are_complex = trees.are_complex
        takes_arrays = all(below == LEAF for _, below in trees.inputs.below)
        self._fast_path = takes_arrays and trees.outputs == LEAF and not trees.has_complex
        """Whether arrays alone go in and one comes out."""

    def __getattr__(self, name: str) -> Any:
        if name == "executable":
            raise AttributeError(name)
        return getattr(self.executable, name)

    def __repr__(self) -> str:
        return repr(self.executable)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """What the function returns. Raises InputError for trees unlike those of the examples."""
        if self._fast_path and not named and _ARRAYS.issuperset(map(type, arguments)):
            (found,) = self.executable(*arguments)
            return found if found.ndim else found[()]
        given = {**dict(zip(self._names, arguments, strict=False)), **named}
        ordered = {name: given[name] for name in self._names if name in given}
        leaves, structure = flatten(ordered, whole=True)
        if structure != self._inputs or len(arguments) + len(named) != len(ordered):
            rule = "a traced function requires arguments like its examples"
            raise InputError(f"{users_line()}: {rule}, {described(self._inputs)}, got others")
        tensors = any(isinstance(leaf, ArrayOperators) for _, leaf in leaves)
        outputs = self.executable(*(_given(leaf) for _, leaf in leaves))
        found = [from_interleaved(each) if is_complex else each
                 for each, is_complex in zip(outputs, self._are_complex, strict=True)]  # fmt: skip
        kept = [tensor_of(each) if tensors else each if each.ndim else each[()] for each in found]
        return unflatten(self._outputs, kept)


_ARRAYS: Final = frozenset((np.ndarray,))


def _given(leaf: Any) -> Any:
    """A leaf as the artifact takes it."""
    return leaf if parts_of(leaf) is None else interleaved(leaf)


def trace(
    function: Callable[..., Any],
    *examples: Any,
    options: Options | None = None,
    threads: int | None = None,
    trap_nan: bool = False,
    **changes: Unpack[Changes],
) -> TracedFunction:
    """Compiles what a function does with inputs like the examples: arrays and trees of them, or
    `weft.Spec` with names for sizes that vary. The result is called as the function is.

    The function is run once, on tensors without values; loops and conditions of Python are run then
    and are not in the result. It is not run where this computer has compiled the same before: the
    function, and all that its code leads to. The options are those of `weft.compile`. Raises
    WeftError, which names the line, for conditions on tensors and for operands that do not fit.
    """
    chosen = options_for(function, "traced", options, changes)
    said = described_examples(function, examples, whole=True)
    leaves, structure = flatten(examples, whole=True)
    specs = unflatten(structure, [spec_of(leaf) for _, leaf in leaves])

    def entry() -> StoredProgram | None:
        values = {"function": function}
        return None if trap_nan else stored_program("trace", values, chosen, said)

    def loaded(compiled: Compiled) -> Executable:
        return compiled.executable(threads)

    def build(source: Any, options: Options, key: str | None = None) -> Executable:
        return loaded(compile_cached(source, options, default_cache(os.environ), key=key))

    def made(key: str | None) -> tuple[Executable, _Trees]:
        traced = recording.record(function, *examples, whole=True)
        trees = _Trees(traced.inputs, traced.outputs, traced.are_complex, traced.has_complex)
        imported = traced.imported(chosen.prefix)
        if trap_nan:
            return inside.build_trapped(imported, chosen, (), build), trees
        with_watch = watching.watching(imported, chosen, build)
        return with_watch(build(imported, chosen, key)), trees

    def again() -> ImportedModel:
        return recording.record(function, *specs, whole=True).imported(chosen.prefix)

    executable, trees = found_or_made(entry, loaded, made)
    return TracedFunction(executable, trees, again)
