"""Ensembles of trees by weft, onnxruntime and lleaves: `python -m benchmarks.trees`.

Forests and boosted trees of 30 and of 200 features are fitted to made-up data and converted. One
thread each, in one process, in turns; a call of one row is another row each time, so that no
branch predictor knows the way. Numbers are medians of rounds, in microseconds of a call from
Python. lleaves compiles LightGBM's own files, and has no part in the others.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import lightgbm
import numpy as np
import onnxruntime
import xgboost
from msgspec import Struct
from numpy.typing import NDArray
from sklearn import ensemble, tree

import weft
from benchmarks.options import append_row
from benchmarks.real.classical import converted

Array = NDArray[Any]
Call = Callable[[Array], Any]

FITTED: Final = 4000
"""Rows that an ensemble is fitted to."""

POOL: Final = 256
"""Rows that calls of one row take in turn."""

SECONDS: Final = 0.05
"""Of an engine in a round."""

TOLERANCE: Final = 1e-5
"""What sums of leaves may differ, relative to the largest."""


class Ensemble(Struct, frozen=True):
    """How an estimator is made, and whether it has classes."""

    make: Callable[[], Any]
    classifies: bool = False


ENSEMBLES: Final[Mapping[str, Ensemble]] = {
    "tree": Ensemble(lambda: tree.DecisionTreeRegressor()),
    "tree_classes": Ensemble(lambda: tree.DecisionTreeClassifier(max_depth=12), True),
    "forest": Ensemble(lambda: ensemble.RandomForestRegressor(100, max_depth=8)),
    "forest_classes": Ensemble(lambda: ensemble.RandomForestClassifier(100, max_depth=8), True),
    "forest_deep": Ensemble(lambda: ensemble.RandomForestRegressor(100)),
    "lightgbm": Ensemble(lambda: lightgbm.LGBMRegressor(n_estimators=200, verbose=-1)),
    "lightgbm_classes": Ensemble(
        lambda: lightgbm.LGBMClassifier(n_estimators=200, verbose=-1), True
    ),
    "xgboost": Ensemble(lambda: xgboost.XGBRegressor(n_estimators=300, max_depth=6)),
    "xgboost_classes": Ensemble(lambda: xgboost.XGBClassifier(n_estimators=300, max_depth=6), True),
}


def made_up(features: int, classifies: bool) -> tuple[Array, Array]:
    """Rows and targets; half of the features say something."""
    rng = np.random.default_rng(features)
    rows = rng.normal(size=(FITTED, features)).astype(np.float32)
    known = rows[:, : features // 2]
    score = np.sin(known).sum(1) + known[:, 0] * known[:, 1] + rng.normal(size=FITTED)
    return rows, (score > 0).astype(np.int64) if classifies else score.astype(np.float32)


class Lleaves:
    """Its turns, which another process takes."""

    def __init__(self, python: Path, model: lightgbm.LGBMModel, rows: Array, folder: Path):
        model.booster_.save_model(folder / "model.txt")
        np.save(folder / "rows.npy", rows)
        command = [python, "-m", "benchmarks.trees.lleaves_times"]
        self.process = subprocess.Popen(
            [*command, folder / "model.txt", folder / "rows.npy"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parent.parent,
        )  # fmt: skip
        assert self._line() == "ready", "lleaves compiles"

    def turn(self, batch: int) -> float:
        """Seconds of a call of so many rows."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{batch}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


class Peers(Struct):
    """A turn of each engine, and what compiling took."""

    turns: dict[str, Callable[[int], float]]
    compile_s: float
    off: float
    lleaves: Lleaves | None = None


def peers_of(each: Ensemble, features: int, python: Path | None, folder: Path) -> Peers:
    """Fits, converts and compiles one ensemble for every engine."""
    rows, targets = made_up(features, each.classifies)
    model = each.make().fit(rows, targets)
    file = folder / "model.onnx"
    options = {"zipmap": False} if each.classifies else None
    file.write_bytes(converted(model, rows, options).SerializeToString())
    start = time.perf_counter()
    executable = weft.compile(file, threads=1, cache=False)
    seconds = time.perf_counter() - start
    session = _session(file)
    name = session.get_inputs()[0].name
    given, expected = executable(rows)[-1], np.asarray(session.run(None, {name: rows})[-1])
    off = float(np.abs(np.asarray(given) - expected).max() / np.abs(expected).max())
    calls: dict[str, Call] = {
        "weft": executable,
        "onnxruntime": lambda x: session.run(None, {name: x}),
    }
    peers = Peers({k: partial(_turn, call, rows) for k, call in calls.items()}, seconds, off)
    if python is not None and isinstance(model, lightgbm.LGBMModel):
        peers.lleaves = Lleaves(python, model, rows, folder)
        peers.turns["lleaves"] = peers.lleaves.turn
    return peers


def _session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _turn(call: Call, rows: Array, batch: int) -> float:
    """Seconds of a call, over as many as fill a turn."""
    inputs = [rows[i : i + batch] for i in range(0, POOL if batch == 1 else 1, batch)]
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < SECONDS:
        for each in inputs:
            call(each)
        count += len(inputs)
    return spent / count


def measured(
    name: str, features: int, rounds: int, lleaves: Path | None
) -> Iterator[dict[str, Any]]:
    """A line for one row a call, and one for a thousand."""
    with tempfile.TemporaryDirectory() as folder:
        peers = peers_of(ENSEMBLES[name], features, lleaves, Path(folder))
        for batch in (1, 1000):
            shared = {"model": name, "features": features, "rows": batch}
            compiled = {"compile_s": round(peers.compile_s, 2), "off": float(f"{peers.off:.1g}")}
            yield shared | compiled | _timed(peers.turns, batch, rounds)
        if peers.lleaves is not None:
            peers.lleaves.close()


def _timed(
    turns: Mapping[str, Callable[[int], float]], batch: int, rounds: int
) -> dict[str, float]:
    """Microseconds of a call of each, by the median of its turns, and weft's times faster."""
    taken: dict[str, list[float]] = {name: [] for name in turns}
    for _, (name, turn) in itertools.product(range(rounds), turns.items()):
        taken[name].append(turn(batch))
    times = {name: round(median(each) * 1e6, 2) for name, each in taken.items()}
    return times | {
        f"over_{k}": round(v / times["weft"], 2) for k, v in times.items() if k != "weft"
    }


def main() -> None:
    """Prints a line for each ensemble, number of features and of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ENSEMBLES))
    parser.add_argument("--features", type=int, nargs="*", default=[30, 200])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=Path, help="a file to append the lines to")
    parser.add_argument("--lleaves", type=Path, help="a Python that has lleaves")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for features, name in itertools.product(arguments.features, arguments.names):
        for row in measured(name, features, arguments.rounds, arguments.lleaves):
            print(*(f"{key}={value}" for key, value in row.items()), flush=True)
            assert row["off"] < TOLERANCE, "sums of leaves are onnxruntime's"
            if arguments.record:
                append_row(arguments.record, row)


if __name__ == "__main__":
    main()
