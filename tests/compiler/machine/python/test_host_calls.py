"""Programs that call functions of Python: what they read and fill, in loops too, and how they fail."""

# ruff: noqa: E501

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import weft
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module
from weft.compiler.frontend.stablehlo.from_stablehlo import import_stablehlo, read_stablehlo
from weft.compiler.machine.python.host_calls import HostFunction
from weft.dialects.context import parse_module
from weft.dialects.errors import InputError
from weft.dialects.weights import WeightStore

PROGRAM = """
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> (tensor<2xi32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %table = stablehlo.constant dense<[5, 6]> : tensor<2xi32>
  %r:3 = stablehlo.while(%i = %zero, %y = %x, %z = %table) : tensor<i32>, tensor<3xf32>, tensor<2xi32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %f:2 = stablehlo.custom_call @weft.host_call(%y, %table) {backend_config = "NAME"} : (tensor<3xf32>, tensor<2xi32>) -> (tensor<3xf32>, tensor<2xi32>)
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %f#0, %f#1 : tensor<i32>, tensor<3xf32>, tensor<2xi32>
  }
  return %r#2, %r#1 : tensor<2xi32>, tensor<3xf32>
}
"""


def compiled(function: Callable[..., Sequence[Any]]) -> tuple[HostFunction, weft.Executable]:
    held = HostFunction(function)
    text = textwrap.dedent(PROGRAM).replace("NAME", held.name)
    return held, weft.compile(import_stablehlo(read_stablehlo(text, "program"), "program"))


def test_functions_are_called_in_loops_and_fill_what_they_return():
    seen: list[list[float]] = []

    def function(x: Any, table: Any) -> list[Any]:
        seen.append(x.tolist())
        return [x * np.float32(2), table + np.int32(len(seen))]

    _, executable = compiled(function)
    table, x = executable(np.array([1, 2, 3], "f"), np.int32(3))
    assert seen == [[1, 2, 3], [2, 4, 6], [4, 8, 12]]
    assert (table.tolist(), x.tolist()) == ([8, 9], [8, 16, 24])
    assert executable(np.ones(3, "f"), np.int32(0))[0].tolist() == [5, 6]


def test_what_a_function_raises_ends_the_call():
    calls: list[int] = []

    def function(x: Any, table: Any) -> list[Any]:
        calls.append(1)
        raise KeyError("why")

    _, executable = compiled(function)
    for count in (1, 2):
        with pytest.raises(KeyError, match="why"):
            executable(np.ones(3, "f"), np.int32(9))
        assert len(calls) == count


def test_results_are_of_the_types_that_the_program_states():
    _, executable = compiled(lambda x, table: [x.astype(np.float64), table])
    with pytest.raises(InputError, match=r"requires a result of float32\[3\], got float64\[3\]"):
        executable(np.ones(3, "f"), np.int32(1))


def test_a_program_requires_functions_that_are_there():
    held, _ = compiled(lambda x, table: [x, table])
    text = PROGRAM.replace("NAME", f"{held.name}0")
    with pytest.raises(InputError, match="requires the functions of this process"):
        weft.compile(import_stablehlo(read_stablehlo(text, "program"), "program"))


FOUND = """
func.func @main(%x: !graph.tensor<[n], i32>) -> !graph.tensor<[h, 2], i32> {
  %s = graph.host_call "ROWS"(%x) : (!graph.tensor<[n], i32>) -> !graph.tensor<[], i64>
  graph.bind_sizes %s {sizes = ["h"]} : !graph.tensor<[], i64>
  %y = graph.host_call "FILL"(%x) : (!graph.tensor<[n], i32>) -> !graph.tensor<[h, 2], i32>
  func.return %y : !graph.tensor<[h, 2], i32>
}
"""


def test_functions_say_how_much_others_fill():
    """What is no size, and more than there can be, ends the call; so does a result of another."""
    rows = HostFunction(lambda x: [x[0].astype(np.int64) << int(x[1])])
    fill = HostFunction(lambda x: [np.tile(x[:2], (3, 1))])
    text = FOUND.replace("ROWS", rows.name).replace("FILL", fill.name)
    module = parse_module(text, "found")
    executable = compile_module(module, WeightStore(), Options()).executable()
    (y,) = executable(np.array([3, 0, 9], np.int32))
    assert y.tolist() == [[3, 0]] * 3
    for start, shift, rule in (
        (-1, 0, "a size of"),
        (1, 61, "a size of"),
        (4, 0, r"\[4, 2\], got"),
    ):
        with pytest.raises(InputError, match=rule):
            executable(np.array([start, shift], np.int32))
