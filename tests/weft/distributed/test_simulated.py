"""Compiled programs on ranks that are threads of this process, against the evaluator on one. More
by `python -m tests.weft.distributed.test_simulated 200`.
"""
# pyright: basic

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.support.random_meshes import RandomProgram, parts_of
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import WeightStore
from weft.distributed.pipeline import join_stages
from weft.distributed.world import rank, simulate, world


@pytest.mark.parametrize("seed", [1, 4, 7, 12, 14, 23])
def test_ranks_compute_what_one_does(seed: int):
    check(RandomProgram(seed))


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_stages_compute_what_one_rank_does(seed: int):
    check(RandomProgram(seed, stages=2 + seed % 2))


def check(program: RandomProgram) -> None:
    expected = evaluate_block(program.function.body.block, program.inputs)
    mesh = read_mesh(program.mesh)
    assert mesh is not None
    outputs = [each.data for each in program.function.attributes["output_names"]]
    options = Options(mesh=program.mesh, shard=program.shard)
    compiled = compile_module(program.module, WeightStore(), options)

    def run() -> None:
        number = rank()
        executable = compiled.executable(threads=1)
        join_stages(executable, world())
        own = parts_of(program.inputs, program.names, program.shard, mesh, number)
        first, again = executable(*own), executable(*own)
        wanted = parts_of(expected, outputs, program.shard, mesh, number)
        for one, other, third in zip(first, wanted, again, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
            assert one.tobytes() == third.tobytes()

    simulate(mesh.ranks, run)


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        try:
            check(RandomProgram(number, operators=4 + number % 12, stages=1 + number % 4))
        except Exception as error:
            raise SystemExit(f"seed {number}: {type(error).__name__}: {error}") from error
