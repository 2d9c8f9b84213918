"""Loops write to what they carry instead of copying it each round."""

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.loop.dynamic import CopyOp
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import ProgramOp

ROWS, COLUMNS = 6, 40
BODIES = {
    "scatter": "z = ScatterND(a, place, row)",
    "scatter twice": "o = Constant<value = int64[1, 1] {2}>() u = Add(row, row) "
    "w = ScatterND(a, place, row) z = ScatterND(w, o, u)",
    "add": "z = Add(a, row)",
    "old value too": "w = ScatterND(a, place, row) z = Add(w, a)",
    "backwards": "k = Constant<value = int64[6] {5, 4, 3, 2, 1, 0}>() z = Gather(a, k)",
}
IN_PLACE = ("scatter", "scatter twice", "add")


def loop(body: str, element: str = "float") -> ModelProto:
    kind = f"{element}[{ROWS}, {COLUMNS}]"
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
    g (int64 n, {kind} s, {element}[1, {COLUMNS}] row) => ({kind} r) {{
      t = Constant<value = bool {{1}}>()
      r = Loop(n, t, s) <body = b (int64 i, bool c, {kind} a) => (bool d, {kind} z) {{
        d = Identity(c)
        rows = Constant<value = int64 {{{ROWS}}}>()
        p = Mod(i, rows)
        axes = Constant<value = int64[2] {{0, 1}}>()
        place = Unsqueeze(p, axes)
        {body}
      }}>
    }}""")


def expected(name: str, iterations: int, state: np.ndarray, row: np.ndarray) -> np.ndarray:
    for i in range(iterations):
        written = state.copy()
        written[i % ROWS] = row[0]
        state = {
            "scatter": written,
            "scatter twice": np.where(np.arange(ROWS)[:, None] == 2, row + row, written),
            "add": state + row,
            "old value too": written + state,
            "backwards": state[::-1],
        }[name]
    return state


@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize("name", BODIES)
def test_rounds_see_what_earlier_ones_wrote(name: str, element: str) -> None:
    run = weft.compile(loop(BODIES[name], element))
    dtype = {"float": np.float32, "float16": np.float16}[element]
    state = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(dtype)
    row = np.ones((1, COLUMNS), dtype)
    for iterations in (0, 1, 4):
        (given,) = run(np.int64(iterations), state, row)
        np.testing.assert_array_equal(given, expected(name, iterations, state, row))


@pytest.mark.parametrize("name", BODIES)
def test_copies_are_left_where_the_old_value_is_still_read(name: str) -> None:
    session = Session(Options(host_target()))
    imported = plan_model(loop(BODIES[name]), session)
    program = next(op for op in imported.module.ops if isinstance(op, ProgramOp))
    loops = [op for op in program.walk() if isinstance(op, ForOp)]
    copies = [op for each in loops for op in each.walk() if isinstance(op, CopyOp)]
    assert bool(copies) != (name in IN_PLACE)
