"""`step`: a function of trees of tensors as one compiled call, which takes memory of arguments."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

from weft.array.operators import users_line
from weft.compilation import compile_cached
from weft.compiler.driver.options import FunctionChanges, Options
from weft.compiler.machine.artifact.artifact import Compiled, check_runs_on
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import OptionError, WeftError
from weft.dialects.loop.program import DONATED
from weft.dialects.weights import Array
from weft.distributed.mesh import Mesh, P
from weft.distributed.pipeline import join_stages
from weft.distributed.placement import Placement
from weft.distributed.world import World
from weft.distributed.world import world as current_world
from weft.eager.tensor import AbsentTensor, Tensor, elements, give_up, make_absent
from weft.probing.watching import build_watchable
from weft.tracing.trace import Trace, options_for, record
from weft.trees import Structure, flatten, unflatten

if TYPE_CHECKING:
    from weft.compiler.frontend.onnx.from_onnx import ImportedModel

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
        traced: Trace,
        positions: Sequence[int],
        pairs: Sequence[tuple[int, int]],
        in_place: bool,
        placement: Placement | None = None,
    ):
        self.executable, self.pairs, self.in_place = executable, pairs, in_place
        self._placement = placement
        self._elsewhere = _elsewhere(executable)
        self._inputs, self._outputs = traced.inputs, traced.outputs
        below = [each for _, each in traced.inputs.below]
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
        pipeline = self.executable.pipeline
        if not isinstance(leaf, AbsentTensor) or pipeline is None or pipeline.reads[position]:
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
        names = [name for name, _ in inputs.below[: len(donated)]]
        leaves, structure = flatten(dict(zip(names, donated, strict=True)))
        if structure.below != inputs.below[: len(donated)]:
            raise WeftError(f"{users_line()}: a step requires trees as in its examples, got others")
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
    from weft.probing.inside import build_trapped

    chosen = options_for(function, "step", options, changes)
    chosen = _on_mesh(chosen, mesh, shardings, trap_nan=trap_nan)
    world = current_world() if chosen.mesh else World()
    name = chosen.prefix
    with _TRACING:
        model, recorded, pairs = donating(
            function, *examples, donate=donate, name=name, noted=not trap_nan
        )

    def build(source: Any, options: Options) -> Executable:
        def compile_it() -> Compiled:
            return compile_cached(source, options, default_cache(os.environ))

        key = _content(source, options) if chosen.mesh else None
        compiled = compile_it() if key is None else world.once(key, compile_it)
        check_runs_on(host_target(calibrated=False), compiled.metadata, name)
        executable = compiled.executable(threads)
        join_stages(executable, world)
        return executable

    executable = (
        build_trapped(model, chosen, (), build)
        if trap_nan
        else build_watchable(model, chosen, build)
    )
    placement = _placement(executable, world)
    return Step(executable, recorded, donate, pairs, not trap_nan, placement)


def _on_mesh(
    chosen: Options, mesh: Mesh | None, shardings: Mapping[str, P] | None, *, trap_nan: bool
) -> Options:
    """The options with the mesh, if there is one. Raises OptionError where it cannot be."""
    if mesh is not None or shardings:
        chosen = chosen.changed(mesh=mesh, shard=shardings)
    if chosen.mesh and trap_nan:
        raise OptionError(f"trap_nan requires a program of one rank, got a mesh {chosen.mesh}")
    return chosen


def _placement(executable: Executable, world: World) -> Placement | None:
    """Where the ranks have the parts of arrays; None for a program of one rank."""
    described = executable.metadata.get("mesh")
    return None if described is None else Placement(described, executable.inputs, world)


def _content(source: Any, options: Options) -> tuple[str, ...]:
    """What tells graphs of programs apart, with their options and weights."""
    weights = source.weights
    return options.digest, str(source.module), *(f"{key} {weights.digest(key)}" for key in weights)


def donating(
    function: Callable[..., Any],
    *examples: Any,
    donate: Sequence[int],
    name: str,
    noted: bool = True,
) -> tuple[ImportedModel, Trace, list[tuple[int, int]]]:
    """The graph of a step, in which it is `noted` which arguments take results' memory; what was
    traced, and those pairs of an input and an output. Raises as `step` does.
    """
    from weft.compiler.frontend.onnx.from_onnx import ImportedModel

    recorded = record(function, *examples)
    main = recorded.module.ops.first
    assert isinstance(main, FuncOp), "a trace is a function"
    pairs = list(_pairs(main, recorded, donate))
    if noted:
        positions = [ArrayAttr([IntAttr(source), IntAttr(target)]) for source, target in pairs]
        main.attributes[DONATED] = ArrayAttr(positions)
    weights = recorded.recording.weights
    return ImportedModel(recorded.module, weights, name, *_names(main)), recorded, pairs


def _names(main: FuncOp) -> Iterator[tuple[str, ...]]:
    """Those of inputs, and those of outputs."""
    for key in ("input_names", "output_names"):
        names = main.attributes[key]
        assert isa(names, ArrayAttr[StringAttr]), "a trace has names"
        yield tuple(name.data for name in names)


def _pairs(main: FuncOp, recorded: Trace, donate: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Places of donated inputs, and of the outputs that take their memory."""
    returned = main.get_return_op()
    assert returned is not None, "a trace returns"
    results = dict(enumerate(_tails(recorded.outputs)))
    value_types = [value.type for value in returned.arguments]
    names = [(position, tail) for position, tail in _positions(recorded.inputs)]
    for source, (position, tail) in enumerate(names):
        if position not in donate:
            continue
        value_type = main.body.block.args[source].type
        found = [
            index
            for index, each in results.items()
            if each == tail and value_types[index] == value_type
        ]
        if not found:
            rule = f"a donated argument requires a result of its type for {tail or 'it'}"
            raise WeftError(f"{users_line()}: {rule}, got none")
        del results[found[0]]
        yield source, found[0]


def _positions(structure: Structure) -> Iterator[tuple[int, str]]:
    """The argument of each leaf, and the leaf's path in it."""
    for position, (_, below) in enumerate(structure.below):
        for path in _paths(below):
            yield position, path


def _tails(structure: Structure) -> list[str]:
    """The path of each leaf without its first part, where results are several."""
    if structure.node_type is None:
        return [""]
    return [path for _, below in structure.below for path in _paths(below)]


def _paths(structure: Structure, path: str = "") -> Iterator[str]:
    if structure.node_type is None:
        yield path
    for key, below in structure.below:
        yield from _paths(below, f"{path}.{key}" if path else key)
