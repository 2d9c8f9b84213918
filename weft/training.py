"""`step`: a function of trees of tensors as one compiled call, which takes memory of arguments."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from msgspec import Struct

from weft.array.operators import users_line
from weft.compilation import compile_cached
from weft.compiler.deferred import deferred
from weft.compiler.driver.options import FunctionChanges, Options
from weft.compiler.machine.artifact.artifact import Compiled, check_runs_on
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import OptionError, WeftError
from weft.dialects.weights import Array
from weft.distributed.mesh import Mesh, P
from weft.distributed.world import World
from weft.distributed.world import world as current_world
from weft.eager.tensor import AbsentTensor, Tensor, elements, give_up, make_absent
from weft.tracing.spec import described_examples, options_for, spec_of
from weft.tracing.survey.stored import StoredProgram, found_or_made, stored_program
from weft.trees import Structure, flatten, tree_map, unflatten

if TYPE_CHECKING:
    from weft.compiler.frontend.imported import ImportedModel
    from weft.compiler.machine.python.profile import Profile
    from weft.distributed import pipeline, placement
    from weft.probing import inside, watching
    from weft.tracing import donations
else:
    pipeline = deferred("weft.distributed.pipeline")
    placement = deferred("weft.distributed.placement")
    inside = deferred("weft.probing.inside")
    watching = deferred("weft.probing.watching")
    donations = deferred("weft.tracing.donations")

_Trees = tuple[Structure, Structure]
_Pairs = Sequence[tuple[int, int]]

_OWN_USES: Final = 3
"""References to an array that belongs to one tensor alone, while it is counted."""


_TRACING: Final = threading.RLock()
"""Modules hold what is traced meanwhile, so ranks that are threads trace one after the other."""


class Step:
    """A compiled function of trees, called with tensors or arrays, that gives trees of tensors.

    Arguments that it was told to donate are given up: their memory becomes that of results, and
    their tensors can be used no more. Memory that something else refers to is copied first.
    """

    def __init__(
        self,
        executable: Executable,
        trees: tuple[Structure, Structure],
        positions: Sequence[int],
        pairs: Sequence[tuple[int, int]],
        in_place: bool,
        placed: placement.Placement | None = None,
        imported: Callable[[], ImportedModel] | None = None,
    ):
        self.executable, self.pairs, self.in_place = executable, pairs, in_place
        if imported is not None:
            self.imported = imported
        self._placement = placed
        self._elsewhere = _elsewhere(executable)
        self._inputs, self._outputs = trees
        below = [each for _, each in self._inputs.below]
        self._donated = [
            position in positions for position, each in enumerate(below) for _ in range(each.leaves)
        ]

    def __call__(self, *arguments: Any) -> Any:
        """The results. Raises InputError for arrays of other shapes, WeftError for other trees."""
        leaves = [leaf for _, leaf in self._flattened(arguments)]
        arrays = [
            self._owned(position, leaf) if donated else self.part(position, leaf)
            for position, (leaf, donated) in enumerate(zip(leaves, self._donated, strict=True))
        ]
        results = self.executable(*arrays)
        for leaf, donated in zip(leaves, self._donated, strict=True):
            if donated and isinstance(leaf, Tensor) and not isinstance(leaf, AbsentTensor):
                give_up(leaf)
        return self._tree(results)

    def _tree(self, results: Sequence[Array]) -> Any:
        """The tree of results. What another rank of a pipeline has can be used by that alone."""
        tensors = list(map(Tensor.of, results))
        for target in self._elsewhere.values():
            make_absent(tensors[target])
        return unflatten(self._outputs, tensors)

    def stream(self, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """The results for each tuple of arguments, in their order, of a step that donates nothing.
        Where ranks are the stages of a pipeline, they work on several at once; all have to take as
        many. Raises as a call.
        """
        if any(self._donated):
            raise WeftError("a stream requires a step that donates nothing, got one that does")
        given = (
            [self.part(number, leaf) for number, (_, leaf) in enumerate(self._flattened(each))]
            for each in calls
        )
        return map(self._tree, self.executable.stream(given))

    def _repr_html_(self) -> str:
        return self.executable.as_html()

    def watch(self, *names: str) -> Callable[..., tuple[Any, dict[str, Array]]]:
        """The step compiled again for values that it names with `weft.watch`: a call returns its
        results, and these by name. It takes no memory of its arguments.
        """
        executable = self.executable.watch(*names)
        count = self._outputs.leaves
        found = [spec.name for spec in executable.outputs[count:]]

        def watched(*arguments: Any) -> tuple[Any, dict[str, Array]]:
            leaves = self._flattened(arguments)
            arrays = [self.part(number, leaf).copy() for number, (_, leaf) in enumerate(leaves)]
            results = executable(*arrays)
            tree = unflatten(self._outputs, map(Tensor.of, results[:count]))
            return tree, dict(zip(found, results[count:], strict=True))

        return watched

    def profile(self, *arguments: Any, calls: int = 25) -> Profile:
        """What so many calls did when, as `Executable.profile` of copies of the arguments."""
        leaves = enumerate(self._flattened(arguments))
        return self.executable.profile([self.part(n, leaf) for n, (_, leaf) in leaves], calls=calls)

    def whole(self, *arguments: Any) -> tuple[Any, ...]:
        """The first arguments as trees of whole tensors, of which each rank of a mesh has its part,
        such as the state that a call returned: for checkpoints, which steps on other meshes take.
        All ranks have to ask for the same. Raises WeftError for other trees.
        """
        leaves, structure = self.leading(arguments)
        parts = ((number, self.part(number, leaf)) for number, (_, leaf) in enumerate(leaves))
        placed = self._placement
        found = (part if placed is None else placed.whole(number, part) for number, part in parts)
        return tuple(unflatten(structure, map(Tensor, found)).values())

    def leading(self, arguments: Sequence[Any]) -> tuple[list[tuple[str, Any]], Structure]:
        """The leaves of the first arguments, and their trees. Raises WeftError for other trees."""
        names = [name for name, _ in self._inputs.below[: len(arguments)]]
        leaves, structure = flatten(dict(zip(names, arguments, strict=True)))
        if structure.below != self._inputs.below[: len(arguments)]:
            raise WeftError(f"{users_line()}: a step requires trees as in its examples, got others")
        return leaves, structure

    def start(self, *donated: Any) -> Running:
        """The step with its first arguments, those that it donates, in memory of its own, which
        each call brings up to date.
        """
        return Running(self, self._inputs, self._outputs, donated)

    def export(self, path: str | Path, *, linker: str = "weft") -> None:
        """Writes the step as a shared object and a C header."""
        self.executable.export(path, linker=linker)

    def _flattened(self, arguments: tuple[Any, ...]) -> list[tuple[str, Any]]:
        names = [name for name, _ in self._inputs.below]
        given = dict(zip(names, arguments, strict=False))
        leaves, structure = flatten(given)
        if structure != self._inputs or len(arguments) != len(names):
            rule = f"a step requires trees as in its examples for {', '.join(names)}"
            raise WeftError(f"{users_line()}: {rule}, got others")
        return leaves

    def part(self, position: int, leaf: Any) -> Array:
        """The array of a leaf, or of one that ranks share, this rank's part."""
        array = self._leaf(position, leaf)
        return array if self._placement is None else self._placement.part(position, array)

    def _leaf(self, position: int, leaf: Any) -> Array:
        """The array of a leaf; memory with nothing in it for what other ranks have and read."""
        stages = self.executable.pipeline
        if not isinstance(leaf, AbsentTensor) or stages is None or stages.reads[position]:
            return _array(leaf)
        spec = self.executable.inputs[position]
        return np.empty([int(dim) for dim in spec.dims], spec.dtype)

    def _owned(self, position: int, leaf: Any) -> Array:
        """The array of a leaf, or a copy where others refer to its memory."""
        array = self._leaf(position, leaf)
        part = array if self._placement is None else self._placement.part(position, array)
        if part is not array:
            return part
        del part
        alone = isinstance(leaf, Tensor) and array.base is None
        return array if alone and sys.getrefcount(array) <= _OWN_USES else array.copy()


class Running:
    """A step whose donated arguments are kept between calls. A call takes the other arguments and
    gives what the step returns beside the donated trees; `state` gives these.
    """

    def __init__(self, step: Step, inputs: Structure, outputs: Structure, donated: Sequence[Any]):
        leaves, structure = step.leading(donated)
        self._executable, self._part = step.executable, step.part
        self._elsewhere = _elsewhere(step.executable)
        self._held = [
            np.array(step.part(number, leaf), order="C") for number, (_, leaf) in enumerate(leaves)
        ]
        self._structure = structure
        self._rest = Structure(tuple, inputs.below[len(donated) :])
        self._moved = () if step.in_place else step.pairs
        taken = {target for _, target in step.pairs}
        self._left = [position for position in range(outputs.leaves) if position not in taken]

    def __call__(self, *arguments: Any) -> Any:
        """One result as a tensor, several as a tuple of tensors."""
        whole = len(arguments) == self._rest.leaves
        leaves = arguments if whole else [leaf for _, leaf in flatten(arguments)[0]]
        given = [self._part(number, leaf) for number, leaf in enumerate(leaves, len(self._held))]
        results = self._executable(*self._held, *given)
        for source, target in self._moved:
            self._held[source] = results[target]
        if len(self._left) == 1:
            return Tensor.of(results[self._left[0]])
        return tuple(Tensor.of(results[position]) for position in self._left)

    @property
    def state(self) -> tuple[Any, ...]:
        """The donated arguments as they are now, copied."""
        tensors = list(map(Tensor, self._held))
        for source in self._elsewhere:
            make_absent(tensors[source])
        return tuple(unflatten(self._structure, tensors).values())


def _elsewhere(executable: Executable) -> dict[int, int]:
    """The donated inputs, and outputs in their memory, that other ranks of a pipeline have."""
    if executable.pipeline is None:
        return {}
    held: Sequence[bool] = executable.pipeline.held
    return {source: target for source, target in executable.donated if not held[target]}


def _array(leaf: Any) -> Array:
    return elements(leaf) if isinstance(leaf, Tensor) else np.asarray(leaf)


def step(
    function: Callable[..., Any],
    *examples: Any,
    donate: Sequence[int] = (),
    options: Options | None = None,
    threads: int | None = None,
    trap_nan: bool = False,
    mesh: Mesh | None = None,
    shardings: Mapping[str, P] | None = None,
    **changes: Unpack[FunctionChanges],
) -> Step:
    """Compiles what a function of trees does with arguments like the examples, as `trace` does.

    Each leaf of the arguments that `donate` names by position takes a result's memory: that of the
    first result of its type whose path ends as its own does, behind the argument's name. With
    `trap_nan` calls look at every value, in memory of their own, and raise InputError that names
    the first operator which makes NaN or an infinity. The other options are those of
    `weft.compile`.

    With a `mesh` the ranks of this program compute a step together. `shardings` cut arguments and
    results by their paths, such as `{"x": P("data"), "state.w": P(None, "model")}`; what a donated
    argument is not told follows from the others, and its result is cut as it is. A call takes whole
    arguments, of which each rank reads its part, or these parts; results are whole unless they are
    cut. Raises WeftError for a leaf without a result, ArtifactError for a target that
    this machine is not.
    """
    chosen = options_for(function, "step", options, changes)
    chosen = _on_mesh(chosen, mesh, shardings, trap_nan=trap_nan)
    world = current_world() if chosen.mesh else World()
    making = _Making(function, examples, donate, chosen, threads, trap_nan, world)
    executable, (trees, pairs) = found_or_made(making.entry, making.loaded, making.made)
    placed = _placement(executable, world)
    specs, name = tree_map(spec_of, examples), chosen.prefix
    again = lambda: donations.donating(function, *specs, donate=donate, name=name)[0]  # noqa: E731
    return Step(executable, trees, donate, pairs, not trap_nan, placed, again)


class _Making(Struct, frozen=True):
    """How a step is made of a function, or found where it was made before."""

    function: Callable[..., Any]
    examples: Sequence[Any]
    donate: Sequence[int]
    options: Options
    threads: int | None
    trap_nan: bool
    world: World

    def entry(self) -> StoredProgram | None:
        """The entry of the cache, if there is a key."""
        if self.trap_nan:
            return None
        described, positions = described_examples(self.function, self.examples), tuple(self.donate)
        values = {"function": self.function}
        return stored_program("step", values, self.options, described, positions)

    def loaded(self, compiled: Compiled) -> Executable:
        """What was compiled, in this process. Raises ArtifactError."""
        check_runs_on(host_target(calibrated=False), compiled.metadata, self.options.prefix)
        executable = compiled.executable(self.threads)
        if self.options.mesh:
            pipeline.join_stages(executable, self.world)
        return executable

    def build(self, source: Any, options: Options, key: str | None = None) -> Executable:
        """Compiles a graph, of ranks once."""
        content = _content(source, options) if self.options.mesh else None
        if content is not None:
            key = cache_key([*content, compiler_digest()])

        def compile_it() -> Compiled:
            return compile_cached(source, options, default_cache(os.environ), key=key)

        return self.loaded(
            compile_it() if content is None else self.world.once(content, compile_it)
        )

    def made(self, key: str | None) -> tuple[Executable, tuple[_Trees, _Pairs]]:
        """Traces the function and compiles its graph."""
        name, noted = self.options.prefix, not self.trap_nan
        with _TRACING:
            model, recorded, pairs = donations.donating(
                self.function, *self.examples, donate=self.donate, name=name, noted=noted
            )
        known = (recorded.inputs, recorded.outputs), pairs
        if self.trap_nan:
            return inside.build_trapped(model, self.options, (), self.build), known
        with_watch = watching.watching(model, self.options, self.build)
        return with_watch(self.build(model, self.options, key)), known


def _on_mesh(
    chosen: Options, mesh: Mesh | None, shardings: Mapping[str, P] | None, *, trap_nan: bool
) -> Options:
    """The options with the mesh, if there is one. Raises OptionError where it cannot be."""
    if mesh is not None or shardings:
        chosen = chosen.changed(mesh=mesh, shard=shardings)
    if chosen.mesh and trap_nan:
        raise OptionError(f"trap_nan requires a program of one rank, got a mesh {chosen.mesh}")
    return chosen


def _placement(executable: Executable, world: World) -> placement.Placement | None:
    """Where the ranks have the parts of arrays; None for a program of one rank."""
    described = executable.metadata.get("mesh")
    return None if described is None else placement.Placement(described, executable.inputs, world)


def _content(source: Any, options: Options) -> tuple[str, ...]:
    """What tells graphs of programs apart, with their options and weights."""
    weights = source.weights
    return options.digest, str(source.module), *(f"{key} {weights.digest(key)}" for key in weights)
