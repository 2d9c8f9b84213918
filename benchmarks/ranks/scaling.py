"""Steps on 2, 4 and 8 ranks of one thread that share memory, measured and predicted, what they
send, and all-reduce of 16 MiB beside gloo; what fits into so many seconds, a line of JSON for each:

    PYTHONPATH=. python -m benchmarks.ranks.scaling --ranks 8,4,2 --seconds 150 -o scaling.jsonl

Data-parallel training has so many examples for each rank: ResNet-18 with images of 64 x 64, and
GPT-2 of two layers with ZeRO-1. A layer of BERT-large is cut by heads and hidden units. Each runs
over memory and over a slow wire, in turns with one rank that does its own part alone, and with all
ranks that do so at once until the slowest is done (of BERT the whole layer). Predicted are steps of
a rank's scheduled program, whose calls take as many times what the model of the CPU says as they do
alone, on one rank (`one`) and on all at once (`all`).
"""
# pyright: basic

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

import weft
from benchmarks.ranks import bert, training
from benchmarks.ranks.all_reduce import times_of_sums
from benchmarks.ranks.exchange import Exchange
from benchmarks.ranks.throttled import planned_of, written
from weft import Mesh
from weft.compiler.program.predict_step import Program, predict_step
from weft.compiler.target.wire import MEMORY, Wire
from weft.tracing import donations

SLOW = Wire(100e-6, 1e9)
MEBIBYTES = 16
TURNS = 11
ROWS = {"resnet18": 8, "gpt2": 2}
"""Of each rank."""
NAMES = {"resnet18": "resnet18_64", "gpt2": "gpt2_2"}
CASES = (*ROWS, "bert layer")
FOR_PREDICTIONS = 45.0
"""Seconds that are kept for them."""


# Cases: what runs on ranks, what runs alone, and the programs of both ------------------------


def trained(name: str, ranks: int) -> training.Training:
    """A step of training on so many ranks."""
    rows, draw = ROWS[name] * ranks, np.random.default_rng(0)
    if name == "resnet18":
        batch = draw.random((rows, 3, 64, 64), np.float32), draw.integers(0, 1000, rows)
    else:
        batch = draw.integers(0, 4096, (2, rows, 128))
    return training.training(NAMES[name], [np.ascontiguousarray(each) for each in batch], ranks)


def runs_of(name: str) -> dict[str, Callable[[], object]]:
    """What runs on all ranks together, and on each alone."""
    ranks = weft.ranks()
    if name in ROWS:
        together = trained(name, ranks).on(Mesh(data=ranks), 1)[0]
        return {"together": together, "alone": trained(name, 1).on(None, 1)[0]}
    together, alone = bert.runs()
    return {"together": together, "alone": alone}


def programs_of(name: str, ranks: int) -> tuple[Program, Program]:
    """The scheduled programs of a rank alone and of one among others."""
    found: list[Program] = []
    for count in (1, ranks):
        meshed = {}
        if name in ROWS:
            case = trained(name, count)
            given, function, donate = (*case.held, *case.batch), case.step, (0, 1, 2)
            cuts = case.cuts
        else:
            given, function, donate = (bert.weights(), bert.tokens()), bert.layer, ()
            cuts = bert.CUTS
        if count > 1:
            axis = "data" if name in ROWS else "model"
            meshed = {"mesh": f"{axis}={count}", "shard": written(cuts)}
        model = donations.donating(function, *given, donate=donate, name="step")[0]
        found.append(planned_of(model, prefix="step", **meshed))
    return found[0], found[1]


# On the ranks ------------------------


def measured(name: str, exchange: Exchange) -> dict:
    """Milliseconds of a step in each way, medians, by the wall and of processor time of all ranks,
    and what a rank sends in one.
    """
    ways, first = runs_of(name), weft.rank() == 0
    runs: dict[str, tuple[Callable[[], object], Wire, bool]] = {
        "one": (ways["alone"], MEMORY, not first),
        "all": (ways["alone"], MEMORY, False),
        "memory": (ways["together"], MEMORY, False),
        "slow": (ways["together"], SLOW, False),
    }
    if name == "resnet18" and training.start_gloo():
        batch = trained(name, weft.ranks()).batch
        peer = training.of_torch(NAMES[name], batch, weft.ranks(), 1)
        runs["torch"] = (peer, MEMORY, False)
    times: dict[str, list[float]] = {way: [] for way in runs}
    processors: dict[str, list[float]] = {way: [] for way in runs}
    for turn in range(TURNS + 1):
        for way, (run, wire, idle) in runs.items():
            exchange.throttle(wire)
            exchange.total(0.0)
            begin, own = time.perf_counter(), time.process_time()
            if not idle:
                run()
            own = time.process_time() - own
            exchange.throttle(MEMORY)
            if way != "one":  # till the slowest rank is done
                exchange.total(0.0)
            wall, together = time.perf_counter() - begin, exchange.total(own)
            if turn:
                times[way].append(1e3 * wall)
                processors[way].append(1e3 * together)
    sent = exchange.sent(ways["together"])
    exchange.total(0.0)
    middle = {way: statistics.median(each) for way, each in times.items()}
    least = {way: min(each) for way, each in times.items()}
    own = {way: statistics.median(each) for way, each in processors.items()}
    return {"case": name, "ms": middle, "least_ms": least, "processor_ms": own, "sent": sent}


def run_ranks(path: Path, names: Sequence[str], end: float) -> None:
    """Measures on this rank; the first one writes a line for sums and for each case."""
    exchange = Exchange()
    lines: list[dict] = []

    def write(line: dict) -> None:
        lines.append({"ranks": weft.ranks(), "cores": os.cpu_count(), **line})
        if weft.rank() == 0:
            with path.open("a") as out:
                out.write(json.dumps(lines[-1]) + "\n")
            print(json.dumps(lines[-1]), flush=True)

    found = times_of_sums(MEBIBYTES, 20)
    sums = {name: [statistics.median(each[n] for each in times) * 1e3 for n in (0, 1)]
            for name, times in found.items() if times}  # fmt: skip
    write({"case": f"all-reduce of {MEBIBYTES} MiB", "wall_and_processor_ms": sums})
    for name in names:
        left = exchange.total(end - time.time()) / weft.ranks()
        write(measured(name, exchange) if left > 0 else {"case": name, "left_out": "no time"})


# Predictions ------------------------


def predict(line: dict) -> list[dict]:
    """What steps of a measured case are predicted to take, and bytes beside those counted."""
    name, ranks, ms = line["case"], line["ranks"], line["ms"]
    alone, meshed = programs_of(name, ranks)
    expected = predict_step(alone, MEMORY).step * 1e3
    found: list[dict] = []
    for way, wire in {"memory": MEMORY, "slow": SLOW}.items():
        for scaled in ("one", "all"):
            made = predict_step(replace(meshed, scale=ms[scaled] / expected), wire)
            rank, step = made.ranks[0], made.step * 1e3
            counted = sum(bytes for _, bytes in line["sent"].values())
            found.append({
                "case": name, "ranks": ranks, "wire": way, "scaled_by": scaled,
                "measured_ms": round(ms[way], 2), "predicted_ms": round(step, 2),
                "measured_over_predicted": round(ms[way] / step, 3),
                "waiting_ms": round(1e3 * (rank.latency + rank.bytes), 2),
                "predicted_sent": rank.sent, "counted_sent": counted,
            })  # fmt: skip
    return found


def predict_all(path: Path, end: float) -> None:
    """Predicts each measured case in a process of its own, side by side; adds lines to the file."""
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    command = [sys.executable, "-m", "benchmarks.ranks.scaling", "--predict"]
    running = [
        subprocess.Popen([*command, json.dumps(line)], stdout=subprocess.PIPE, text=True)
        for line in lines
        if "ms" in line
    ]
    with path.open("a") as out:
        for each in running:
            try:
                text, _ = each.communicate(timeout=max(1.0, end - time.time()))
            except subprocess.TimeoutExpired:
                each.kill()
                text = json.dumps({"case": "a prediction", "left_out": "no time"}) + "\n"
            out.write(text)
            print(text, end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="8,4,2")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("scaling.jsonl"))
    parser.add_argument("--predict", help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.predict:
        print("\n".join(map(json.dumps, predict(json.loads(arguments.predict)))))
        return
    if arguments.end:
        run_ranks(arguments.output, arguments.cases.split(","), arguments.end)
        return
    begin = time.time()
    end = begin + arguments.seconds
    path = arguments.output.resolve()
    launch = [sys.executable, "-m", "weft", "launch", "--timeout", "300", "-n"]
    last = end - FOR_PREDICTIONS
    own = [__file__, "--cases", arguments.cases, "-o", str(path), "--end", str(last)]
    for count in arguments.ranks.split(","):
        if time.time() < last:
            print(f"{count} ranks, {time.time() - begin:.0f} s", flush=True)
            subprocess.run([*launch, count, *own], check=True)
    print(f"predictions, {time.time() - begin:.0f} s", flush=True)
    predict_all(path, end)


if __name__ == "__main__":
    main()
