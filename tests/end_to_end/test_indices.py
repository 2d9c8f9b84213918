"""Indices outside of their axis: refused where they are known, errors of a call where that is asked
for, and always for operators that ONNX defines for nothing else.
"""
# pyright: basic

import numpy as np
import pytest
from onnx import parser

import weft
from weft import numpy as wnp

HEADER = '<ir_version: 13, opset_import: ["" : 24]>\nagraph '
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def compiled(text, **options):
    return weft.compile(parser.parse_model(HEADER + text), threads=1, **options)


def whole(*numbers):
    return np.array(numbers, np.int64)


KNOWN = {
    "Gather": "(float[3, 2] x) => (y) <int64[2] i = {0, 3}> { y = Gather(x, i) }",
    "GatherElements": """(float[3, 2] x) => (y) <int64[1, 2] i = {0, -3}> {
        y = GatherElements<axis = 1>(x, i) }""",
    "GatherND": "(float[3, 2] x) => (y) <int64[1, 2] i = {0, 2}> { y = GatherND(x, i) }",
    "ScatterElements": """(float[3, 2] x, float[1, 2] u) => (y) <int64[1, 2] i = {0, 9}> {
        y = ScatterElements(x, i, u) }""",
    "ScatterND": """(float[3, 2] x, float[1, 2] u) => (y) <int64[1, 1] i = {-4}> {
        y = ScatterND(x, i, u) }""",
    "many": "(float[3, 2] x) => (y) <int64 t = {2}, int64[20] i = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1,"
    "2, 0, 1, 2, 0, 1, 2, 0, 3}> { y = Gather(x, i) }",
}


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN)
def test_i1_known_indices_outside_of_their_axis_are_refused(text, naive):
    """i1: while compiling, with the node, the axis, the index and the size."""
    rule = r"requires an index from -\d to \d along axis \d of \d elements, got -?\d, at \w+_0"
    with pytest.raises(weft.TypeInferenceError, match=rule):
        compiled(text, naive=naive)


def test_i1_indices_are_moved_into_the_axis_unless_they_are_checked():
    """i1: the fast default."""
    model = compiled("(float[n, 2] x, int64[k] i) => (y) { y = Gather(x, i) }")
    (rows,) = model(X, whole(-9, 1, 7))
    np.testing.assert_array_equal(rows, X[[0, 1, 2]])


CHECKED = {
    "Gather": ("(float[n, 2] x, int64[k] i) => (y) { y = Gather(x, i) }", [whole(3), whole(-4)]),
    "int32": (
        "(float[n, 2] x, int32[k] i) => (y) { y = Gather<axis = 1>(x, i) }",
        [np.array([2], np.int32), np.array([0, -3], np.int32)],
    ),
    "GatherElements": (
        "(float[n, 2] x, int64[k, 2] i) => (y) { y = GatherElements(x, i) }",
        [whole(0, 3)[None], whole(2**63 - 1, 0)[None], whole(0, -(2**63))[None]],
    ),
    "GatherND": (
        "(float[n, 2] x, int64[k, 2] i) => (y) { y = GatherND(x, i) }",
        [whole(0, 2)[None], whole(3, 0)[None]],
    ),
    "ScatterND": (
        "(float[n, 2] x, int64[k, 1] i) => (y) { u = GatherND(x, i) y = ScatterND(x, i, u) }",
        [whole(5)[None]],
    ),
}


@pytest.mark.parametrize(("text", "outside"), CHECKED.values(), ids=CHECKED)
def test_i1_checked_indices_end_a_call(text, outside):
    """i1: with the node, the axis, the index and the size."""
    model, plain = compiled(text, check_indices=True), compiled(text)
    for indices in outside:
        rule = r"requires an index from -\d to \d along axis \d of \d elements, got .*, at \w+_0"
        with pytest.raises(weft.InputError, match=rule):
            model(X, indices)
        inside = np.zeros_like(indices)
        np.testing.assert_array_equal(model(X, inside)[0], plain(X, inside)[0])
    nothing = np.zeros((0, *outside[0].shape[1:]), outside[0].dtype)
    np.testing.assert_array_equal(model(X, nothing)[0], plain(X, nothing)[0])


def test_i1_every_way_to_compile_checks_indices():
    """i1: functions that are traced or read from their source."""

    def rows(x, i):
        return wnp.take(x, i, 0)

    for function in (
        weft.trace(rows, X, whole(0, 1), check_indices=True),
        weft.jit(rows, check_indices=True),
    ):
        function(X, whole(0, 2))
        with pytest.raises(weft.InputError, match="along axis 0 of 3 elements, got 4"):
            function(X, whole(0, 4))


ALWAYS = {
    "Compress": (
        "(float[n, 2] x, bool[k] c) => (y) { y = Compress<axis = 0>(x, c) }",
        (X, np.array([True, False, True])),
        [(X, np.array([True, False, False, False]))],
        "a condition of at most 3 elements, got 4, at Compress_0",
    ),
    "SequenceAt": (
        """(float[n] a, float[n] b, int64 p) => (y) {
        s = SequenceConstruct(a, b) y = SequenceAt(s, p) }""",
        (X[0], X[1], np.int64(-2)),
        [(X[0], X[1], np.int64(2)), (X[0], X[1], np.int64(-3))],
        r"a position from -2 to 1 of a sequence, got (2|-3), at SequenceAt_1",
    ),
    "MaxUnpool": (
        """(float[1, 1, 1, 2] x, int64[1, 1, 1, 2] i) => (y) {
        y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }""",
        (X[None, None, :1], whole(0, 7)[None, None, None]),
        [(X[None, None, :1], whole(0, each)[None, None, None]) for each in (8, -1)],
        r"an index from 0 to 7 of the whole tensor, got (8|-1), at MaxUnpool_0",
    ),
    "TensorScatter": (
        """(float[1, 3, 2] x, float[1, k, 2] u, int64[1] i) => (y) {
        y = TensorScatter(x, u, i) }""",
        (X[None], X[None, :2], whole(1)),
        [(X[None], X[None, :2], whole(each)) for each in (2, -1)],
        r"a position from 0 to 1 along axis 1, got (2|-1), at TensorScatter_0",
    ),
    "ArgMax": (
        "(float[n, m] x) => (y) { y = ArgMax<axis = 1>(x) }",
        (X,),
        [(X[:, :0],)],
        r"m \(dim 1 .*\) to be at least 1, got 0",
    ),
}


@pytest.mark.parametrize(("text", "good", "bad", "rule"), ALWAYS.values(), ids=ALWAYS)
def test_i2_what_onnx_does_not_define_is_an_error_of_every_call(text, good, bad, rule):
    """i2: without being asked for."""
    model = compiled(text)
    model(*good)
    for arrays in bad:
        with pytest.raises(weft.InputError, match=rule):
            model(*arrays)


REFUSED = {
    "Compress": "(float[3] x, bool[4] c) => (y) { y = Compress(x, c) }",
    "SequenceAt": """(float[n] a) => (y) <int64 p = {1}> {
        s = SequenceConstruct(a) y = SequenceAt(s, p) }""",
    "MaxUnpool": """(float[1, 1, 1, 2] x) => (y) <int64[1, 1, 1, 2] i = {0, 8}> {
        y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }""",
    "TensorScatter": """(float[1, 3, 2] x, float[1, 2, 2] u) => (y) <int64[1] i = {2}> {
        y = TensorScatter(x, u, i) }""",
    "ArgMax": "(float[n, 0] x) => (y) { y = ArgMax<axis = 1>(x) }",
}


@pytest.mark.parametrize(("name", "text"), REFUSED.items())
def test_i2_what_onnx_does_not_define_is_refused_where_it_is_known(name, text):
    """i2: while compiling, with the node."""
    with pytest.raises(weft.WeftError, match=rf"node '{name}_\d' .*requires .*got"):
        compiled(text)


@pytest.mark.parametrize("count", [511, 1100])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_many_single_elements_are_stored_in_their_order(reduction, count):
    """Indices come a block at a time; those of one place meet in the order of the updates."""
    model = compiled(
        f"(float[37] x, int64[{count}, 1] i, float[{count}] u) => (y) "
        f'{{ y = ScatterND<reduction = "{reduction}">(x, i, u) }}'
    )
    draw = np.random.default_rng(count)
    x, updates = (draw.standard_normal(n).astype(np.float32) for n in (37, count))
    at = draw.integers(-37, 37, (count, 1))
    expected = x.copy()
    if reduction == "none":
        for place, update in zip(at[:, 0], updates, strict=True):
            expected[place] = update
    else:
        getattr(np, {"max": "maximum"}.get(reduction, reduction)).at(expected, at[:, 0], updates)
    (found,) = model(x, at, updates)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_best_of_long_lines_are_those_of_a_sort(largest):
    """Blocks are passed over, NaNs are the greatest, and the last block is no whole one."""
    model = compiled(
        f"(float[4, 8200] x) => (v, i) <int64[1] k = {{6}}> "
        f"{{ v, i = TopK<largest = {largest}>(x, k) }}"
    )
    x = np.random.default_rng(0).standard_normal((4, 8200)).astype(np.float32)
    x[0, [7, 70, 8199]], x[1, 8195], x[2, 130:140], x[3] = np.nan, -9, 9, np.nan
    x[3, [5000, 8198, 1]] = -np.inf, np.inf, 1
    v, i = model(x)
    order = np.argsort(x, kind="stable")
    if largest:
        order = 8199 - np.argsort(x[:, ::-1], kind="stable")[:, ::-1]
    np.testing.assert_array_equal(i, order[:, :6])
    np.testing.assert_array_equal(v, np.take_along_axis(x, order[:, :6], 1))


@pytest.mark.parametrize(("element", "dtype"), [("float", "f4"), ("double", "f8"), ("uint8", "u1")])
@pytest.mark.parametrize("length", [10, 11, 22, 31])
def test_whole_lines_of_any_length_are_sorted(element, dtype, length):
    """Short ones are selected, others are distributed by as many digits as an element has."""
    model = compiled(
        f"({element}[{length}, 3] x) => (v, i) <int64[1] k = {{{length}}}> "
        f"{{ v, i = TopK<axis = 0, largest = 0>(x, k) }}"
    )
    x = (np.random.default_rng(0).standard_normal((length, 3)) * 4).astype(dtype)
    v, i = model(x)
    order = np.argsort(x, 0, kind="stable")
    np.testing.assert_array_equal(i, order)
    np.testing.assert_array_equal(v, np.take_along_axis(x, order, 0))
