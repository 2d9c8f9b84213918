"""Loops whose state changes its shape: after the first iteration alone, as where NumPy stretches a
dim of 1; in each iteration; or never alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft
from tests.models.peer import run_onnxruntime
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.graph.regions.control import defined_sizes

Array = np.ndarray[Any, Any]

LOOP = """(float[1, 3] x, float[ROWS, 3] row, int64 n, bool go) => (RESULTS) {
  count = COUNT
  true = Constant <value = int64 {1}> ()
  yes = Cast <to = 9> (true)
  OUT = Loop (count, CONDITION, x) <body = g (int64 i, bool c, float[p, q] s)
    => (bool on, float[r, t] u, float[v, w] e) { BODY }>
}"""

KNOWN, GIVEN = "Constant <value = int64 {3}> ()", "Identity (n)"
STRETCH = """on = Identity (c) f = Cast <to = 1> (i) h = Mul (s, f) k = Add (s, h)
  u = Add (k, row) e = Sigmoid (u)"""
STOPPED = """m = ReduceMax <keepdims = 0> (s) five = Constant <value = float {5.0}> ()
  on = Less (m, five) f = Cast <to = 1> (i) k = Add (s, f) u = Add (k, row) e = Neg (u)"""
RANKED = """on = Identity (c) zero = Constant <value = int64[1] {0}> () v = Unsqueeze (row, zero)
  u = Add (s, v) e = Neg (row)"""
GROWING = "on = Identity (c) u = Concat <axis = 0> (s, row) e = Neg (row)"
NESTING = """on = Identity (c) zero = Constant <value = int64[1] {0}> () v = Unsqueeze (s, zero)
  u = Neg (v) e = Neg (row)"""


def loop(
    body: str, count: str = KNOWN, condition: str = "", rows: str = "4", out: str = "z, all"
) -> ModelProto:
    results = ", ".join(f"float[] {name}" for name in out.split(", "))
    text = LOOP.replace("BODY", body).replace("COUNT", count).replace("CONDITION", condition)
    text = text.replace("ROWS", rows).replace("RESULTS", results).replace("OUT", out)
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> agraph {text}')
    for value in (*model.graph.output, *model.graph.node[-1].attribute[0].g.output[1:]):
        value.type.tensor_type.ClearField("shape")
    for value in model.graph.node[-1].attribute[0].g.input[2:]:
        value.type.tensor_type.ClearField("shape")
    return model


def given(count: int = 3, go: bool = True, rows: int = 4) -> dict[str, Array]:
    random = np.random.default_rng(rows)
    x, row = (random.random((size, 3), np.float32) for size in (1, rows))
    return {"x": x, "row": row, "n": np.array(count), "go": np.array(go)}


def agree(model: ModelProto, *calls: dict[str, Array]) -> weft.Executable:
    run = weft.compile(model, threads=1)
    for call in calls:
        expected = run_onnxruntime(model, call)
        for ours, theirs in zip(run(**call), expected, strict=True):
            if not theirs.size:  # onnxruntime gives what is stacked no other dims then
                assert len(ours) == 0
                continue
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)
    return run


def sizes_of(model: ModelProto) -> int:
    """How many sizes the graph of a model finds."""
    return sum(len(defined_sizes(op)) for op in import_model(model).module.walk())


def test_a_state_of_one_row_is_stretched_once() -> None:
    model = loop(STRETCH)
    run = agree(model, given())
    assert [spec.dims for spec in run.outputs] == [(4, 3), (3, 4, 3)]
    assert sizes_of(model) == 0


@pytest.mark.parametrize("rows", ["4", "rows"])
@pytest.mark.parametrize(("body", "condition"), [(STRETCH, ""), (STRETCH, "go"), (STOPPED, "go")])
def test_as_many_iterations_as_a_call_says(rows: str, body: str, condition: str) -> None:
    model = loop(body, GIVEN, condition, rows)
    agree(model, given(3), given(1), given(0), given(5, go=False), given(9))


def test_a_state_whose_rank_changes_once() -> None:
    model = loop(RANKED)
    assert [len(spec.dims) for spec in agree(model, given()).outputs] == [3, 3]
    run = agree(loop(RANKED, GIVEN), given(3), given(1))
    with pytest.raises(weft.InputError, match="run requires an iteration .*, got none, at Loop_1"):
        run(**given(0))


def test_a_state_that_grows_has_a_size_that_is_found() -> None:
    model = loop(GROWING, GIVEN)
    agree(model, given(3), given(0), given(1))
    assert sizes_of(model) == 2  # the rows, and how many iterations there are


def test_a_state_whose_rank_changes_in_each_iteration() -> None:
    agree(loop(NESTING), given())
    with pytest.raises(
        weft.UnsupportedError, match=r"'Loop_1' \(Loop.* of one rank, or a known number"
    ):
        weft.compile(loop(NESTING, GIVEN), cache=False)
