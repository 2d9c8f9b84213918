"""One loaded model, called by many threads at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import weft
from tests.support.small_models import dense_model

CALLERS, CALLS, INPUTS = 8, 1000, 25


def test_eight_threads_get_their_own_results(tmp_path: Path):
    path = tmp_path / "libdense.so"
    weft.compile(dense_model("rows"), prefix="dense", cache=False).export(path)
    model = weft.load(path, threads=2)
    random = np.random.default_rng(7)
    sizes = random.integers(1, 40, CALLERS * INPUTS)
    arrays = [random.random((int(rows), 96), np.float32) for rows in sizes]
    expected = [model(array)[0].tobytes() for array in arrays]
    assert len(set(expected)) == len(expected)

    def call(caller: int) -> int:
        own = range(caller * INPUTS, (caller + 1) * INPUTS)
        rounds = CALLS // INPUTS
        return sum(model(arrays[i])[0].tobytes() == expected[i] for _ in range(rounds) for i in own)

    with ThreadPoolExecutor(CALLERS) as pool:
        assert list(pool.map(call, range(CALLERS))) == [CALLS] * CALLERS
