"""Steps of training, and the engines that run them, each in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import weft
from benchmarks.training import networks
from weft import nn, optim
from weft.bench.engines import OURS
from weft.bench.session import Session
from weft.bench.worker import Job, peak_bytes
from weft.dialects.weights import Array

EAGER: Final = "weft eager"
ENGINES: Final = {OURS: "weft", EAGER: "weft", "torch": "torch", "torch.compile": "torch"}
"""By name the package."""

FIRST: Final = 3
"""Steps whose losses are compared."""


@dataclass(frozen=True)
class Training:
    """A network by its name in PyTorch's list too, what is read in each step, and the rate of Adam,
    or of plain descent.
    """

    name: str
    network: Callable[[], Any]
    batch: Callable[[], tuple[Array, Array]]
    rate: float
    adam: bool
    eager: bool = True

    def weft(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The step, and its arguments: parameters, buffers, the optimiser's state, the batch."""
        network = self.network()
        optimizer = (optim.adam if self.adam else optim.sgd)(self.rate)
        parameters = {
            name: weft.Tensor(networks.initial(name, each.shape))
            for name, each in network.parameters().items()
        }

        def step(parameters: Any, buffers: Any, state: Any, images: Any, labels: Any) -> Any:
            def loss(parameters: Any) -> Any:
                found, after = network.apply_updating({**parameters, **buffers}, images)
                return nn.cross_entropy(found, labels), after

            (value, after), slopes = weft.value_and_grad(loss, has_aux=True)(parameters)
            parameters, state = optimizer.update(parameters, slopes, state)
            return value, parameters, after, state

        batch = [weft.Tensor(each) for each in self.batch()]
        return step, (parameters, network.buffers(), optimizer.init(parameters), *batch)


@dataclass(frozen=True)
class TrainingJob(Job):
    """A step for an engine; `artifact` is what weft has compiled it to."""

    engine: str
    case: str
    artifact: Path

    @property
    def package(self) -> str:
        return ENGINES[self.engine]

    def load(self) -> Session:
        case = next(each for each in TRAININGS if each.name == self.case)
        threads = len(self.cores)
        if self.engine == OURS:
            step, base = _compiled(self.artifact, case, threads)
        elif self.engine == EAGER:
            step, base = _eager(case)
        else:
            step, base = _torch(case, threads, compiled=self.engine != "torch")
        losses = [float(step()) for _ in range(FIRST)]
        return Session(step, lambda _: [np.array(losses, np.float32)], base)


def _compiled(artifact: Path, case: Training, threads: int) -> tuple[Callable[[], Any], int]:
    """A step of the artifact, in memory of its own for what it donates."""
    executable = importlib.import_module("weft").load(artifact, threads=threads)
    base = peak_bytes()
    images, labels = case.batch()
    arrays: list[Array] = []
    for spec in executable.inputs:
        tree, _, name = spec.name.partition(".")
        given = {"images": images, "labels": labels}.get(tree)
        if tree == "state":
            given = np.zeros(spec.dims, spec.dtype)
        arrays.append(networks.initial(name, spec.dims) if given is None else given)
    return lambda: executable(*arrays)[0], base


def _eager(case: Training) -> tuple[Callable[[], Any], int]:
    step, given = case.weft()
    base, held = peak_bytes(), list(given)

    def run() -> Any:
        loss, held[0], held[1], held[2] = step(*held)
        return loss

    return run, base


def _torch(case: Training, threads: int, *, compiled: bool) -> tuple[Callable[[], Any], int]:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    base = peak_bytes()
    network = networks.torch_networks(torch)[case.name]()
    dense = {
        f"{name}.weight" for name, each in network.named_modules()
        if isinstance(each, torch.nn.Linear)
    }  # fmt: skip
    with torch.no_grad():
        for name, weight in network.named_parameters():
            shape = tuple(weight.shape)
            start = networks.initial(name, shape[::-1] if name in dense else shape)
            weight.copy_(torch.from_numpy(start.T if name in dense else start))
    if case.adam:
        optimizer = torch.optim.Adam(network.parameters(), case.rate, fused=True)
    else:
        optimizer = torch.optim.SGD(network.parameters(), case.rate)
    images, labels = (torch.from_numpy(each) for each in case.batch())

    def loss_of() -> Any:
        found = network(images)
        return torch.nn.functional.cross_entropy(
            found.reshape(-1, found.shape[-1]), labels.reshape(-1)
        )

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, base


def _digits(*shape: int) -> Callable[[], tuple[Array, Array]]:
    def batch() -> tuple[Array, Array]:
        draw = np.random.default_rng(0)
        return draw.random((32, *shape), np.float32), draw.integers(0, 10, 32)

    return batch


def _photographs() -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    return draw.random((4, 3, 224, 224), np.float32), draw.integers(0, 1000, 4)


def _text() -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    return draw.integers(0, 50257, (1, 128)), draw.integers(0, 50257, (1, 128))


TRAININGS: Final = (
    Training("mlp", networks.Perceptron, _digits(64), 2e-3, adam=True),
    Training("convolutional", networks.Convolutional, _digits(1, 8, 8), 2e-3, adam=True),
    Training("resnet18", networks.ResNet, _photographs, 1e-2, adam=False, eager=False),
    Training("gpt2_small", networks.GPT2, _text, 1e-3, adam=False, eager=False),
)
