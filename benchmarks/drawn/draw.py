"""`python -m benchmarks.drawn.draw CHECKOUTS`: draws the list of functions, see the package."""

from __future__ import annotations

import ast
import json
import random
import resource
import sys
import tempfile
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from benchmarks.drawn import inputs
from benchmarks.drawn.extract import HERE, Function, functions, paths, repositories

COUNT, MOST_OF_ONE, SEED = 500, 30, 23
MOST_MEMORY = 4 << 30


def all_functions(checkouts: Path) -> list[Function]:
    """Everything that may be drawn, in one order, no text twice."""
    found = [
        function
        for repository in repositories()
        for path in paths(checkouts, repository)
        for function in functions(checkouts, repository, path)
    ]
    distinct: dict[str, Function] = {}
    for each in found:
        distinct.setdefault(ast.dump(ast.parse(each.text)), each)
    return list(distinct.values())


def seed_of(function: Function) -> str | None:
    """The seed of a function's inputs, in a process that can write little and take little."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        try:
            found = inputs.loaded(function.text, Path(folder) / "drawn.py", function.name)
        except Exception:  # what a file needs is not all there
            return None
        return inputs.search(found, function.name)


def main() -> None:
    """Writes the list."""
    candidates = all_functions(Path(sys.argv[1]))
    random.Random(SEED).shuffle(candidates)
    sys.stderr.write(f"{len(candidates)} functions may be drawn\n")
    counts: Counter[str] = Counter()
    taken: list[str] = []
    tried = 0
    with Pool(2, maxtasksperchild=20) as pool:
        for function, seed in zip(candidates, pool.imap(seed_of, candidates), strict=True):
            if counts[function.repository] >= MOST_OF_ONE:
                continue
            tried += 1
            if seed is None:
                continue
            counts[function.repository] += 1
            row = dict(zip(Function._fields[:3], function[:3], strict=True), seed=seed)
            taken.append(json.dumps(row))
            if len(taken) == COUNT:
                break
        pool.terminate()
    (HERE / "functions.jsonl").write_text("\n".join(taken) + "\n")
    sys.stderr.write(f"{len(taken)} drawn, {tried - len(taken)} without inputs: {dict(counts)}\n")


if __name__ == "__main__":
    main()
