"""The turns of lleaves beside weft: `PYTHON -m benchmarks.trees.lleaves_times MODEL ROWS`.

lleaves 1.3 wants an llvmlite older than weft's, hence a process of another Python. In: LightGBM's
file, rows as a NumPy file, and on stdin numbers of rows a call, one a line. Out: a line when all
is compiled, then the seconds of a call for each number.
"""

from __future__ import annotations

import sys
import time

import lleaves
import numpy as np

SECONDS = 0.05
POOL = 256


def main() -> None:
    """Compiles and takes turns until stdin ends."""
    rows = np.load(sys.argv[2])
    blocks, whole = (lleaves.Model(model_file=sys.argv[1]) for _ in range(2))
    blocks.compile(use_fp64=False)
    # As its documentation advises for single rows.
    whole.compile(use_fp64=False, fblocksize=whole.num_trees())
    print("ready", flush=True)
    for line in sys.stdin:
        batch = int(line)
        inputs = [rows[i : i + batch] for i in range(0, max(1, POOL * (batch == 1)), batch)]
        model = whole if batch == 1 else blocks
        count, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < SECONDS:
            for each in inputs:
                model.predict(each, n_jobs=1)
            count += len(inputs)
        print(spent / count, flush=True)


if __name__ == "__main__":
    main()
