"""Training on two ranks of one thread beside one rank of two threads, of weft and of PyTorch with
gloo (DDP, and ZeroRedundancyOptimizer for ZeRO-1), in turns:

    PYTHONPATH=. weft launch -n 2 --timeout 300 benchmarks/ranks/training.py resnet18_64 gpt2_2 7

`resnet18` has images of 224 x 224, `resnet18_64` of 64 x 64; `gpt2` is GPT-2 small over 8 x 256
tokens, `gpt2_16` over 8 x 16, `gpt2_2` has two layers, 4,096 words and 8 x 128 tokens; what ends
with `_slow` has small steps. With `ddp` PyTorch runs on ranks alone, for it takes memory: GPT-2
small in four ways 19 GB.

Processor time of a step on all ranks together, the median of so many, and by the wall; the bytes
that a rank's collectives have. Batch norm goes by the statistics of a rank's part of the batch, as
in DDP, also on one rank of weft.
"""
# pyright: basic

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from benchmarks.ranks.exchange import Exchange
from benchmarks.training import networks
from benchmarks.training.cases import starts
from weft import Mesh, P, nn, optim

CORES = sorted(os.sched_getaffinity(0))


def pictures(draw: np.random.Generator, size: int):
    """Of a batch of 32, and their classes."""
    return draw.random((32, 3, size, size), np.float32), draw.integers(0, 1000, 32)


@dataclass(frozen=True)
class Case:
    """A network for so many ranks, what draws a batch, its optimiser, and whether ranks cut the
    optimiser's state.
    """

    network: Callable[[int], nn.Module]
    batch: Callable[[np.random.Generator], tuple]
    optimizer: Callable[[], optim.Optimizer]
    peer: Callable[[Any], Any]
    zero: bool = False


def resnet18(size: int, rate: float = 0.01) -> Case:
    """Images of so many rows and columns, and the size of steps."""
    return Case(
        networks.ResNet,
        lambda draw: pictures(draw, size),
        lambda: optim.sgd(rate),
        lambda torch: networks.torch_networks(torch)["resnet18"](),
    )


def gpt2(layers: int, words: int, positions: int, rate: float = 1e-3) -> Case:
    """Eight rows of so many tokens, and the size of steps."""
    sizes = {"layers": layers, "tokens": words, "positions": positions}
    return Case(
        lambda _: networks.GPT2(**sizes),
        lambda draw: tuple(draw.integers(0, words, (2, 8, positions))),
        lambda: optim.adam(rate),
        lambda torch: networks.torch_networks(torch, **sizes)["gpt2_small"](),
        zero=True,
    )


CASES = {
    "resnet18": resnet18(224),
    "resnet18_64": resnet18(64),
    "resnet18_64_slow": resnet18(64, 1e-4),
    "gpt2": gpt2(12, 50257, 256),
    "gpt2_2": gpt2(2, 4096, 128),
    "gpt2_16_slow": gpt2(12, 50257, 16, 1e-4),
}
SMALL = ("resnet18_64", "gpt2_2")


def batch_of(name: str) -> list[np.ndarray]:
    """The batch of a case, the same on all ranks."""
    return [np.ascontiguousarray(each) for each in CASES[name].batch(np.random.default_rng(0))]


@dataclass(frozen=True)
class Training:
    """A step of a case, its parameters, buffers and optimiser's state, its batch, and how ranks
    cut them.
    """

    step: Callable[..., tuple]
    held: list
    batch: Sequence
    cuts: dict[str, P]

    def on(self, mesh: Mesh | None, threads: int) -> tuple[Callable[[], object], dict]:
        """What runs a step on the ranks of a mesh, and what a rank's collectives are."""
        meshed = {} if mesh is None else {"mesh": mesh, "shardings": self.cuts}
        made = weft.step(
            self.step, *self.held, *self.batch, donate=(0, 1, 2), threads=threads, **meshed
        )
        held = deepcopy(self.held)

        def run() -> object:
            loss, held[0], held[2], held[1] = made(*held, *self.batch)
            return loss

        return run, made.executable.metadata.get("mesh", {})


def training(name: str, batch: Sequence, ranks: int, network: nn.Module | None = None) -> Training:
    """A case of `CASES` for so many ranks, or another network for them."""
    case = CASES[name]
    network, optimizer = network or case.network(ranks), case.optimizer()
    parameters = {
        key: networks.initial(key, each.shape) for key, each in network.parameters().items()
    }
    cuts = {"x": P("data"), "y": P("data")}
    state = optimizer.init(parameters)
    if case.zero:
        cuts |= {f"parameters.{key}": P() for key in parameters}
        cuts |= {f"state.{path}": P("data") for path in cut_paths(state, ranks)}
    held = [parameters, network.buffers(), state]
    return Training(step_of(network, optimizer), held, batch, cuts)


def slopes_of(network: nn.Module, noted: list | None = None) -> Callable[..., tuple]:
    """The loss of classes, its gradients, the buffers behind it, and what the network notes."""
    notes = [] if noted is None else noted

    def slopes(parameters, buffers, x, y):
        def loss(parameters):
            notes.clear()
            found, after = network.apply_updating({**parameters, **buffers}, x)
            return nn.cross_entropy(found, y), (after, list(notes))

        (value, (after, seen)), slopes = weft.value_and_grad(loss, has_aux=True)(parameters)
        return value, slopes, after, seen

    return slopes


def step_of(network: nn.Module, optimizer: optim.Optimizer) -> Callable[..., tuple]:
    """A step of training by the loss of classes."""

    def step(parameters, buffers, state, x, y):
        value, slopes, after, _ = slopes_of(network)(parameters, buffers, x, y)
        return value, *optimizer.update(parameters, slopes, state), after

    return step


def cut_paths(tree, ranks: int, before: str = "") -> list[str]:
    """The paths of arrays whose first dims ranks divide."""
    if isinstance(tree, dict | list | tuple):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return [path for key, each in items for path in cut_paths(each, ranks, f"{before}{key}.")]
    shape = np.shape(tree)
    return [before[:-1]] if shape and shape[0] % ranks == 0 else []


def of_torch(name: str, batch, ranks: int, threads: int) -> Callable[[], object]:
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.set_num_threads(threads)
    network, zero = CASES[name].peer(torch), CASES[name].zero
    with torch.no_grad():
        for weight, start in starts(torch, network):
            weight.copy_(torch.from_numpy(start))
    if ranks > 1:
        network = torch.nn.parallel.DistributedDataParallel(network)
        rows = len(batch[0]) // ranks
        mine = slice(weft.rank() * rows, (weft.rank() + 1) * rows)
        batch = [each[mine] for each in batch]
    if zero and ranks > 1:
        optimizer = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=1e-3)
    elif zero:
        optimizer = torch.optim.Adam(network.parameters(), 1e-3, fused=True)
    else:
        optimizer = torch.optim.SGD(network.parameters(), 0.01)
    x, y = (torch.from_numpy(np.ascontiguousarray(each)) for each in batch)

    def step() -> object:
        torch.set_num_threads(threads)
        optimizer.zero_grad(set_to_none=True)
        found = network(x)
        loss = torch.nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def start_gloo() -> bool:
    """Whether PyTorch is there, whose ranks then have met."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch.distributed as dist

    if dist.is_initialized():
        return True
    path = f"/tmp/weft-gloo-{os.getppid()}"
    dist.init_process_group("gloo", f"file://{path}", rank=weft.rank(), world_size=weft.ranks())
    return True


def measure(name: str, turns: int, exchange: Exchange, peers: Sequence[str]) -> None:
    """Prints what each way takes; peers are `torch, ranks` and `torch, one rank`."""
    batch = batch_of(name)
    ranks, first = weft.ranks(), weft.rank() == 0
    case = training(name, batch, ranks)
    ours, described = case.on(Mesh(data=ranks), 1)
    ways: dict[str, tuple[Callable[[], object] | None, bool]] = {"weft, ranks": (ours, False)}
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    ways["weft, one rank"] = (case.on(None, ranks)[0] if first else None, True)
    os.sched_setaffinity(0, CORES)
    for peer in peers:
        alone = peer == "torch, one rank"
        count = (1, ranks) if alone else (ranks, 1)
        ways[peer] = (None if alone and not first else of_torch(name, batch, *count), alone)
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    losses: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns + 1):
        for way, (step, alone) in ways.items():
            os.sched_setaffinity(0, range(os.cpu_count() or 1) if alone else CORES)
            exchange.total(0.0)
            begin = time.perf_counter(), time.process_time()
            if step is not None:
                losses[way].append(float(step()))
            own = time.process_time() - begin[1]
            wall = time.perf_counter() - begin[0]
            together = exchange.total(own)
            if turn:
                times[way].append((together, wall))
    if first:
        done = described["collectives"]
        for operation in dict.fromkeys(each["operation"] for each in done):
            found = [each["bytes"] for each in done if each["operation"] == operation]
            print(f"{name}: {len(found)} {operation}, {sum(found) / 1e6:.2f} MB")
        for way, found in times.items():
            middle = [statistics.median(each[n] for each in found) * 1e3 for n in (0, 1)]
            shown = f"{middle[0]:8.1f} ms of processors, {middle[1]:8.1f} ms of wall"
            print(f"{name} {way:16} {shown}, losses {losses[way][0]:.5f} {losses[way][-1]:.5f}")
        sys.stdout.flush()


if __name__ == "__main__":
    words = sys.argv[1:]
    peers = ["torch, ranks"] if "ddp" in words else ["torch, ranks", "torch, one rank"]
    peers = peers if start_gloo() else []
    turns = [int(each) for each in words if each.isdecimal()] or [7]
    for each in [word for word in words if word in CASES] or SMALL:
        measure(each, turns[0], Exchange(), peers)
