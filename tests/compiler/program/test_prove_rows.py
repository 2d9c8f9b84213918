"""The proof that rows do not depend on each other, on models of one operator."""

import numpy as np
import pytest
from onnx import parser

import weft
from weft.compiler.program.prove_rows import grows_with, keeps_rows
from weft.dialects.expr import Expr, maximum, minimum

N, M = Expr.of("n"), Expr.of("m")

INDEPENDENT = {
    "elementwise": "y = Relu(x)",
    "other axis": "y = Softmax<axis = 1>(x)",
    "product": "w = Constant<value = float[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}>() y = MatMul(x, w)",
    "transposed": "t = Transpose<perm = [1, 0]>(x) y = Neg(t)",
    "three rows": "t = Transpose<perm = [1, 0]>(x) a = Constant<value = int64[2] {0, 1}>() "
    "u = Unsqueeze(t, a) w = Constant<value = float[1, 1, 1, 3] {1, 2, 3}>() "
    "v = Constant<value = int64[4] {4, 1, 1, -1}>() r = Reshape(u, v) y = Conv(r, w)",
    "merged": "s = Constant<value = int64[1] {-1}>() f = Reshape(x, s) y = Neg(f)",
    "both": "y = Concat<axis = 1>(x, x)",
    "greatest": "k = Constant<value = int64[1] {2}>() y, i = TopK(x, k)",
}
DEPENDENT = {
    "axis": "y = Softmax<axis = 0>(x)",
    "sum": "a = Constant<value = int64[1] {0}>() y = ReduceSum(x, a)",
    "backwards": "a = Constant<value = int64 {0}>() y = CumSum<reverse = 1>(x, a)",
    "last row": "i = Constant<value = int64[1] {-1}>() y = Gather(x, i)",
    "product": "t = Transpose<perm = [1, 0]>(x) y = MatMul(t, x)",
    "behind": "t = Transpose<perm = [1, 0]>(x) s = Constant<value = int64[1] {-1}>() "
    "y = Reshape(t, s)",
    "size": "s = Shape(x) f = Cast<to = 1>(s) z = Constant<value = int64 {0}>() "
    "g = Gather(f, z) y = Mul(x, g)",
    "running sum": "a = Constant<value = int64 {0}>() y = CumSum(x, a)",
    "joined": "y = Concat<axis = 0>(x, x)",
}


def model(body: str) -> str:
    return f'<ir_version: 10, opset_import: ["" : 21]> one (float[n, 4] x) => (y) {{ {body} }}'


def matrix(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, 4), np.float32)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_lesser_sizes_are_padded(name: str) -> None:
    source = parser.parse_model(model(INDEPENDENT[name]))
    alone = weft.compile(source, naive=True)
    run = weft.compile(source, buckets=["n=4,7"], bucket_fit="pad", naive=True)
    for rows in (3, 4, 5, 6, 7):
        for given, wanted in zip(run(matrix(rows)), alone(matrix(rows)), strict=True):
            np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_other_rows_is_refused(name: str) -> None:
    source = parser.parse_model(model(DEPENDENT[name]))
    with pytest.raises(weft.UnsupportedError, match="rows that do not depend on each other"):
        weft.compile(source, buckets=["n=3,7"], bucket_fit="pad", naive=True)


def test_the_node_is_named() -> None:
    source = parser.parse_model(model("t = Relu(x) y = Softmax<axis = 0>(t)"))
    source.graph.node[0].name, source.graph.node[1].name = "first", "second"
    with pytest.raises(weft.UnsupportedError, match="got n: node 'second', which combines elem"):
        weft.compile(source, buckets=["n=3"], bucket_fit="pad")


@pytest.mark.parametrize(
    ("expr", "grows"),
    [(N, True), (N * M + 3, True), (M - N, False), (N % 4, False), (N // 4, True), (M - 2, True),
     (minimum([N, M]), True), (maximum([N, 5 - M]), True), (minimum([N, M - N]), False)],
)  # fmt: skip
def test_growth_of_expressions(expr: Expr, grows: bool) -> None:
    assert grows_with(expr, "n") == grows


@pytest.mark.parametrize(
    ("source", "target", "keeps"),
    [([N, 4], [N, 2, 2], True), ([N, 4], [4 * N], True), ([4, N], [4 * N], False),
     ([N, M], [N * M], True), ([M, N], [N * M], False), ([1, N, 6], [N, 1, 2, 3], True),
     ([2, N, 6], [2, 3 * N, 2], True), ([2, 6, N], [2, 3, 2, N], True)],
)  # fmt: skip
def test_reshapes_that_keep_rows(source: list, target: list, keeps: bool) -> None:
    assert keeps_rows(list(map(Expr.of, source)), list(map(Expr.of, target)), "n") == keeps
