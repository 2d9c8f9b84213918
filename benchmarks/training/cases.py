"""Steps of training, and the engines that run them, each in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import weft
from benchmarks.training import networks
from benchmarks.training.shared import OURS as WEFT
from benchmarks.training.shared import SHARED, library_of
from weft import nn, optim
from weft.bench.engines import OURS
from weft.bench.session import Session
from weft.bench.worker import Job, peak_bytes
from weft.dialects.weights import Array

EAGER: Final = "weft eager"
CHANNELS_LAST: Final = " channels_last"
TORCH: Final = ("torch", "torch.compile")
THROUGH: Final = "torch.compile by weft"
WHOLE: Final = f"{THROUGH} whole"
ENGINES: Final = {
    OURS: "weft",
    EAGER: "weft",
    **dict.fromkeys([*TORCH, *(each + CHANNELS_LAST for each in TORCH), THROUGH, WHOLE], "torch"),
}
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

    def engines(self, names: Sequence[str]) -> list[str]:
        """Those of the engines that run it: layouts of channels are for images alone."""
        images = self.batch()[0].ndim == 4
        return [
            name for name in names
            if (self.eager or name != EAGER) and (images or not name.endswith(CHANNELS_LAST))
        ]  # fmt: skip

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
            step, base = _torch(case, threads, self.engine)
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


def _torch(case: Training, threads: int, engine: str) -> tuple[Callable[[], Any], int]:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    base = peak_bytes()
    if case.name in SHARED:
        network = SHARED[case.name](library_of(torch))
    else:
        network = networks.torch_networks(torch)[case.name]()
    with torch.no_grad():
        for weight, start in starts(torch, network):
            weight.copy_(torch.from_numpy(start))
    images, labels = (torch.from_numpy(each) for each in case.batch())
    if engine.endswith(CHANNELS_LAST):
        network, images = (each.to(memory_format=torch.channels_last) for each in (network, images))
    parameters = [each for each in network.parameters() if each.requires_grad]

    def loss_of() -> Any:
        found = network(images)
        if found.ndim == 4:
            return torch.nn.functional.cross_entropy(found, labels)
        found = found.reshape(-1, found.shape[-1])
        return torch.nn.functional.cross_entropy(found, labels.reshape(-1))

    if engine == WHOLE:
        return _whole(torch, loss_of, parameters, case), base
    maker = torch.optim.Adam if case.adam else torch.optim.SGD
    optimizer = maker(parameters, case.rate, fused=engine != THROUGH)
    update = optimizer.step
    if engine == THROUGH:
        loss_of, update = (torch.compile(each, backend="weft") for each in (loss_of, update))
    elif engine.startswith("torch.compile"):
        loss_of = torch.compile(loss_of)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        update()
        return loss.detach()

    return step, base


def _whole(
    torch: Any, loss_of: Callable[[], Any], parameters: Sequence[Any], case: Training
) -> Callable[[], Any]:
    """A step as one graph: the loss, its slopes, and descent or Adam with its numbers."""
    means, squares = ([torch.zeros_like(each.detach()) for each in parameters] for _ in range(2))
    count = torch.zeros(())

    def adam(slopes: Sequence[Any]) -> None:
        count.add_(1)
        first, second = 1 - 0.9**count, 1 - 0.999**count
        for each, slope, mean, square in zip(parameters, slopes, means, squares, strict=True):
            mean.mul_(0.9).add_(slope, alpha=0.1)
            square.mul_(0.999).addcmul_(slope, slope, value=0.001)
            each.sub_(case.rate * (mean / first) / ((square / second).sqrt() + 1e-8))

    def descent(slopes: Sequence[Any]) -> None:
        for each, slope in zip(parameters, slopes, strict=True):
            each.sub_(case.rate * slope)

    def step() -> Any:
        loss = loss_of()
        slopes = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            (adam if case.adam else descent)(slopes)
        return loss.detach()

    torch._dynamo.config.trace_autograd_ops = True
    return torch.compile(step, backend="weft", fullgraph=True)


def starts(torch: Any, network: Any) -> Iterator[tuple[Any, Array]]:
    """Each parameter of a network of PyTorch's, and what it starts from: as in weft, where weights
    of products are transposed, and those of recurrent layers have names of their own.
    """
    names = {
        "weight_ih_l0": "input_weight", "weight_hh_l0": "hidden_weight",
        "bias_ih_l0": "bias", "bias_hh_l0": "bias",
    }  # fmt: skip
    for path, module in network.named_modules():
        transposed = isinstance(module, (torch.nn.Linear, torch.nn.LSTM))
        for own, weight in module.named_parameters(recurse=False):
            name = ".".join(filter(None, [path, names.get(own, own)]))
            shape = tuple(weight.shape)
            start = networks.initial(name, shape[::-1] if transposed else shape)
            yield weight, start.T if transposed else start


def _floats(*shape: int, labels: Sequence[int], classes: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    return draw.random(shape, np.float32), draw.integers(0, classes, labels)


def _words(*shape: int, labels: Sequence[int], words: int, classes: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    return draw.integers(0, words, shape), draw.integers(0, classes, labels)


_PHOTOGRAPHS: Final = partial(_floats, 16, 3, 112, 112, labels=[16], classes=1000)
_DIGITS: Final = partial(_floats, labels=[32], classes=10)


def _shared(name: str, batch: Callable[[], tuple[Array, Array]], rate: float) -> Training:
    return Training(name, partial(SHARED[name], WEFT), batch, rate, adam=False, eager=False)


TRAININGS: Final = (
    Training("mlp", networks.Perceptron, partial(_DIGITS, 32, 64), 2e-3, adam=True),
    Training(
        "convolutional", networks.Convolutional, partial(_DIGITS, 32, 1, 8, 8), 2e-3, adam=True
    ),
    Training("resnet18", networks.ResNet, _PHOTOGRAPHS, 1e-2, adam=False, eager=False),
    Training(
        "gpt2_small",
        networks.GPT2,
        partial(_words, 1, 128, labels=[1, 128], words=50257, classes=50257),
        1e-3,
        adam=False,
        eager=False,
    ),
    _shared("resnet50", _PHOTOGRAPHS, 1e-4),
    _shared("mobilenet_v2", _PHOTOGRAPHS, 1e-4),
    _shared("unet", partial(_floats, 16, 3, 64, 64, labels=[16, 64, 64], classes=4), 1e-2),
    _shared("vit_small", _PHOTOGRAPHS, 1e-3),
    _shared("bert_small", partial(_words, 16, 64, labels=[16], words=30522, classes=2), 1e-3),
    _shared("lstm", partial(_floats, 32, 32, 64, labels=[32], classes=10), 1e-2),
)
