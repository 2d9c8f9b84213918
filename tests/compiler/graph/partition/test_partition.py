"""Ranks compute together what one rank computes: graphs before and behind the passes that
partition, in the evaluator. More by `python -m tests.compiler.graph.partition.test_partition 1000`.
"""
# pyright: basic

from __future__ import annotations

import sys

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp

from tests.support.random_meshes import RandomProgram, parts_of
from weft.compiler.graph.partition.bucket_collectives import BucketCollectivesPass
from weft.compiler.graph.partition.decompose_collectives import DecomposeCollectivesPass
from weft.compiler.graph.partition.partition import PartitionPass
from weft.compiler.graph.partition.propagate_shardings import PropagateShardingsPass
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.simplify_collectives import SimplifyCollectivesPass
from weft.dialects.context import WeftContext
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.mesh.evaluate_ranks import evaluate_ranks
from weft.dialects.module_attributes import CodeOptions, set_code_options

PASSES = (
    PropagateShardingsPass, PartitionPass, SimplifyCollectivesPass, DecomposeCollectivesPass,
    BucketCollectivesPass,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_ranks_compute_what_one_does(seed: int):
    check(RandomProgram(seed))


def check(program: RandomProgram) -> None:
    expected = evaluate_block(program.function.body.block, program.inputs)
    mesh = read_mesh(program.mesh)
    assert mesh is not None
    outputs = names(program.function, "output_names")
    set_code_options(program.module, CodeOptions(mesh=program.mesh, shard=tuple(program.shard)))
    for each in PASSES:
        each().apply(WeftContext(), program.module)
        program.module.verify()
    ranks = range(mesh.ranks)
    arguments = [parts_of(program.inputs, program.names, program.shard, mesh, r) for r in ranks]
    found = evaluate_ranks(program.function.body.block, arguments)
    for rank, results in enumerate(found):
        wanted = parts_of(expected, outputs, program.shard, mesh, rank)
        for one, other in zip(results, wanted, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def names(function: FuncOp, key: str) -> list[str]:
    listed = function.attributes[key]
    assert isinstance(listed, ArrayAttr)
    return [each.data for each in listed if isinstance(each, StringAttr)]


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        try:
            check(RandomProgram(number, operators=4 + number % 12))
        except Exception as error:
            raise SystemExit(f"seed {number}: {type(error).__name__}: {error}") from error
