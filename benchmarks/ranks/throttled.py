"""Calls of two ranks over a slow wire beside those over memory, in turns, and what is predicted:

    PYTHONPATH=. weft launch -n 2 --timeout 300 benchmarks/ranks/throttled.py 5 resnet18_64 vit bert

Wires are memory, one of a tenth of the bytes a second that sums of 16 MiB in this run move, and
slower ones; `--wires 2` measures the first two. Of a call, the median
by the wall; the share of it by which it is longer than over memory; and what the model of the wire
says, where calls take as many times what the model of the CPU says as they do on one rank (`one`),
or on all ranks over memory (`all`).
"""
# pyright: basic

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec.structs import replace

import weft
from benchmarks.networks import build_vit
from benchmarks.ranks import bert
from benchmarks.ranks.all_reduce import times_of_sums
from benchmarks.ranks.exchange import Exchange
from benchmarks.ranks.pipeline import MIDDLE
from benchmarks.ranks.training import batch_of, training
from weft import Mesh, P
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.program.predict_step import Program, predict_step, program_of
from weft.compiler.target.wire import MEMORY, Wire, ring
from weft.tracing import donations

SLOW = (Wire(2e-6, 1e9), Wire(100e-6, 1e9), Wire(1e-3, 0.3e9))
MEBIBYTES = 16
"""Of sums that say what ranks of one machine move."""

IMAGES = 24
"""Of a stream."""


@dataclass(frozen=True)
class Measured:
    """What runs on all ranks and on one, and the programs of which that is predicted."""

    together: Callable[[], object]
    alone: Callable[[], object]
    programs: tuple[Program, Program]
    calls: int = 1

    def predicted(self, which: int, wire: Wire) -> float:
        """The seconds of a call among so many."""
        found = predict_step(self.programs[which], wire)
        return (found.first + (self.calls - 1) * found.step) / self.calls


def of_training(name: str) -> Measured:
    ranks = weft.ranks()
    batch = batch_of(name)
    case, mesh = training(name, batch, ranks), Mesh(data=ranks)
    alone = case.on(None, 1)[0] if weft.rank() == 0 else lambda: None

    programs = programs_of(case.step, [*case.held, *batch], (0, 1, 2), "data", case.cuts)
    return Measured(case.on(mesh, 1)[0], alone, programs)


def of_layer() -> Measured:
    """A layer of BERT-large by heads and hidden units."""
    together, alone = bert.runs()
    programs = programs_of(bert.layer, [bert.weights(), bert.tokens()], (), "model", bert.CUTS)
    return Measured(together, alone if weft.rank() == 0 else lambda: None, programs)


def programs_of(function, given: list, donate: tuple, axis: str, cuts: dict[str, P]):
    """The scheduled programs of one rank, and of one among these along an axis."""

    def planned(**meshed) -> Program:
        model = donations.donating(function, *given, donate=donate, name="step")[0]
        return planned_of(model, prefix="step", **meshed)

    return planned(), planned(mesh=f"{axis}={weft.ranks()}", shard=written(cuts))


def of_stream() -> Measured:
    """ViT-S/16 in two stages."""
    model, staged = build_vit(), {"mesh": f"stage={weft.ranks()}", "stage": [MIDDLE]}
    draw = np.random.default_rng(0)
    images = [draw.random((1, 3, 224, 224), np.float32) for _ in range(IMAGES)]
    together = weft.compile(model, threads=1, **staged)
    alone = weft.compile(model, threads=1) if weft.rank() == 0 else None
    return Measured(
        lambda: list(together.stream(images)),
        lambda: [alone(each) for each in images] if alone else None,
        (planned_of(model), planned_of(model, **staged)),
        IMAGES,
    )


INFERENCE = {"vit": of_stream, "bert": of_layer}


def written(cuts: dict[str, P]) -> list[str]:
    """Shardings as `--shard` takes them."""
    return [f"{name}={cut}" for name, cut in cuts.items()]


def planned_of(model, **changes) -> Program:
    options = Options().changed(**changes)
    return program_of(plan_model(model, Session(options)).module, read_mesh(options.mesh))


def tenth() -> Wire:
    """That of a tenth of the bytes a second which sums in place move over memory."""
    seconds = statistics.median(wall for wall, _ in times_of_sums(MEBIBYTES, 20)["in place"])
    seconds = Exchange().total(seconds) / weft.ranks()
    bytes = ring("all_reduce", weft.ranks(), MEBIBYTES << 20)[1]
    return Wire(2e-6, bytes / seconds / 10)


def measure(name: str, turns: int, wires: Sequence[Wire]) -> None:
    """Prints what calls take over each wire."""
    case, exchange = INFERENCE.get(name, partial(of_training, name))(), Exchange()
    times: dict[Wire | None, list[float]] = {each: [] for each in (None, *wires)}
    for turn in range(turns + 1):
        order = list(times.items())
        first = turn % len(order)  # cores that have rested are faster
        for wire, found in order[first:] + order[:first]:
            exchange.throttle(wire or MEMORY)
            exchange.total(0.0)
            begin = time.perf_counter()
            (case.alone if wire is None else case.together)()
            exchange.throttle(MEMORY)
            if wire is not None:
                exchange.total(0.0)
            if turn:
                found.append((time.perf_counter() - begin) / case.calls)
            exchange.total(0.0)
    if weft.rank():
        return
    middle = {wire: statistics.median(found) for wire, found in times.items()}
    scales = {
        "one": middle[None] / case.predicted(0, MEMORY),
        "all": middle[MEMORY] / case.predicted(1, MEMORY),
    }
    print(
        f"{name}: one rank {middle[None] * 1e3:.1f} ms, over memory {middle[MEMORY] * 1e3:.1f} ms"
    )
    for wire in wires:
        waited = 1 - middle[MEMORY] / middle[wire]
        shown = [f"{1e3 * middle[wire]:.1f} ms, {100 * waited:.1f} % of it for the wire"]
        for scaled, scale in scales.items():
            programs = [replace(each, scale=scale) for each in case.programs]
            wanted = Measured(case.together, case.alone, tuple(programs), case.calls)
            found = wanted.predicted(1, wire)
            shown.append(f"{middle[wire] / found:.3f} of {1e3 * found:.1f} by {scaled}")
        print(f"  {wire.alpha * 1e6:.0f} us, {wire.beta / 1e9:.3g} GB/s: {'; '.join(shown)}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", type=int)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--wires", type=int, default=len(SLOW) + 2, metavar="COUNT")
    arguments = parser.parse_args()
    wires = (MEMORY, tenth(), *SLOW)[: arguments.wires]
    for each in arguments.cases:
        measure(each, arguments.turns, wires)


if __name__ == "__main__":
    main()
