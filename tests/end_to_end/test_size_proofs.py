"""What sizes that have to be equal prove: of later nodes, of kernels, and of each other."""

from __future__ import annotations

import pytest

import weft
from tests.support.size_models import PYRAMID, agree, array, checks, model_of
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.loop.program import KernelOp


def kernels(text: str) -> list[KernelOp]:
    """The kernels of a model, scheduled."""
    module = plan_model(model_of(text), Session(Options())).module
    return [op for op in module.walk() if isinstance(op, KernelOp)]


GATED = """(float[n, 3] x, float[m, 3] y) => (float[p, 3] z) {
  s = Sigmoid (x)
  t = Add (x, y)
  u = Tanh (y)
  v = Mul (s, u)
  z = Sub (t, v)
}"""


def test_sizes_that_are_equal_are_one_size_of_kernels() -> None:
    run = agree(model_of(GATED), array(4, 3), array(4, 3))
    (kernel,) = kernels(GATED)
    assert len(kernel.symbol_names) == 1
    assert [spec.dims for spec in run.inputs] == [("n", 3), ("m", 3)]
    with pytest.raises(weft.InputError, match="requires sizes m = n .*, got 5 and 4 .*, at Add_1"):
        run(array(4, 3), array(5, 3))


def test_what_is_halved_and_doubled_is_even_in_kernels() -> None:
    shapes = [str(each.type) for kernel in kernels(PYRAMID) for each in kernel.body.block.args]
    assert any("2 * n0" in shape for shape in shapes)
    assert not any("floordiv" in shape for shape in shapes)


FLAT = PYRAMID.replace("z = Add (large, x)", """flat = Constant <value = int64[3] {1, 2, -1}> ()
  row = Reshape (large, flat)
  shape = Shape (x)
  image = Reshape (row, shape)
  z = Add (image, x)""")  # fmt: skip

LOOPED = PYRAMID.replace("z = Add (large, x)", """count = Constant <value = int64 {3}> ()
  z = Loop (count, , x) <body = g (int64 i, bool go, float[1, 2, a, b] s)
    => (bool on, float[1, 2, c, d] t) {
      on = Identity (go)
      small = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (s, f)
      t = Resize <mode = "nearest"> (small, , scales)
    }>""")  # fmt: skip


@pytest.mark.parametrize("text", [FLAT, LOOPED], ids=["reshape", "loop"])
def test_what_was_assumed_proves_what_follows(text: str) -> None:
    agree(model_of(text), array(1, 2, 6, 8), array(2, 2, 3, 3))
    assert checks(text) == checks(PYRAMID)
    found = [op for op in import_model(model_of(text)).module.walk() if defined_sizes(op)]
    assert not found


def test_bounds_prove_sizes_or_contradict_them() -> None:
    model = model_of(PYRAMID)
    even = {"h": (2, 64), "w": (2, 64)}
    assert checks(PYRAMID, even) == 2  # both hold a window
    with pytest.raises(
        weft.WeftError, match=r"sizes w \+ 2 = max\(3, w \+ 2\), got w from 0 to 0, at Conv"
    ):
        weft.compile(model, bounds={"h": (2, 64), "w": (0, 0)}, cache=False)


ELEMENTWISE = {
    "Add": "z = Add (x, y)",
    "Equal": "e = Equal (x, y) z = Cast <to = 1> (e)",
    "Where": "zero = Constant <value = float {0.0}> () less = Less (x, zero)"
    " z = Where (less, x, y)",
    "Max": "z = Max (x, y)",
    "Expand": "s = Shape (y) z = Expand (x, s)",
    "MatMul": "o = Constant <value_ints = [1, 2]> () p = Unsqueeze (x, o) q = Unsqueeze (y, o)"
    " r = MatMul (p, q) z = Squeeze (r, o)",
    "Einsum": 'z = Einsum <equation = "i, i -> i"> (x, y)',
}

PLACES = {
    "graph": "BODY w = Neg (z)",
    "branch": "w = If (b) <then_branch = g () => (float[k] v) { BODY v = Neg (z) },"
    " else_branch = h () => (float[k] u) { u = Identity (x) }>",
    "loop": """three = Constant <value = int64 {3}> ()
      s, w = Loop (three, , y) <body = g (int64 i, bool go, float[k] v)
        => (bool d, float[k] u, float[l] stack) {
          d = Identity (go) u = Neg (v) BODY stack = Neg (z)
        }>""",
    "function": "w = own.f (x, y)",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("operator", ELEMENTWISE)
def test_a_1_is_stretched_and_names_are_equal_everywhere(operator: str, place: str) -> None:
    """One rule, whatever the operator is and wherever it stands."""
    body = ELEMENTWISE[operator]
    for x, pairs in (("1", set[frozenset[str]]()), ("m", {frozenset("mn")})):
        result = "3, k" if place == "loop" else "k"
        text = f"(float[{x}] x, float[n] y, bool b) => (float[{result}] w) {{ {PLACES[place]} }}"
        text = text.replace("BODY", body)
        model = model_of(text, function=body if place == "function" else None)
        ops = [op for op in import_model(model).module.walk() if isinstance(op, GraphOp)]
        assumed = {frozenset(map(str, pair)) for op in ops for pair in op.assumptions()}
        assert assumed == pairs


STEPPED = """(float[2, 3, n, m] x) => (float[a, b, c] z) {
  starts = Constant <value = int64[2] {0, 0}> ()
  ends = Constant <value = int64[2] {99, 99}> ()
  axes = Constant <value = int64[2] {2, 3}> ()
  steps = Constant <value = int64[2] {3, 2}> ()
  flat = Constant <value = int64[3] {0, 0, -1}> ()
  y = Slice (x, starts, ends, axes, steps)
  z = Reshape (y, flat)
}"""


def test_a_product_of_sizes_that_are_rounded_up_is_an_extent() -> None:
    """Each of them is `-(-n floordiv 3)`: factors below zero, of which the product is none."""
    for height, width in ((7, 5), (1, 1), (6, 8)):
        agree(model_of(STEPPED), array(2, 3, height, width))
