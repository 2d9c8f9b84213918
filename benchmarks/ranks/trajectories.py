"""Networks on 1, 2 and 4 ranks of each transport beside one rank, 50 steps, in one table:

    PYTHONPATH=. python -m benchmarks.ranks.trajectories -o FILE --mpi /opt/mpich/bin

ResNet-18 (32 images of 64 x 64, statistics of each rank's part) and GPT-2 small (8 x 16 tokens,
Adam with ZeRO-1) are trained by data-parallel ranks: at the parameters of one rank's every step,
ranks' gradients are compared with its own, and the losses of the ranks' own training with its. The
others are small, `tests/weft/distributed/models.py`: GPT-2 and BERT cut by heads, a decoder with a
cache, images streamed through the stages of a ViT.

Each case is a line of the file. Cases that are there are not run again; `--seconds` begins no
further one after so many. Ranks are threads of a process, processes that share memory, and those of
each MPI whose programs are in a folder of `--mpi`, with a Python in which weft is installed.
"""
# pyright: basic

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import weft
from benchmarks.ranks.training import CASES, batch_of, slopes_of, training
from benchmarks.training import networks
from tests.weft.distributed import models
from weft import Mesh, nn
from weft.trees import flatten

AT_SIZE = {"resnet18": "resnet18_64_slow", "gpt2 small": "gpt2_16"}
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


def followed(name: str, steps: int, folder: Path) -> dict[str, float]:
    """How far ranks are off one rank's training at most: in gradients, also relative to the largest
    one of a parameter, and in the last loss; and at how many steps results of a normalisation were
    on the other side of a ReLU's kink.
    """
    ranks, first, batch = weft.ranks(), weft.rank() == 0, batch_of(name)
    mesh, noted = Mesh(data=ranks), []
    network = network_of(name, ranks, noted)
    case = training(name, batch, ranks, network)
    cuts = {key: case.cuts[key] for key in ("x", "y")}
    own = case.on(mesh, 1)[0]
    slopes = weft.step(
        slopes_of(network, noted), *case.held[:2], *batch, threads=1, mesh=mesh, shardings=cuts
    )
    alone = one_rank(name, batch, ranks) if first else None
    parameters, buffers, _ = case.held
    path, found = folder / "parameters.safetensors", Found()
    for _ in range(steps):
        if alone is not None:
            nn.save_tree(path, parameters)
        loss = float(own())  # behind which all ranks see the file
        if not first:
            parameters = nn.load_tree(path, parameters)
        _, meshed, _, seen = slopes(parameters, buffers, *batch)  # when all have read it
        if alone is not None:
            parameters, *wanted = alone()
            found.add(loss, meshed, seen, *wanted)
    return found.off


def one_rank(name: str, batch: Sequence, ranks: int):
    """What makes one rank's next step, with the statistics of so many ranks' parts: its parameters
    behind it, its loss, its gradients, and what its ReLUs were given.
    """
    noted, optimizer = [], CASES[name].optimizer()
    network = network_of(name, ranks, noted)
    slopes_of_batch, held = slopes_of(network, noted), training(name, batch, 1, network).held

    def step(parameters, buffers, state, x, y):
        value, slopes, after, seen = slopes_of_batch(parameters, buffers, x, y)
        return value, *optimizer.update(parameters, slopes, state), after, slopes, seen

    made = weft.step(step, *held, *batch, donate=(0, 1, 2), threads=1)

    def run():
        loss, held[0], held[2], held[1], slopes, seen = made(*held, *batch)
        return held[0], float(loss), slopes, seen

    return run


def network_of(name: str, ranks: int, noted: list):
    """That of a case, which notes what its ReLUs are given."""

    def activation(x):
        noted.append(x)
        return nn.relu(x)

    if name == AT_SIZE["resnet18"]:
        return networks.ResNet(ranks, activation)
    return CASES[name].network(ranks)


class Found:
    """How far ranks were off so far."""

    def __init__(self) -> None:
        self.off = {"gradients": 0.0, "relative": 0.0, "last loss": 0.0, "steps at a kink": 0}

    def add(self, loss: float, slopes, seen, expected: float, wanted, wanted_seen) -> None:
        """A step on ranks beside one rank's. Where rounding decides on which side of zero a ReLU's
        operand is, both of its slopes are right, and gradients jump: such steps are counted
        instead. Raises AssertionError for an operand that more than rounding has moved there.
        """
        self.off["last loss"] = abs(loss - expected)
        moved = 0.0
        for one, other in zip(seen, wanted_seen, strict=True):
            here, there = np.asarray(one), np.asarray(other)
            apart = (here > 0) != (there > 0)
            moved = max(moved, float(np.abs(np.where(apart, here - there, 0)).max()))
        assert moved < KINK, moved
        if moved:
            self.off["steps at a kink"] += 1
            return
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


def measured(network: str, steps: int, folder: Path) -> dict:
    """A line of the table."""
    begin = time.process_time()
    if network in AT_SIZE:
        found = followed(AT_SIZE[network], steps, folder)
    else:
        found = models.check(network, steps)
    return {"off": found, "processor_s": round(time.process_time() - begin, 1)}


def run_case(network: str, ranks: int, steps: int, folder: Path) -> None:
    """Prints the line of a case; of ranks that are threads where there are so many."""
    if ranks:
        line = weft.simulate(ranks, measured, network, steps, folder, timeout=600.0)[0]
    else:
        line = measured(network, steps, folder)
    if weft.rank() == 0:
        print(json.dumps(line), flush=True)


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
                with tempfile.TemporaryDirectory() as folder:
                    own = ["--case", network, "--steps", str(arguments.steps), "--folder", folder]
                    done = subprocess.run([*command, *own], stdout=subprocess.PIPE, text=True)
                said = done.stdout.splitlines()
                found = json.loads(said[-1]) if not done.returncode else {"failed": said[-1:]}
                line = {**case, "steps": arguments.steps, **found}
                print(json.dumps(line), flush=True)
                if not done.returncode:
                    with arguments.output.open("a") as out:
                        out.write(json.dumps(line) + "\n")


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
    parser.add_argument("--seconds", type=float, default=float("inf"))
    for hidden, kind in {"--case": str, "--threads": int, "--folder": Path}.items():
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        run_case(arguments.case, arguments.threads, arguments.steps, arguments.folder)
        return
    run_cases(arguments)
    print(table(lines(arguments.output)))


if __name__ == "__main__":
    main()
