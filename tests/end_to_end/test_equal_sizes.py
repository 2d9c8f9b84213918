"""Sizes that have to be equal when a model runs: what nobody can prove is assumed, and each call
checks it before anything is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import weft
import weft.numpy as wnp
from tests.support.size_models import PYRAMID, Array, agree, array, checks, model_of
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.graph import BindSizesOp


def test_pyramids_of_any_height_and_width_join_what_was_halved() -> None:
    run = agree(model_of(PYRAMID), array(1, 2, 6, 8), array(2, 2, 3, 3))
    with pytest.raises(weft.InputError, match=r"sizes 2 \* .* = h .*, got 8 and 7 .*, at joined"):
        run(array(1, 2, 7, 8), array(2, 2, 3, 3))


JOINED = """(float[a, 3] x, float[b, 2] y, float[2, k] m, float[n, 4] w) => (float[r, c] z) {
  both = Concat <axis = 1> (x, y)
  five = Concat <axis = 1> (both, x)
  product = MatMul (m, w)
  turned = Gemm <transA = 1> (x, y)
  bias = Gemm (m, w)
  total = Add (product, bias)
  sum = ReduceSum <keepdims = 0> (turned)
  moved = Add (total, sum)
  zero = ReduceSum <keepdims = 0> (five)
  z = Mul (moved, zero)
}"""


def test_sizes_of_different_names_meet_in_products_and_concat() -> None:
    run = agree(model_of(JOINED), array(5, 3), array(5, 2), array(2, 7), array(7, 4))
    with pytest.raises(weft.InputError, match="requires"):
        run(array(5, 3), array(4, 2), array(2, 7), array(7, 4))
    with pytest.raises(weft.InputError, match="requires"):
        run(array(5, 3), array(5, 2), array(2, 7), array(6, 4))


FRAMED = """(float[1, length] x, float[rows, 1, cols] y) => (float[frames, 8] f, float[r, c] z) {
  shape = Constant <value = int64[2] {-1, 8}> ()
  f = Reshape (x, shape)
  axis = Constant <value = int64[1] {0}> ()
  z = Squeeze (y, axis)
}"""


def test_reshapes_and_squeezes_take_what_fits() -> None:
    run = agree(model_of(FRAMED), array(1, 40), array(1, 1, 6))
    with pytest.raises(weft.InputError, match="requires"):
        run(array(1, 41), array(1, 1, 6))
    with pytest.raises(weft.InputError, match="requires"):
        run(array(1, 40), array(2, 1, 6))


STATES = """(float[steps, batch, 2] x, float[1, 1, 3] h) => (float[steps, 1, batch, 3] y)
<float[1, 9, 2] w, float[1, 9, 3] r> { y = GRU <hidden_size = 3> (x, w, r, , , h) }"""


def test_states_of_one_example_say_how_many_there_are() -> None:
    model = model_of(STATES)
    for name, x in (("w", array(1, 9, 2)), ("r", array(1, 9, 3))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(x, name))
    run = agree(model, array(4, 1, 2), array(1, 1, 3))
    with pytest.raises(weft.InputError, match="requires"):
        run(array(4, 2, 2), array(1, 1, 3))


SQUEEZED = """(float[batch, length] x) => (float[batch] y) {
  axis = Constant <value = int64[1] {1}> ()
  one = Constant <value = int64 {1}> ()
  index = Constant <value = int64 {1}> ()
  dims = Shape (x)
  size = Gather (dims, index)
  is_one = Equal (size, one)
  y = If (is_one) <
    then_branch = g1 () => (float[batch] a) { a = Squeeze (x, axis) },
    else_branch = g2 () => (float[batch, length] b) { b = Identity (x) }
  >
}"""


def test_branches_of_two_ranks_are_the_one_that_sizes_lead_to() -> None:
    run = weft.compile(model_of(SQUEEZED), threads=1)
    np.testing.assert_array_equal(run(array(3, 1))[0], array(3, 1)[:, 0])
    with pytest.raises(weft.InputError, match="requires"):
        run(array(3, 2))


OPEN = """(float[n, c, h, w] x, float[2, 4, 3, 3] f, float[4, 2, 2, 2] t, float[4] s, float[r] b,
  float[m, 2, 2, 2] grid, int64[p, c, 1, 1] i, float[q, c, 1, 1] u)
  => (float[n, 2, k, l] y0, float[n, 2, o, v] y1, float[n, c, h, w] y2, float[n, c, h, w] y3,
  float[n, c, 2, 2] y4, float[n, c, h, w] y5, float[n, 1, h, w] y6, float[n, 3, h, w] y7,
  float[n, 1, h2, w2] y8, float[n, 16, h3, w3] y9) {
  y0 = Conv (x, f)
  y1 = ConvTranspose (x, t)
  y2 = BatchNormalization (x, s, b, s, s)
  y3 = InstanceNormalization (x, s, b)
  y4 = GridSample (x, grid)
  y5 = ScatterElements (x, i, u)
  parts = Constant <value = int64[2] {1, 3}> ()
  y6, y7 = Split <axis = 1> (x, parts)
  y8 = DepthToSpace <blocksize = 2> (x)
  y9 = SpaceToDepth <blocksize = 2> (x)
}"""


def test_open_sizes_are_what_other_operands_say() -> None:
    sizes = {"x": (1, 4, 4, 4), "f": (2, 4, 3, 3), "t": (4, 2, 2, 2), "s": (4,), "b": (4,)}
    sizes |= {"grid": (1, 2, 2, 2), "u": (1, 4, 1, 1)}
    given = {name: np.abs(array(*shape)) for name, shape in sizes.items()}
    given["i"] = np.zeros((1, 4, 1, 1), np.int64)
    model = model_of(OPEN)
    inputs = [given[value.name] for value in model.graph.input]
    run = agree(model, *inputs)
    for name, shape in (("x", (1, 5, 4, 4)), ("x", (1, 4, 5, 4)), ("b", (3,)), ("u", (2, 4, 1, 1))):
        wrong = given | {name: array(*shape)}
        with pytest.raises(weft.InputError, match="requires"):
            run(**wrong)


def test_dims_of_minus_one_are_unknown() -> None:
    model = model_of("(float[n, 3] x) => (float[n, 3] y) { y = Relu (x) }")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    run = weft.compile(model, threads=1)
    for rows in (1, 4):
        np.testing.assert_array_equal(run(array(rows, 3))[0], np.maximum(array(rows, 3), 0))


def test_derivatives_have_the_dims_of_their_operands() -> None:
    def loss(x: Any, y: Any) -> Any:
        return wnp.sum(wnp.concat([x, y], axis=1) ** 2) + wnp.sum(x * y)

    x, y = array(3, 2), array(3, 2)
    specs = [weft.Spec("float32", ("m", 2)), weft.Spec("float32", ("n", 2))]
    run = weft.trace(weft.grad(loss, argnums=(0, 1)), *specs)
    for given, expected in zip(run(x, y), (2 * x + y, 2 * y + x), strict=True):
        np.testing.assert_allclose(given, expected, 1e-5)


WITHOUT_AXES = """(float[n, 1, m] x) => (RESULT y) {
  s = Squeeze (x)
  two = Constant <value = float {2.0}> ()
  t = Mul (two, s)
  y = Relu (t)
}"""


def test_dims_that_vary_are_not_squeezed_unless_the_declared_rank_says_so() -> None:
    run = agree(model_of(WITHOUT_AXES.replace("RESULT", "float[p, q]")), array(3, 1, 2))
    with pytest.raises(weft.InputError, match="run requires m other than 1, got 1, at Squeeze_0"):
        run(array(3, 1, 1))
    run = agree(model_of(WITHOUT_AXES.replace("RESULT", "float[]")), array(3, 1, 2))
    scalar = WITHOUT_AXES.replace("RESULT", "float")
    run = weft.compile(model_of(scalar), cache=False)
    assert run(array(1, 1, 1))[0].shape == ()
    with pytest.raises(weft.InputError, match="sizes"):
        run(array(3, 1, 1))
    with pytest.raises(
        weft.UnsupportedError, match=r"requires axes, or .*, got 1 dims of .n, 1, m"
    ):
        weft.compile(model_of(WITHOUT_AXES.replace("RESULT", "float[p]")), cache=False)


PARTS = """(float[n, 3] x) => (float[p, q] y, float[r, s] z, float[t, u] w) {
  y, z, w = Split <axis = 0, num_outputs = 3> (x)
}"""


def test_a_named_size_is_split_as_evenly_as_it_can_be() -> None:
    model = model_of(PARTS)
    run = weft.compile(model, threads=1)
    for rows in (6, 7, 8, 1):
        x = array(rows, 3)
        part = -(-rows // 3)
        for number, given in enumerate(run(x)):
            np.testing.assert_array_equal(given, x[number * part : (number + 1) * part])


HALVES = """(float[n, 4] x) => (float[p, 4] y) {
  a, b = Split <axis = 0, num_outputs = 2> (x)
  s = Sigmoid (b)
  y = Mul (a, s)
}"""


def test_halves_that_are_multiplied_have_to_be_equal() -> None:
    run = agree(model_of(HALVES), array(6, 4))
    with pytest.raises(weft.InputError, match="requires sizes .*, at Mul_2"):
        run(array(7, 4))


MASKED = """(float[n, m] x, float[n, m] y, float[n, m] w) => (float[n, m] z) {
  zero = Constant <value = float {0.0}> ()
  mask = Greater (w, zero)
  there = NonZero (mask)
  rows = Transpose (there)
  taken = GatherND (y, rows)
  here = NonZero (mask)
  places = Transpose (here)
  z = ScatterND (x, places, taken)
}"""

RESHAPED = """(float[n] x, float[n] y, int64[2] s) => (float[p, q] z) {
  a = Reshape (x, s)
  b = Reshape (y, s)
  z = Add (a, b)
}"""


def test_what_is_found_twice_is_found_once() -> None:
    run = agree(model_of(MASKED), array(3, 4), array(3, 4), array(3, 4))
    assert len(found_sizes(MASKED)) == 1
    run = agree(model_of(RESHAPED), array(12), array(12), np.array([3, -1]))
    assert len(found_sizes(RESHAPED)) == 2
    with pytest.raises(weft.InputError, match="requires"):
        run(array(12), array(12), np.array([5, -1]))


def found_sizes(text: str) -> list[str]:
    """The sizes that the graph of a model finds."""
    ops = import_model(model_of(text)).module.walk()
    return [name.data for op in ops if isinstance(op, BindSizesOp) for name in op.sizes]


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


NAMED: list[tuple[str, list[Array], list[Array]]] = [
    (
        "(float[a, b, c] x, int64[d] l) => (float[p, q, r] z) { z = ReverseSequence (x, l) }",
        [array(3, 2, 2), whole(3, 2)],
        [array(3, 2, 2), whole(3, 2, 1)],
    ),
    (
        "(float[a, 3] x, float[b, 3] y) => (float[c, 3] z) { z = Scan <num_scan_inputs = 2,"
        " body = g (float[3] e, float[3] f) => (float[3] o) { o = Add (e, f) }> (x, y) }",
        [array(4, 3), array(4, 3)],
        [array(4, 3), array(5, 3)],
    ),
    (
        "(float[a, b, c] x, int64[d, 1] i) => (float[p, q] z)"
        " { z = GatherND <batch_dims = 1> (x, i) }",
        [array(2, 3, 4), whole(2, 0).reshape(2, 1)],
        [array(2, 3, 4), whole(2, 0, 1).reshape(3, 1)],
    ),
    (
        "(float[a, b] x, int64[d, 1] i, float[e, f] u) => (float[p, q] z)"
        " { z = ScatterND (x, i, u) }",
        [array(5, 2), whole(4, 0).reshape(2, 1), array(2, 2)],
        [array(5, 2), whole(4, 0).reshape(2, 1), array(2, 3)],
    ),
    (
        "(float[n, c, h] x, float[4, d, 3] f, float[b] s) => (float[p, q, r] z)"
        " { z = Conv (x, f, s) }",
        [array(1, 2, 5), array(4, 2, 3), array(4)],
        [array(1, 2, 5), array(4, 3, 3), array(4)],
    ),
    (
        "(float[s, b, 2] x, float[1, 12, 2] w, float[1, 12, 3] r, int32[q] l)"
        " => (float[p, d, e, f] y) { y = LSTM <hidden_size = 3> (x, w, r, , l) }",
        [array(4, 2, 2), array(1, 12, 2), array(1, 12, 3), np.array([4, 2], np.int32)],
        [array(4, 2, 2), array(1, 12, 2), array(1, 12, 3), np.array([4, 2, 1], np.int32)],
    ),
    (
        "(float[n, c, h, w] x, float[m, p, q, r] g) => (float[a, b, d, e] z)"
        " { z = GridSample (x, g) }",
        [array(2, 1, 3, 3), array(2, 2, 2, 2)],
        [array(2, 1, 3, 3), array(2, 2, 2, 3)],
    ),
]


@pytest.mark.parametrize(
    ("text", "fitting", "others"), NAMED, ids=[each[0][-60:] for each in NAMED]
)
def test_sizes_of_different_names_have_to_be_equal(
    text: str, fitting: list[Array], others: list[Array]
) -> None:
    run = agree(model_of(text), *fitting)
    with pytest.raises(weft.InputError, match="requires sizes .*, at "):
        run(*others)


RATES = """(float[1, 512] x, int64 rate) => (float[] y) {
  fast = Constant <value = int64 {16000}> ()
  is_fast = Equal (rate, fast)
  y = If (is_fast) <
    then_branch = large () => (float[a, b] u) {
      rows = Constant <value = int64[2] {-1, 256}> ()
      u = Reshape (x, rows)
    },
    else_branch = small () => (float[c, d] v) {
      narrow = Constant <value = float[1, 256] {BODY}> ()
      v = Add (x, narrow)
    }
  >
}""".replace("BODY", ", ".join(["1.0"] * 256))


def test_a_branch_that_cannot_be_ends_the_call_that_takes_it() -> None:
    model = model_of(RATES)
    with pytest.warns(weft.ModelWarning, match=r"its then-branch .* breaks a rule: node 'Add_"):
        run = weft.compile(model, cache=False)
    x = array(1, 512)
    np.testing.assert_array_equal(run(x, np.int64(16000))[0], x.reshape(2, 256))
    with pytest.raises(weft.InputError, match="the then-branch of an If, got the other one, at If"):
        run(x, np.int64(8000))


EITHER = """(float[n, 1] x, bool b) => (RESULT z) {
  axis = Constant <value = int64[1] {1}> ()
  y = If (b) <
    then_branch = first () => (float[p] u) { u = Squeeze (x, axis) },
    else_branch = second () => (float[q, r] v) { v = Neg (x) }
  >
  z = Relu (y)
}"""


def test_the_declared_rank_tells_which_of_two_branches_can_be() -> None:
    x = array(3, 1)
    for result, flag, expected in (("float[a]", True, x[:, 0]), ("float[a, b]", False, -x)):
        with pytest.warns(weft.ModelWarning, match="-branch in each call, .* gives another rank"):
            run = weft.compile(model_of(EITHER.replace("RESULT", result)), cache=False)
        np.testing.assert_array_equal(run(x, np.array(flag))[0], np.maximum(expected, 0))
        with pytest.raises(weft.InputError, match="-branch of an If, got the other one"):
            run(x, np.array(not flag))
    with pytest.raises(weft.UnsupportedError, match="results have one rank, .* got two that can"):
        weft.compile(model_of(EITHER.replace("RESULT", "float[]")), cache=False)


NESTED = """(float[n, 1] x, bool b, bool c) => (float[] z) {
  axis = Constant <value = int64[1] {1}> ()
  y = If (b) <
    then_branch = first () => (float[] u) { u = Abs (x) },
    else_branch = second () => (float[] v) {
      inner = If (c) <
        then_branch = third () => (float[] s) { s = Squeeze (x, axis) },
        else_branch = fourth () => (float[] t) { t = Neg (x) }
      >
      v = Einsum <equation = "ij->ij"> (inner)
    }
  >
  z = Relu (y)
}"""


def test_what_reads_a_branch_tells_whether_it_can_be() -> None:
    with pytest.warns(weft.ModelWarning, match="its else-branch in each call, .* another rank"):
        run = weft.compile(model_of(NESTED), cache=False)
    x, yes, no = array(3, 1), np.array(True), np.array(False)
    np.testing.assert_array_equal(run(x, yes, yes)[0], np.abs(x))
    np.testing.assert_array_equal(run(x, no, no)[0], np.maximum(-x, 0))
    with pytest.raises(weft.InputError, match="the else-branch of an If, got the other one"):
        run(x, no, yes)


ROWS = (
    """(float[batch, length] x) => (float[p, 4] y) <int64[2] s = {-1, 4}> { y = Reshape (x, s) }"""
)


def test_what_is_reshaped_has_to_divide() -> None:
    run = agree(model_of(ROWS), array(6, 2))
    with pytest.raises(weft.InputError, match="requires sizes .*, got 15 and 12 .*, at Reshape_0"):
        run(array(3, 5))


ANY_RANK = """(float[4, 6] x, int64[k] s) => (RESULT z) { y = Reshape (x, s) z = Relu (y) }"""


def test_the_declared_rank_says_how_many_dims_a_shape_has() -> None:
    text = ANY_RANK.replace("RESULT", "float[a, b, c]")
    run = agree(model_of(text), array(4, 6), whole(2, -1, 3))
    with pytest.raises(weft.InputError, match="requires sizes k = 3 .*, got 2 and 3 .*, at Resh"):
        run(array(4, 6), whole(12, 2))
    with pytest.raises(weft.UnsupportedError, match="requires a vector of known length"):
        weft.compile(model_of(ANY_RANK.replace("RESULT", "float[]")), cache=False)


def test_sizes_are_checked_once_and_only_where_they_may_differ() -> None:
    assert checks(PYRAMID) == 4  # height and width: that they hold a window, and that they are even
    assert checks(RESHAPED) == 1  # of the elements of both
    assert checks("(float[n, m] x) => (float[n, m] y) { z = Add (x, x) y = Softmax (z) }") == 0


OPEN_INPUTS = [
    ("(float[] x, float s) => (float[a, b] y) { z = Mul (x, s) w = Neg (z) y = Relu (w) }", 2),
    ("(float[] x, float[n, 3] w) => (float[] y) { z = Neg (x) y = Gemm (z, w) }", 2),
    ("(float[] x) => (float[] y) { y = Transpose <perm = [1, 2, 0]> (x) }", 3),
    ("(float[] x) => (float[] y) <float[2, 1, 3] f = {1, 2, 3, 4, 5, 6}> { y = Conv (x, f) }", 3),
]


@pytest.mark.parametrize(("text", "rank"), OPEN_INPUTS)
def test_nodes_tell_the_rank_of_an_input_that_declares_none(text: str, rank: int) -> None:
    model = model_of(text)
    shapes = [tuple(spec.dims) for spec in weft.compile(model, cache=False).inputs]
    assert len(shapes[0]) == rank
    values = {2: [array(3, 4), array(4, 3)], 3: [array(2, 1, 5)]}[rank]
    if shapes[1:] == [()]:
        values[1] = np.asarray(np.float32(2))
    agree(model, *values[: len(shapes)])


def test_what_damaged_nodes_need_is_not_asked() -> None:
    for text in ("y = Conv (x)", "y = Relu (z) z = Transpose (x)"):
        with pytest.raises(weft.WeftError, match="requires"):
            weft.compile(model_of(f"(float[] x) => (float[] y) {{ {text} }}"), cache=False)
