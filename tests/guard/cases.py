"""Cases of the fuzzer: a model by its number, calls of it, and what is right.

A call gives what the operators' references compute, or is refused with a WeftError.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from xdsl.dialects.func import FuncOp

from tests.differential.reference import Graph
from tests.guard.call import GuardedModel, TooLarge
from tests.guard.probes import PROBES, Probe, drawn_text, model_of
from tests.guard.process import Machine, own_machine
from tests.guard.random_models import SIDES, Writer
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.read_model import read_model
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.frontend.onnx.tensor import DTYPES
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.errors import PlanError, UnsupportedError, WeftError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import Array

HOSTILE = (
    0, 1, -1, 2, 2**31 - 1, 2**31, 2**31 + 1, -(2**31), 2**32, 2**61 + 3, 2**62, 2**63 - 1,
    -(2**63), -(2**62), 5, 9,
)  # fmt: skip
HOSTILE_FLOATS = (*map(float, HOSTILE), np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, -0.25)
SMALL = 4096
"""Values up to which a reference is asked whether a call that was refused is right."""

CALLS, SAMPLES = 40, 16
COMPUTED, ROUNDED, UNCOMPILED = "computed", "computed by a rounding", "refused while compiling:"
"""How outcomes of calls start."""


class WrongResult(Exception):
    """A call gave something else than the references."""


class WrongRefusal(Exception):
    """A call that the references compute was refused."""


Arrays = Mapping[str, Array]
Note = Callable[[str], None]
"""Is told what is done next, so that whoever waits knows where a process ended."""


@dataclass
class Case:
    """A model, compiled one of several ways, and calls of it, all drawn by a number."""

    number: int
    seed: int
    probe: Probe | None = None
    machine: Machine = field(default_factory=own_machine)
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.number}")
        draw = self.random
        if self.probe is None and draw.random() < 0.75:
            self.probe = PROBES[self.number % len(PROBES)]
        if self.probe is None:
            self.text = Writer(draw.randrange(1 << 40)).text()
        else:
            self.text = drawn_text(self.probe.text, self.probe.types, draw.choice)
        self.side = draw.choice(["before", "after"])
        self.threads = draw.choice([1, 1, 3])
        self.naive = draw.random() < 0.1
        self.constants = bool(self.probe) and draw.random() < 0.2
        self.target = draw.choice(self.machine.targets)
        self.check_indices = draw.random() < 0.1

    @property
    def operators(self) -> str:
        """What its model is for."""
        return self.probe.ops if self.probe else "random"

    @property
    def title(self) -> str:
        """What stands in reports."""
        how = [self.side, self.target.name, f"{self.threads} threads"]
        how += ["naive"] * self.naive + ["constants"] * self.constants
        how += ["check_indices"] * self.check_indices
        return f"case {self.number} seed {self.seed} ({self.operators}; {', '.join(how)})"

    def run(self, note: Note) -> Generator[str]:
        """Compiles the model and calls it; yields what became of each call. Raises what is wrong:
        StrayWrite, WrongResult, WrongRefusal, or whatever is no WeftError.
        """
        model = model_of(self.text)
        if self.constants:
            yield from self._run_known(model, note)
        else:
            yield from self._run_or_known(model, note)

    def _run_or_known(self, model: ModelProto, note: Note) -> Generator[str]:
        """Calls the model; where it cannot be compiled as it is, one that knows its sizes."""
        refused = False
        for outcome in self._run(model, note, CALLS):
            refused = outcome.startswith(UNCOMPILED)
            yield outcome
        if refused and self.probe and self.probe.values:
            yield from self._run_known(model, note)

    def _run_known(self, model: ModelProto, note: Note) -> Generator[str]:
        for _ in range(3):
            given = draw_inputs(model, self.probe, self.random)
            yield from self._run(_with_constants(model, given, self.probe), note, 4)

    def _run(self, model: ModelProto, note: Note, calls: int) -> Generator[str]:
        note(f"compiling {self.text} {_constants(model)}")
        options = Options(
            self.target, naive=self.naive, check_indices=self.check_indices, guarded=self.side
        )
        try:
            compiled = compile_model(model, options)
        except PlanError:  # no fault of the model's
            raise
        except WeftError as error:
            require_message(error)
            yield f"{UNCOMPILED} {type(error).__name__}"
            return
        judge = Judge(model, options)
        with closing(self.machine.start()) as process:
            guarded = GuardedModel(compiled, self.side, process, self.threads)
            for _ in range(calls):
                inputs = draw_inputs(model, self.probe, self.random)
                note(f"calling {self.text} {_constants(model)} with {_shown(inputs)}")
                yield self._call(guarded, judge, inputs)
            guarded.close()

    def _call(self, guarded: GuardedModel, judge: Judge, inputs: Arrays) -> str:
        try:
            outputs = guarded(inputs)
        except WeftError as error:
            require_message(error)
            if not self.check_indices:  # with it references, which move indices, refuse less
                judge.refused(inputs, error)
            return f"refused: {type(error).__name__}"
        return judge.computed(inputs, outputs)


def require_message(error: WeftError) -> None:
    """A refusal is one short line."""
    text = str(error)
    if len(text) > 4000 or not text.strip():
        raise AssertionError(f"a refusal has a short text, not {text!r}")


# Inputs -------------------------------------------------------------------------------------------


def draw_inputs(model: ModelProto, probe: Probe | None, draw: random.Random) -> dict[str, Array]:
    """Arrays for the inputs of a model: those that say sizes or places out of their examples, with
    hostile numbers among them as often as not, others of any shape that fits.
    """
    sizes: dict[str, int] = {}
    values = probe.values if probe else {}
    inputs: dict[str, Array] = {}
    for value in sorted(model.graph.input, key=lambda value: value.name not in values):
        tensor = value.type.tensor_type
        if tensor.elem_type == TensorProto.STRING:
            inputs |= drawn_strings(value.name, _shape(tensor, sizes, draw), draw)
            continue
        dtype = np.dtype(DTYPES[tensor.elem_type])
        if value.name in values:
            example = np.asarray(draw.choice(list(values[value.name])))
            rank = len(tensor.shape.dim)
            example = example.reshape([*example.shape, *[0] * (rank - example.ndim)])
            array = made_hostile(_repeated(example, draw), dtype, draw)
            if not all(
                sizes.setdefault(dim.dim_param, size) == size if dim.dim_param else
                dim.dim_value == size
                for dim, size in zip(tensor.shape.dim, array.shape, strict=True)
            ):  # fmt: skip
                array = np.resize(array, _shape(tensor, sizes, draw))
        else:
            array = drawn(_shape(tensor, sizes, draw), dtype, draw)
        inputs[value.name] = array
    return inputs


def drawn_strings(name: str, shape: tuple[int, ...], draw: random.Random) -> dict[str, Array]:
    """Where strings end, now and then at hostile places, and a few bytes."""
    generator = np.random.default_rng(draw.randrange(1 << 32))
    data = generator.choice(np.frombuffer(b"abc", np.uint8), draw.choice([0, 1, 9]))
    ends = np.sort(generator.integers(0, len(data) + 1, int(np.prod(shape)))).reshape(shape)
    return {f"{name}.ends": made_hostile(ends, np.dtype(np.int64), draw), f"{name}.bytes": data}


def _repeated(example: Array, draw: random.Random) -> Array:
    return example if draw.random() < 0.7 else example[::-1].copy() if example.ndim else example


def _shape(tensor: TensorProto, sizes: dict[str, int], draw: random.Random) -> tuple[int, ...]:
    shape: list[int] = []
    for dim in tensor.shape.dim:
        name = dim.dim_param
        limit = 20 if len(tensor.shape.dim) > 3 else 70 if len(tensor.shape.dim) > 2 else 130
        some = [side for side in SIDES if side < limit]
        shape.append(sizes.setdefault(name, draw.choice(some)) if name else dim.dim_value)
    return tuple(shape)


def drawn(shape: tuple[int, ...], dtype: np.dtype, draw: random.Random) -> Array:
    """Ordinary numbers."""
    generator = np.random.default_rng(draw.randrange(1 << 32))
    if dtype == np.bool_:
        return generator.random(shape) < 0.5
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -5, 9, shape).astype(dtype)
    return np.asarray(generator.normal(size=shape)).astype(dtype)


def made_hostile(array: Array, dtype: np.dtype, draw: random.Random) -> Array:
    """The example, as often as not with hostile numbers in some places."""
    if dtype == np.bool_:
        return array.astype(dtype)
    if draw.random() < 0.35:
        return array.astype(dtype)
    flat = array.reshape(-1).tolist()
    for place in range(len(flat)):
        if draw.random() < (0.5 if len(flat) < 5 else 0.2):
            flat[place] = draw.choice(HOSTILE_FLOATS if dtype.kind == "f" else HOSTILE)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        flat = [min(max(int(each), int(limits.min)), int(limits.max)) for each in flat]
    with np.errstate(all="ignore"):
        return np.array(flat, dtype).reshape(array.shape)


def _with_constants(model: ModelProto, inputs: Arrays, probe: Probe | None) -> ModelProto:
    """The model with what says sizes and places inside."""
    changed = ModelProto()
    changed.CopyFrom(model)
    names = probe.values if probe else {}
    kept = [value for value in changed.graph.input if value.name not in names]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    changed.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(inputs[name]), name) for name in names
    )
    return changed


def imported(probe: Probe) -> ImportedModel:
    """A probe at the graph level; sizes and indices are constant where only those are imported."""
    model = model_of(drawn_text(probe.text, probe.types, lambda choices: choices[0]))
    options = Options(host_target())
    try:
        return read_model(model, options)
    except UnsupportedError:
        kinds = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
        examples = {
            name: np.asarray(each[0], DTYPES[kinds[name]]) for name, each in probe.values.items()
        }
        return read_model(_with_constants(model, examples, probe), options)


def _constants(model: ModelProto) -> str:
    return _shown({each.name: numpy_helper.to_array(each) for each in model.graph.initializer})


def _shown(arrays: Arrays) -> str:
    """Small integers and numbers in full, of others the shape."""
    return ", ".join(
        f"{name} = {array.dtype} {array.tolist() if array.size <= 8 else list(array.shape)}"
        if array.size
        else f"{name} = {array.dtype} of {list(array.shape)}"
        for name, array in arrays.items()
    )


# What is right ------------------------------------------------------------------------------------

TOLERANCES = {"float16": 3e-2, "float32": 2e-4, "float64": 1e-9, "bfloat16": 5e-2}
NOISE = {"float16": 2.0**-8, "float64": 2.0**-50, "bfloat16": 2.0**-5}
"""Some units in the last place; those of float32 for all others."""


class Judge:
    """What the references of the imported graph say of calls."""

    def __init__(self, model: ModelProto, options: Options):
        imported = read_model(model, options)
        self._weights = imported.weights
        self._block = next(op for op in imported.module.ops if isinstance(op, FuncOp)).body.block
        self._constants = [numpy_helper.to_array(each) for each in model.graph.initializer]
        self._names = list(imported.input_names)

    def computed(self, inputs: Arrays, outputs: list[Array]) -> str:
        """What became of a call with these outputs. Raises WrongResult unless they are right."""
        own = self._evaluate(inputs)
        if isinstance(own, Exception):
            if isinstance(own, WeftError) and any(each.size for each in outputs):
                raise WrongResult(f"results, where the reference refuses: {own}")
            return COMPUTED
        try:
            for position, (found, wanted) in enumerate(zip(outputs, own, strict=True)):
                compare(f"output {position}", found, np.asarray(wanted))
        except WrongResult:
            if not self._rounded(inputs, outputs, own):
                raise
            return ROUNDED
        return COMPUTED

    def _rounded(self, inputs: Arrays, outputs: list[Array], own: list[Array]) -> bool:
        """Whether each element lies between those that the references give if each rounds a little
        otherwise: near 2^31 a multiplication that is added to in one step may end in another pixel.
        """
        graph = Graph(self._block, self._weights)
        arrays = [inputs[name] for name in self._names if name in inputs]
        noise = max(NOISE.get(each.dtype.name, 2.0**-21) for each in outputs)
        some = [own, *(graph.run(arrays, noise, seed) for seed in range(SAMPLES))]
        return all(map(_between, outputs, zip(*some, strict=True)))

    def refused(self, inputs: Arrays, error: WeftError) -> None:
        """Raises WrongRefusal where there are results, for numbers that are not large."""
        numbers = [*inputs.values(), *self._constants]
        if isinstance(error, TooLarge) or not all(map(is_small, numbers)):
            return  # which the reference may need more time and memory for than there is
        own = self._evaluate(inputs)
        if not isinstance(own, Exception):
            shapes = [np.shape(each) for each in own]
            raise WrongRefusal(f"{error}, where the reference has {shapes}")

    def _evaluate(self, inputs: Arrays) -> list[Array] | Exception:
        arrays = [np.asarray(inputs[name]) for name in self._names if name in inputs]
        try:
            with np.errstate(all="ignore"):
                return evaluate_block(self._block, arrays, {}, self._weights)
        except Exception as error:  # NumPy's own among them: memory, sizes that it cannot have
            return error


def _between(found: Array, values: Sequence[Array]) -> bool:
    """Whether each element is between the least and the greatest of some, or like the first."""
    if any(np.shape(each) != found.shape for each in values):
        return False
    first, *_ = wide = [np.asarray(each, np.float64) for each in values]
    with np.errstate(all="ignore"):
        low, high, got = np.min(wide, axis=0), np.max(wide, axis=0), found.astype(np.float64)
        slack = TOLERANCES.get(found.dtype.name, 0) * (np.maximum(abs(low), abs(high)) + 1e-6)
        inside = (low - slack <= got) & (got <= high + slack)
    return bool(np.all(inside | (got == first) | (np.isnan(got) & np.isnan(first))))


def is_small(array: Array) -> bool:
    """Whether all are ordinary numbers."""
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(np.asarray(array, np.float64)) <= SMALL))


def compare(what: str, found: Array, wanted: Array) -> None:
    """Raises WrongResult where they differ by more than rounding."""
    if found.shape != wanted.shape:
        raise WrongResult(f"{what} of {found.shape}, the reference has {wanted.shape}")
    tolerance = TOLERANCES.get(found.dtype.name)
    with np.errstate(all="ignore"):
        one, two = (each.astype(np.float64) for each in (found, wanted))
        finite = np.abs(two[np.isfinite(two)])
        scale = finite.max(initial=0.0)
        near = (one == two) | (np.isnan(one) & np.isnan(two))
        if tolerance is not None:
            near |= np.abs(one - two) <= tolerance * (np.abs(two) + scale + 1e-6)
        else:
            near = found == wanted
    if not near.all():
        at = tuple(int(each[0]) for each in np.nonzero(~near))
        got = f"{found[at]} instead of {wanted[at]} at {at} of {found.shape}"
        raise WrongResult(f"{what}: {got}, {int((~near).sum())} elements differ")
