"""Networks on 1, 2 and 4 ranks of each transport beside one rank, 50 steps, in one table:

    PYTHONPATH=. python -m benchmarks.ranks.trajectories -o FILE --mpi /opt/mpich/bin

ResNet-18 (32 images of 64 x 64, statistics of each rank's part) and GPT-2 small (8 x 16 tokens,
Adam with ZeRO-1) are trained by data-parallel ranks: at the parameters of one rank's every step,
ranks' gradients are compared with its own, and the losses of the ranks' own training with its. The
others are small, `tests/weft/distributed/models.py`: GPT-2 and BERT cut by heads, a decoder with a
cache, images streamed through the stages of a ViT.

Each case is a line of the file. Cases that are there are not run again; `--seconds` begins nothing
further after so many, and `--piece` has processes end after so many steps of the first two, behind
which others go on. Ranks are threads of a process, processes that share memory, and those of each
MPI whose programs are in a folder of `--mpi`, with a Python in which weft is installed.
"""
# pyright: basic

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from benchmarks.ranks.training import CASES, batch_of, slopes_of, training
from benchmarks.training import networks
from tests.weft.distributed import models
from weft import Mesh, P, nn
from weft.trees import flatten

AT_SIZE = {"resnet18": "resnet18_64_slow", "gpt2 small": "gpt2_16_slow"}
NETWORKS = (*AT_SIZE, *models.NAMES)
RANKS = (1, 2, 4)
OWN = ("threads", "processes")
"""Transports that need no MPI."""

STEPS = 50
TOLERANCES = {"gradients": 1e-5, "last loss": 1e-3, "results": 1e-4}
KINK = 1e-5
"""How far rounding may move what a ReLU is given, which is of size 1."""
NOTHING = 1e-4
"""Of the largest gradient: those of keys' biases, say, are zero but for rounding."""


# On the ranks ------------------------


def followed(name: str, end: int, folder: Path, steps: int) -> dict[str, float]:
    """How far ranks are off one rank's training at most: in gradients, also relative to the largest
    one of a parameter, and in the last loss; and at how many steps results of a normalisation were
    on the other side of a ReLU's kink. First come so many steps for gradients, then the ranks' own
    training, in a process of its own, for both take much memory. Goes on behind what the folder
    has, up to the `end`, and leaves there what going on takes.
    """
    found = Found.behind(folder)
    follow = follow_gradients if found.steps < steps else follow_losses
    follow(name, end, folder, found)
    return found.off


def follow_gradients(name: str, end: int, folder: Path, found: Found) -> None:
    """Those of ranks beside one rank's, at its parameters."""
    ranks, first, batch = weft.ranks(), weft.rank() == 0, batch_of(name)
    meshed, noted = {"mesh": Mesh(data=ranks), "threads": 1}, []
    network = network_of(name, ranks, noted)
    parameters, buffers, _ = training(name, batch, ranks, network).held
    cuts, function = {key: P("data") for key in "xy"}, slopes_of(network, noted)
    slopes = weft.step(function, parameters, buffers, *batch, shardings=cuts, **meshed)
    ones = np.ones(ranks, np.float32)
    meet = weft.step(lambda x: x.sum(), ones, shardings={"x": P("data")}, **meshed)
    alone = OneRank(name, batch, ranks, folder) if first else None
    for _ in range(found.steps, end):
        if alone is not None:
            nn.save_tree(folder / "parameters", alone.held[0])
        float(meet(ones))  # behind which all ranks see the file
        parameters = nn.load_tree(folder / "parameters", parameters)
        _, ranked, _, seen = slopes(parameters, buffers, *batch)  # when all have read it
        found.steps += 1
        if alone is not None:
            found.add(ranked, seen, alone)
    if alone is not None:
        nn.save_tree(folder / "one", alone.held)
        found.leave(folder)


def follow_losses(name: str, end: int, folder: Path, found: Found) -> None:
    """Those of the ranks' own training beside one rank's, which are known."""
    ranks, batch = weft.ranks(), batch_of(name)
    case = training(name, batch, ranks, network_of(name, ranks, []))
    meshed = {"mesh": Mesh(data=ranks), "shardings": case.cuts, "threads": 1}
    own = weft.step(case.step, *case.held, *batch, donate=(0, 1, 2), **meshed)
    held = kept(folder / "ranks", case.held)
    del case
    for number in range(found.steps - len(found.losses), end - len(found.losses)):
        loss, *after = own(*held, *batch)
        held = [after[0], after[2], after[1]]
        found.off["last loss"] = abs(float(loss) - found.losses[number])
    found.steps = end
    whole = own.whole(*held)
    if weft.rank() == 0:
        nn.save_tree(folder / "ranks", whole)
        found.leave(folder)


def kept(path: Path, like: list) -> list:
    """A tree that was left there, or what it begins with."""
    return nn.load_tree(path, like) if path.exists() else like


class OneRank:
    """One rank's training, with the statistics of so many ranks' parts."""

    def __init__(self, name: str, batch: Sequence, ranks: int, folder: Path) -> None:
        noted, sides, optimizer = [], [], CASES[name].optimizer()
        slopes = slopes_of(network_of(name, ranks, noted), noted)
        slopes_at = slopes_of(network_of(name, ranks, noted, sides), noted)
        begin = training(name, batch, 1, network_of(name, ranks, noted)).held
        self.held, self._batch = kept(folder / "one", begin), batch

        def step(parameters, buffers, state, x, y):
            value, found, after, seen = slopes(parameters, buffers, x, y)
            return value, *optimizer.update(parameters, found, state), after, found, seen

        def slopes_there(parameters, buffers, x, y, given):
            sides[:] = given
            return slopes_at(parameters, buffers, x, y)[1]

        self._step = weft.step(step, *begin, *batch, donate=(1, 2), threads=1)
        self._slopes_there, self._there = slopes_there, None

    def step(self):
        """Makes a step: the loss, gradients, and what ReLUs were given."""
        self._before = self.held[0]
        loss, self.held[0], self.held[2], self.held[1], found, seen = self._step(
            *self.held, *self._batch
        )
        return float(loss), found, seen

    def slopes_at(self, sides: Sequence):
        """The gradients of the last step where ReLUs' operands are on these sides of zero."""
        given = self._before, self.held[1], *self._batch, list(sides)
        self._there = self._there or weft.step(self._slopes_there, *given, threads=1)
        return self._there(*given)


def network_of(name: str, ranks: int, noted: list, sides: list | None = None):
    """That of a case, which notes what its ReLUs are given; they keep what is on a side that is
    given, in place of above zero.
    """

    def activation(x):
        noted.append(x)
        return nn.relu(x) if sides is None else wnp.where(sides[len(noted) - 1], x, np.float32(0))

    if name == AT_SIZE["resnet18"]:
        return networks.ResNet(ranks, activation)
    return CASES[name].network(ranks)


class Found:
    """How far ranks were off so far, in so many steps, and the losses of one rank."""

    def __init__(self, steps: int = 0, off: dict | None = None, losses: list | None = None):
        nothing = {"gradients": 0.0, "relative": 0.0, "last loss": 0.0, "steps at a kink": 0}
        self.steps, self.off, self.losses = steps, off or nothing, losses or []

    @staticmethod
    def behind(folder: Path) -> Found:
        """What the folder has, of another run."""
        path = folder / "found.json"
        return Found(**json.loads(path.read_text())) if path.exists() else Found()

    def leave(self, folder: Path) -> None:
        (folder / "found.json").write_text(json.dumps(vars(self)))

    def add(self, slopes, seen, alone: OneRank) -> None:
        """A step on ranks beside one rank's, made now. Where rounding decides on which side of zero
        a ReLU's operand is, both of its slopes are right, and gradients jump: those of one rank are
        for the sides that ranks saw, then. Raises AssertionError for an operand that more than
        rounding has moved there.
        """
        loss, wanted, wanted_seen = alone.step()
        self.losses.append(loss)
        moved, sides = 0.0, []
        for one, other in zip(seen, wanted_seen, strict=True):
            here, there = np.asarray(one), np.asarray(other)
            sides.append(here > 0)
            moved = max(
                moved, float(np.abs(here - there).max(where=sides[-1] != (there > 0), initial=0))
            )
        assert moved < KINK, moved
        if moved:
            self.off["steps at a kink"] += 1
            wanted = alone.slopes_at(sides)
        found = list(distances(slopes, wanted))
        least = NOTHING * max(most for _, most in found)
        for off, most in found:
            self.off["gradients"] = max(self.off["gradients"], off)
            self.off["relative"] = max(self.off["relative"], off / max(most, least))


def distances(found, wanted) -> Iterator[tuple[float, float]]:
    """Of each leaf the largest difference, and the largest element."""
    for (_, one), (_, other) in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
        expected = np.asarray(other)
        off = np.abs(np.asarray(one) - expected).max()
        yield float(off), float(np.abs(expected).max())


def measured(network: str, steps: int, end: int, folder: Path) -> dict[str, float]:
    """How far ranks are off in so many steps."""
    if network in AT_SIZE:
        return followed(AT_SIZE[network], end, folder, steps)
    return models.check(network, steps)


def run_case(network: str, ranks: int, *how: Any) -> None:
    """Prints what was measured, of ranks that are threads where there are so many."""
    if ranks:
        off = weft.simulate(ranks, measured, network, *how, timeout=600.0)[0]
    else:
        off = measured(network, *how)
    if weft.rank() == 0:
        print(json.dumps(off), flush=True)


# Cases ------------------------


def command_of(transport: str, ranks: int, programs: Path | None) -> list[str]:
    """What starts the ranks of a case, up to its arguments."""
    own = [str(Path(__file__).resolve()), "--threads"]
    if programs is not None:
        several = ["--allow-run-as-root", "--oversubscribe"] if transport == "openmpi" else []
        python = str(programs / "python")
        return [str(programs / "mpiexec"), *several, "-n", str(ranks), python, *own, "0"]
    if transport == "threads":
        return [sys.executable, *own, str(ranks)]
    launch = ["-m", "weft", "launch", "--timeout", "600", "-n", str(ranks)]
    return [sys.executable, *launch, *own, "0"]


def name_of(programs: Path) -> str:
    """That of an MPI, by what its launcher says."""
    said = subprocess.run([programs / "mpiexec", "--version"], capture_output=True, text=True)
    return "openmpi" if "Open" in said.stdout else "mpich"


def run_cases(arguments: argparse.Namespace) -> None:
    """Runs what the file has not, each case in processes of its own."""
    end = time.monotonic() + arguments.seconds
    transports: dict[str, Path | None] = dict.fromkeys(arguments.transports)
    transports |= {name_of(each): each for each in arguments.mpi}
    known = {
        (each["network"], each["ranks"], each["transport"]) for each in lines(arguments.output)
    }
    for network in arguments.networks:
        for ranks in arguments.ranks:
            for transport, programs in transports.items():
                case = {"network": network, "ranks": ranks, "transport": transport}
                if tuple(case.values()) in known or time.monotonic() > end:
                    continue
                command = command_of(transport, ranks, programs)
                off = pieces(command, case, arguments, end)
                if off is not None:
                    line = {**case, "steps": arguments.steps, "off": off}
                    print(json.dumps(line), flush=True)
                    with arguments.output.open("a") as out:
                        out.write(json.dumps(line) + "\n")


def pieces(command: list[str], case: dict, arguments: argparse.Namespace, last: float):
    """How far ranks were off, by processes for a piece of a case's steps each, which leave where
    they were; None where one fails, or where that is not the last step at the end of time.
    """
    folder = arguments.output.with_suffix("") / "-".join(map(str, case.values()))
    folder.mkdir(parents=True, exist_ok=True)
    done, end = Found.behind(folder).steps, arguments.steps * (1 + (case["network"] in AT_SIZE))
    while done < end and time.monotonic() < last:
        done = min(arguments.steps if done < arguments.steps else end, done + arguments.piece)
        own = ["--case", case["network"], "--steps", str(arguments.steps), "--end", str(done)]
        run = subprocess.run(
            [*command, *own, "--folder", str(folder)], stdout=subprocess.PIPE, text=True
        )
        if run.returncode:
            print(f"{case} failed with status {run.returncode}: {run.stdout}", file=sys.stderr)
            return None
        if done == end:
            shutil.rmtree(folder)
            return json.loads(run.stdout.splitlines()[-1])
    return None


def lines(path: Path) -> list[dict]:
    """Those of a file, which need not be there."""
    return [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []


def table(found: list[dict]) -> str:
    """A row for each network and number of ranks, a column for each transport."""
    transports = list(dict.fromkeys(each["transport"] for each in found))
    rows = [f"| | ranks | {' | '.join(transports)} |", "|---" * (2 + len(transports)) + "|"]
    cells = {(each["network"], each["ranks"], each["transport"]): each["off"] for each in found}
    for network, ranks in dict.fromkeys(key[:2] for key in cells):
        shown = (described(cells.get((network, ranks, each))) for each in transports)
        rows.append(f"| {network} | {ranks} | {' | '.join(shown)} |")
    return "\n".join(rows)


def described(off: dict[str, float] | None) -> str:
    """A cell of the table; what is more than it may be has a mark."""
    if off is None:
        return ""
    marks = {what: "!" if most > TOLERANCES.get(what, np.inf) else "" for what, most in off.items()}
    return ", ".join(f"{what} {most:.2g}{marks[what]}" for what, most in off.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("trajectories.jsonl"))
    parser.add_argument("--networks", nargs="*", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--ranks", nargs="*", type=int, default=RANKS)
    parser.add_argument("--transports", nargs="*", default=OWN, choices=OWN)
    parser.add_argument("--mpi", nargs="*", type=Path, default=[])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--piece", type=int, default=STEPS)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    for hidden, kind in {"--case": str, "--threads": int, "--end": int, "--folder": Path}.items():
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        how = arguments.steps, arguments.end, arguments.folder
        run_case(arguments.case, arguments.threads, *how)
        return
    run_cases(arguments)
    print(table(lines(arguments.output)))


if __name__ == "__main__":
    main()
