"""Steps of training against PyTorch's: `python -m benchmarks.training --threads 1,2`.

Engines take turns in processes of their own, start from the same weights, and have to agree on the
losses of the first steps. `peak_mb` is the most memory beyond what the engine itself takes once it
is imported. A line of the result is one network with one number of threads; those in the file
already are not measured again. With `--processor` one thread of each is measured in this process,
by the time of the processor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import weft
from benchmarks.numeric.__main__ import row_of, shown
from benchmarks.numeric.turns import measure_turns
from benchmarks.options import append_row, parse_jobs, parser_of
from benchmarks.run import recorded
from benchmarks.training.cases import ENGINES, TRAININGS, TrainingJob
from weft.bench.rounds import choose_cores, measure_jobs


def main() -> None:
    """Measures what is asked for and is not in the file yet; prints a line for each."""
    arguments = _arguments()
    path: Path = arguments.output
    failed = 0
    for case in TRAININGS:
        asked = [1] if arguments.processor else arguments.threads
        wanted = [n for n in asked if (case.name, n) not in recorded(path)]
        if not wanted or (arguments.networks and case.name not in arguments.networks):
            continue
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            artifact = Path(folder) / "libstep.so"
            step, examples = case.weft()
            weft.step(step, *examples, donate=(0, 1, 2)).export(artifact)
            del step, examples
            engines = case.engines(arguments.engines)
            for threads in wanted:
                cores = choose_cores(threads)
                jobs = {name: TrainingJob(cores, name, case.name, artifact) for name in engines}
                measure = measure_turns if arguments.processor else measure_jobs
                measured = measure(jobs, rounds=arguments.rounds, seconds=arguments.seconds)
                row = row_of(case.name, threads, measured)
                failed += "error" in row
                append_row(path, row)
                print(shown(row), flush=True)
    sys.exit(1 if failed else 0)


def _arguments() -> argparse.Namespace:
    parser = parser_of("training", __doc__, "training-")
    parser.add_argument("--processor", action="store_true")
    return parse_jobs(parser, "networks", [case.name for case in TRAININGS], ENGINES)


if __name__ == "__main__":
    main()
