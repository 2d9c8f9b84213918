"""What the benchmarks time: the light graphs of the onnx package and networks of full size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from onnx import ModelProto

from compiler.cli.demo_model import load_light, with_random_weights
from tests.models.light import LIGHT, SEED, seeded_input
from tests.models.networks import FULL_SIZE, NETWORKS, Inputs


@dataclass(frozen=True)
class Subject:
    """A model, made when it is its turn, and the arrays to run it on."""

    name: str
    build: Callable[[], ModelProto]
    inputs: Callable[[], Inputs]


def _light(name: str) -> Subject:
    def build() -> ModelProto:
        return with_random_weights(load_light(name), SEED)

    def inputs() -> Inputs:
        model = load_light(name)
        constants = {tensor.name for tensor in model.graph.initializer}
        (image,) = (value.name for value in model.graph.input if value.name not in constants)
        return {image: seeded_input()}

    return Subject(f"light_{name}", build, inputs)


SUBJECTS: tuple[Subject, ...] = (
    *(_light(name) for name in LIGHT),
    *(
        Subject(network.name, network.build, partial(network.make_inputs, SEED))
        for network in (*(each for each in NETWORKS if each.name in ("mlp", "lenet")), *FULL_SIZE)
    ),
)


def find_subjects(names: list[str]) -> list[Subject]:
    """The subjects of these names, all of them for none. Raises ValueError for unknown names."""
    known = {subject.name: subject for subject in SUBJECTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"benchmarks require models of {', '.join(known)}, got {unknown}")
    return [known[name] for name in names] or list(SUBJECTS)
