"""Reductions, contractions, windows, normalisations: what they refuse, fold and do at any size."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from tests.support import oracle
from tests.support.sample import Sample
from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph import OPS_BY_NAME, DimsOp, GraphOp, ReshapeOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dim_values import DimValues
from weft.dialects.graph.core.types import F32, I32, I64, TensorType, tensor
from weft.dialects.graph.core.window import same_pads, transposed_pads
from weft.dialects.weights import Array


def op_of(name: str, *kinds: TensorType, **attributes) -> GraphOp:
    """The operator on arguments of these types."""
    block = Block(arg_types=kinds)
    op = OPS_BY_NAME[name].of(*block.args, **attributes)
    block.add_op(op)
    return op


def f32(*dims: int | str) -> TensorType:
    return tensor(dims, F32)


def lowered(op: GraphOp, operand: Array) -> Array:
    """The one result of the operator's naive loops."""
    (result,) = oracle.run_lowered(op, [operand], oracle.references(op, [operand]))
    return result


POOL = {"kernel": [2], "ceil_mode": False}
REFUSED = [
    ("reduce_sum", [f32(2, 3)], {"axes": [2], "keepdims": True}, r"axes from -2 to 1, got \[2\]"),
    ("reduce_max", [f32(2, 3)], {"axes": [0, -2], "keepdims": True}, "axes that differ"),
    ("reduce_l2", [tensor([2], I32)], {"axes": [0], "keepdims": True}, "got i32"),
    (
        "arg_max",
        [f32(2, 0)],
        {"axis": 1, "keepdims": True, "select_last_index": False},
        "an axis with elements",
    ),
    ("softmax", [f32(2, 3)], {"axis": 2}, "an axis from -2 to 1, got 2"),
    ("softmax", [f32()], {"axis": 0}, "requires an axis"),
    ("matmul", [f32(2, 3), f32(4, 2)], {}, "an inner dim that both operands share"),
    ("matmul", [f32(), f32(4, 2)], {}, "rank 1 or more"),
    (
        "gemm",
        [f32(2, 3), f32(3, 4), f32(5)],
        {"alpha": 1.0, "beta": 1.0, "transpose_a": False, "transpose_b": False},
        "requires",
    ),
    (
        "gemm",
        [tensor([2, 3], I32), tensor([3, 4], I32)],
        {"alpha": 0.5, "beta": 1.0, "transpose_a": False, "transpose_b": False},
        "whole alpha and beta",
    ),
    ("conv", [f32(1, 4, 8), f32(6, 4, 3)], {"group": 2}, "channels over the groups"),
    ("conv", [f32(1, 4, 8), f32(5, 2, 3)], {"group": 2}, "equally many filters"),
    ("conv", [f32(1, 4, 8), f32(6, 4, 9)], {"group": 1}, "a window within the padded input"),
    ("conv", [f32(1, 4, 8), f32(6, 4, 3), f32(4)], {"group": 1}, "a bias of 6 elements"),
    ("conv", [f32(1, 4, 8), f32(6, 4, 3)], {"group": 1, "strides": [0]}, "positive strides"),
    ("conv", [f32(1, 4, 8), f32(6, 4, 3)], {"group": 1, "pads": [-1, 0]}, "pads of 0 or more"),
    ("conv", [f32(1, 4, 8), f32(6, 4, 3, 3)], {"group": 1}, "of one rank"),
    ("conv_transpose", [f32(1, 4, 8), f32(3, 6, 3)], {"group": 1}, "the image's channels"),
    (
        "conv_transpose",
        [f32(1, 4, 2), f32(4, 6, 1)],
        {"group": 1, "pads": [1, 1]},
        "a result that the pads leave",
    ),
    ("max_pool", [f32(1, 4, 8)], {**POOL, "pads": [2, 0]}, "pads narrower than the window"),
    ("max_pool", [f32(4, 8)], POOL, "rank 3 or more"),
    ("lp_pool", [f32(1, 4, 8)], {**POOL, "p": 0}, "a positive p"),
    ("layer_norm", [f32(2, 3), f32(2)], {"axis": -1, "epsilon": 1e-5}, "requires"),
    (
        "group_norm",
        [f32(2, 6), f32(6), f32(6)],
        {"groups": 4, "epsilon": 1e-5},
        "groups of equally many channels, got 4",
    ),
    ("instance_norm", [f32(2, 6, 3), f32(6), f32(5)], {"epsilon": 1e-5}, "per channel"),
    ("lp_norm", [f32(2, 6)], {"axis": 0, "p": 3}, "p of 1 or 2, got 3"),
]


@pytest.mark.parametrize(("name", "kinds", "attributes", "message"), REFUSED)
def test_operator_refuses(name: str, kinds: list[TensorType], attributes: dict, message: str):
    with pytest.raises(TypeInferenceError, match=f"graph.{name} requires") as caught:
        op_of(name, *kinds, **attributes)
    caught.match(message)


UNKNOWN = tensor(None, F32)


@pytest.mark.parametrize(
    ("name", "count", "attributes"),
    [
        ("reduce_mean", 1, {"axes": [0], "keepdims": False}),
        ("softmax", 1, {"axis": -1}),
        ("matmul", 2, {}),
        ("conv", 3, {"group": 1}),
        ("conv_transpose", 2, {"group": 1}),
        ("max_pool", 1, POOL),
        ("global_average_pool", 1, {}),
        ("layer_norm", 3, {"axis": -1, "epsilon": 1e-5}),
        ("batch_norm", 5, {"epsilon": 1e-5}),
        ("lrn", 1, {"size": 3, "alpha": 0.1, "beta": 0.5, "bias": 1.0}),
    ],
)
def test_unknown_rank_stays_unknown(name: str, count: int, attributes: dict):
    op = op_of(name, *[UNKNOWN] * count, **attributes)
    assert [result.type for result in op.results] == [UNKNOWN]


def test_reduction_over_dims_of_one_folds_to_a_reshape():
    op = op_of("reduce_mean", f32("n", 1, 3), axes=[1], keepdims=False)
    folded = op.fold()
    assert isinstance(folded, ReshapeOp)
    assert folded.result_type == f32("n", 3)


def test_sum_of_squares_over_dims_of_one_does_not_fold():
    assert op_of("reduce_sum_square", f32(1, 3), axes=[0], keepdims=False).fold() is None


def test_plain_gemm_folds_to_matmul():
    attributes = {"alpha": 1.0, "beta": 0.5, "transpose_a": False}
    plain = op_of("gemm", f32(2, 3), f32(3, 4), transpose_b=False, **attributes)
    turned = op_of("gemm", f32(2, 3), f32(4, 3), transpose_b=True, **attributes)
    folded = plain.fold()
    assert isinstance(folded, OPS_BY_NAME["matmul"])
    assert turned.fold() is None


def test_global_average_pool_folds_to_a_mean_over_space():
    op = op_of("global_average_pool", f32("n", 4, 7, 7))
    folded = op.fold()
    assert isinstance(folded, OPS_BY_NAME["reduce_mean"])
    assert folded.result_type == op.result_type


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reduce_prod", Expr.of("n") * 6),
        ("reduce_sum", Expr.of("n") + 6),
        ("reduce_max", maximum(["n", 6])),
        ("reduce_min", minimum(["n", 6])),
    ],
)
def test_reduction_of_dims_is_an_expression(name: str, expected: Expr):
    block = Block()
    dims = DimsOp.of(values=(Expr.of("n"), Expr.of(6)))
    op = OPS_BY_NAME[name].of(dims.result, axes=[0], keepdims=False)
    block.add_ops([dims, op])
    assert DimValues().of(op.results[0]) == [expected]


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("reduce_max", np.float32, -np.inf),
        ("reduce_min", np.float32, np.inf),
        ("reduce_max", np.int8, -128),
        ("reduce_min", np.uint8, 255),
        ("reduce_max", np.bool_, False),
        ("reduce_mean", np.float32, np.nan),
        ("reduce_log_sum", np.float32, -np.inf),
        ("reduce_log_sum_exp", np.float32, -np.inf),
    ],
)
def test_reduction_over_nothing(name: str, dtype: type, expected: float):
    operand = np.zeros((0, 2), dtype)
    op = oracle.operator(OPS_BY_NAME[name], Sample([operand], {"axes": [0], "keepdims": False}))
    wanted = np.full(2, expected, dtype)
    np.testing.assert_array_equal(oracle.references(op, [operand])[0], wanted)
    np.testing.assert_array_equal(lowered(op, operand), wanted)


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_l2", "reduce_prod"])
def test_nan_stays_in_a_reduction(name: str):
    operand = np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)
    op = oracle.operator(OPS_BY_NAME[name], Sample([operand], {"axes": [1], "keepdims": False}))
    assert np.isnan(lowered(op, operand)).tolist() == [True, False]


def test_log_sum_exp_of_infinities_is_their_greatest():
    operand = np.array([[-np.inf, -np.inf], [np.inf, 0], [1000, -np.inf]], np.float32)
    cls = OPS_BY_NAME["reduce_log_sum_exp"]
    op = oracle.operator(cls, Sample([operand], {"axes": [1], "keepdims": False}))
    wanted = np.array([-np.inf, np.inf, 1000], np.float32)
    np.testing.assert_array_equal(lowered(op, operand), wanted)


def test_softmax_of_huge_numbers_is_finite():
    operand = np.array([[3e38, 3e38, -3e38]], np.float32)
    op = oracle.operator(OPS_BY_NAME["softmax"], Sample([operand], {"axis": -1}))
    np.testing.assert_array_equal(lowered(op, operand), [[0.5, 0.5, 0]])


@pytest.mark.parametrize(
    ("operand", "expected"),
    [([2.0, 3.0, 4.0], [12, 8, 6]), ([2.0, 0.0, 4.0], [0, 8, 0]), ([0.0, 0.0, 4.0], [0, 0, 0])],
)
def test_derivative_of_a_product_with_zeros(operand: list[float], expected: list[float]):
    array = np.array(operand)
    cls = OPS_BY_NAME["reduce_prod"]
    op = oracle.operator(cls, Sample([array], {"axes": [0], "keepdims": False}))
    (gradient,) = oracle.gradients(op, [array], [np.array(1.0)])
    np.testing.assert_allclose(gradient, expected)


def test_derivative_of_a_maximum_is_shared_among_equals():
    array = np.array([[1.0, 3.0, 3.0], [5.0, 2.0, 1.0]])
    cls = OPS_BY_NAME["reduce_max"]
    op = oracle.operator(cls, Sample([array], {"axes": [1], "keepdims": False}))
    (gradient,) = oracle.gradients(op, [array], [np.array([2.0, 3.0])])
    np.testing.assert_array_equal(gradient, [[0, 1, 1], [3, 0, 0]])


SYMBOLIC = [
    ("reduce_mean", [("n", 3)], {"axes": [0], "keepdims": False}, {"n": 4}),
    ("softmax", [("n", "m")], {"axis": -1}, {"n": 2, "m": 5}),
    ("matmul", [("n", "m", 3), (3, "k")], {}, {"n": 2, "m": 4, "k": 5}),
    ("layer_norm", [("n", "m"), ("m",)], {"axis": -1, "epsilon": 1e-5}, {"n": 3, "m": 4}),
    (
        "conv",
        [("n", 4, "h"), (2, 2, 3)],
        {"group": 2, "strides": [2], "pads": [1, 2]},
        {"n": 2, "h": 6},
    ),
    (
        "conv_transpose",
        [("n", 2, "h"), (2, 3, 2)],
        {"group": 1, "strides": [3], "pads": [2, 1]},
        {"n": 2, "h": 3},
    ),
    (
        "average_pool",
        [("n", 1, "h")],
        {
            "kernel": [3],
            "strides": [2],
            "pads": [1, 0],
            "ceil_mode": True,
            "count_include_pad": False,
        },
        {"n": 2, "h": 5},
    ),
    (
        "max_pool_indices",
        [("n", 2, "h")],
        {"kernel": [2], "pads": [1, 1], "ceil_mode": False, "column_major": False},
        {"n": 2, "h": 4},
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "sizes"), SYMBOLIC)
def test_lowered_loops_run_at_any_size(name: str, shapes: list, attributes: dict, sizes: dict):
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([sizes.get(dim, dim) for dim in shape]).astype(np.float32)
        for shape in shapes
    ]
    dims = [tuple(Expr.of(dim) for dim in shape) for shape in shapes]
    static = oracle.operator(OPS_BY_NAME[name], Sample(arrays, attributes))
    symbolic = oracle.operator(OPS_BY_NAME[name], Sample(arrays, attributes), dims)
    expected = oracle.references(static, arrays)
    (found,) = oracle.run_lowered(symbolic, arrays, expected, sizes)
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("stride", "size"), [(2, (41, 70)), (3, (41, 70)), (4, (61, 64))])
def test_windows_that_step_over_elements_read_their_borders(stride: int, size: tuple[int, int]):
    x = np.random.default_rng(0).standard_normal((1, 8, *size)).astype(np.float32)
    x[0, 0, 3, ::9] = np.nan
    attributes = {"strides": [stride] * 2, "pads": [1, 1, 2, 1], "ceil_mode": False}
    sample = Sample([x], {"kernel": [3, 3], **attributes})
    ops, ((found,),) = oracle.run_compiled(OPS_BY_NAME["max_pool"], [sample])
    np.testing.assert_array_equal(found, oracle.references(ops[0], [x])[0])


def test_mean_over_a_symbolic_axis_has_a_derivative():
    block = Block(arg_types=[f32("n", 3), f32(3)])
    op = OPS_BY_NAME["reduce_mean"].of(block.args[0], axes=[0], keepdims=False)
    block.add_op(op)
    builder = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    (gradient,) = op.vjp([block.args[1]], builder)
    assert gradient is not None
    assert gradient.type == f32("n", 3)


def test_same_pads_of_a_symbolic_dim_do_not_depend_on_it_at_stride_one():
    assert same_pads(["h"], [3], [1], [2], upper=True) == [2, 2]


def test_symbolic_same_pads_are_those_of_each_size():
    pads = same_pads(["h"], [3], [2], [1], upper=True)
    for size in (1, 4, 5, 6, 7):
        values = {atom: size for pad in pads for atom in pad.atoms()}
        numbers = [pad.constant for pad in same_pads([size], [3], [2], [1], upper=True)]
        assert [pad.evaluate(values) for pad in pads] == numbers


def test_transposed_pads_give_the_wanted_dims():
    pads = transposed_pads([4], [3], [2], [1], [0], [8], upper=False)
    numbers = [pad.constant for pad in pads]
    op = op_of("conv_transpose", f32(1, 1, 4), f32(1, 1, 3), group=1, strides=[2], pads=numbers)
    assert numbers == [1, 0]
    assert op.result_type == f32(1, 1, 8)


def test_integer_mean_rounds_towards_zero():
    operand = np.array([[-3, -4], [3, 4]], np.int64)
    cls = OPS_BY_NAME["reduce_mean"]
    op = oracle.operator(cls, Sample([operand], {"axes": [1], "keepdims": False}))
    assert op.result_type == tensor([2], I64)
    for values in (oracle.references(op, [operand])[0], lowered(op, operand)):
        assert values.tolist() == [-3, 3]
