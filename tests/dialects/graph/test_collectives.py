"""Collectives of all ranks: their references, types and derivatives."""
# pyright: basic

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.differentiate.cotangents import cotangents
from weft.dialects.errors import TypeInferenceError, WeftError
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, F64, tensor
from weft.dialects.graph.mesh.attributes import MeshAttr
from weft.dialects.graph.mesh.collectives import (
    AllGatherOp,
    AllReduceOp,
    RankIndexOp,
    ReduceScatterOp,
    ShardRowOp,
    ShardSliceOp,
)
from weft.dialects.graph.mesh.evaluate_ranks import evaluate_ranks

MESH = MeshAttr((("a", 2), ("b", 3)))
RANKS = range(MESH.ranks)
COLLECTIVES = {
    "all_reduce": (AllReduceOp, {"reduction": "sum"}),
    "all_gather": (AllGatherOp, {"axis": 1}),
    "reduce_scatter": (ReduceScatterOp, {"axis": 1, "reduction": "sum"}),
    "shard_slice": (ShardSliceOp, {"axis": 1}),
    "shard_row": (ShardRowOp, {}),
}
GROUPS = [("a",), ("b",), ("b", "a")]


def applied(name: str, axes, x, **more):
    """The results of all ranks for their operands."""
    cls, properties = COLLECTIVES[name]
    block = Block(arg_types=[tensor(x[0].shape, F64)])
    op = cls.of(block.args[0], MESH, axes, **properties, **more)
    block.add_ops([op, ReturnOp(op.result)])
    op.verify_()
    return [each[0] for each in evaluate_ranks(block, [[each] for each in x])]


def product(one, other) -> float:
    return sum(np.sum(a * b) for a, b in zip(one, other, strict=True))


def random(shape=(2, 6)):
    numbers = np.random.default_rng(0)
    return [numbers.normal(size=shape) for _ in RANKS]


@pytest.mark.parametrize("axes", GROUPS)
def test_groups_have_the_ranks_that_differ_along_their_axes(axes):
    x = random()
    for rank, result in enumerate(applied("all_gather", axes, x)):
        group = MESH.group(rank, axes)
        assert [MESH.index(each, axes) for each in group] == list(range(len(group)))
        np.testing.assert_array_equal(result, np.concatenate([x[each] for each in group], 1))
    assert MESH.group(4, ("a",)) == [1, 4]
    assert MESH.group(4, ("b",)) == [3, 4, 5]
    assert MESH.group(4, ("b", "a")) == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("axes", GROUPS)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_cotangents_are_those_of_the_linear_map(name: str, axes):
    """Of values that vary: the sum over ranks of `c . f(x)` is that of `f^T(c) . x`."""
    x = random((MESH.parts(axes), 6))
    y = applied(name, axes, x)
    c = [np.random.default_rng(rank + 9).normal(size=each.shape) for rank, each in enumerate(y)]
    pulled = pulled_back(name, axes, x, c)
    products = [
        sum(np.sum(a * b) for a, b in zip(*pair, strict=True)) for pair in ((c, y), (pulled, x))
    ]
    assert products[0] == pytest.approx(products[1])


@pytest.mark.parametrize("name", ["all_reduce", "all_gather"])
def test_the_cotangent_of_a_shared_value_counts_once(name: str):
    """The result is one value of the group, and so is its cotangent: no factor of the ranks."""
    x, axes = random(), ("b",)
    y = applied(name, axes, x)
    c = [np.random.default_rng(MESH.group(rank, axes)[0]).normal(size=y[0].shape) for rank in RANKS]
    pulled = pulled_back(name, axes, x, c, replicated=True)
    for group in {tuple(MESH.group(rank, axes)) for rank in RANKS}:
        whole = np.sum(c[group[0]] * y[group[0]])
        assert whole == pytest.approx(sum(np.sum(pulled[rank] * x[rank]) for rank in group))


def pulled_back(name: str, axes, x, c, **more):
    cls, properties = COLLECTIVES[name]
    block = Block(arg_types=[tensor(x[0].shape, F64), tensor(c[0].shape, F64)])
    op = cls.of(block.args[0], MESH, axes, **properties, **more)
    block.add_op(op)
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    (pulled,) = cotangents(b, [op.result], [block.args[1]], [block.args[0]])
    block.add_op(ReturnOp(pulled))
    return [
        each[0] for each in evaluate_ranks(block, [list(pair) for pair in zip(x, c, strict=True)])
    ]


def test_a_greatest_value_has_no_derivative():
    block = Block(arg_types=[tensor((2,), F64)])
    op = AllReduceOp.of(block.args[0], MESH, ("a",), reduction="max")
    block.add_op(op)
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    with pytest.raises(WeftError, match="requires a sum to be differentiated, got a max"):
        op.vjp(op.result, b)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda x: AllReduceOp.of(x, MESH, ("c",), reduction="sum"), "axes of the mesh"),
        (lambda x: AllReduceOp.of(x, MESH, ("a", "a"), reduction="sum"), "axes of the mesh"),
        (lambda x: AllReduceOp.of(x, MESH, ("a",), reduction="mean"), "one of sum, max, min"),
        (lambda x: AllGatherOp.of(x, MESH, ("a",), axis=2), "an axis from 0 to 1"),
        (lambda x: ShardSliceOp.of(x, MESH, ("b",), axis=0), "a dim that is a multiple of 3"),
        (lambda x: ShardRowOp.of(x, MESH, ("b",)), "3 rows"),
        (lambda x: RankIndexOp.of(None, MESH, ("x",)), "axes of the mesh"),
    ],
)
def test_wrong_collectives_are_refused(make, rule: str):
    with pytest.raises(TypeInferenceError, match=rule):
        make(Block(arg_types=[tensor((2, 6), F64)]).args[0])


def test_bools_are_not_reduced():
    x = Block(arg_types=[tensor((2,), BOOL)]).args[0]
    with pytest.raises(TypeInferenceError, match="requires numbers"):
        AllReduceOp.of(x, MESH, ("a",), reduction="max")
