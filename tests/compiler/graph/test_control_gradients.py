"""Derivatives of control flow are slopes of differences, once and twice; evaluated and compiled."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

import weft
import weft.numpy as wnp
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module
from weft.compiler.graph.differentiate.differentiate import append_gradients
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.context import WeftContext
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import Array, WeightStore

SHORT = {
    "V": "!graph.tensor<[n], f64>",
    "M": "!graph.tensor<[n, n], f64>",
    "R": "!graph.tensor<[k, n], f64>",
    "S": "!graph.tensor<[], f64>",
    "I": "!graph.tensor<[], i64>",
    "B": "!graph.tensor<[], i1>",
}
SUM = "%y = graph.reduce_sum %r {axes = array<i64: 0>, keepdims = false} : (<V>) -> <S>"
DOT = """
  %p{0} = graph.mul %a{0}, %b{0} : (<V>, <V>) -> <V>
  %s{0} = graph.reduce_sum %p{0} {{axes = array<i64: 0>, keepdims = false}} : (<V>) -> <S>"""
TIMES = 'graph.einsum %w, {0} {{equation = "ij,j->i"}} : (<M>, <V>) -> <V>'

IF = f"""
%r = graph.if %c : (<B>) -> <V> {{
  %t = {TIMES.format("%x")}
  %h = graph.tanh %t : (<V>) -> <V>
  %e = graph.mul %h, %x : (<V>, <V>) -> <V>
  graph.yield %e : <V>
}} else {{
  %u = {TIMES.format("%z")}
  %v = graph.exp %u : (<V>) -> <V>
  graph.yield %v : <V>
}}
{SUM}"""

CASE = f"""
%r = graph.case %i : (<I>) -> <V> {{
  %t = graph.sin %x : (<V>) -> <V>
  graph.yield %t : <V>
}} or {{
  graph.yield %z : <V>
}} or {{
  %u = {TIMES.format("%z")}
  %v = graph.mul %u, %x : (<V>, <V>) -> <V>
  graph.yield %v : <V>
}}
{SUM}"""

FOR = f"""
%f, %all = graph.for %x {{count = #graph.shape<[k]>, index = "i"}} : (<V>) -> (<V>, <R>) {{
^body(%s: <V>):
  %t = {TIMES.format("%s")}
  %h = graph.tanh %t : (<V>) -> <V>
  %row = graph.slice %rows {{starts = #graph.shape<[i, 0]>, sizes = #graph.shape<[1, n]>,
      steps = array<i64: 1, 1>}} : (<R>) -> !graph.tensor<[1, n], f64>
  %g = graph.reshape %row {{shape = #graph.shape<[n]>}} : (!graph.tensor<[1, n], f64>) -> <V>
  %m = graph.mul %h, %g : (<V>, <V>) -> <V>
  %o = graph.add %m, %s : (<V>, <V>) -> <V>
  graph.yield %o, %m : <V>, <V>
}}
%q = graph.reduce_sum %all {{axes = array<i64: 0>, keepdims = false}} : (<R>) -> <V>
%r = graph.mul %q, %f : (<V>, <V>) -> <V>
{SUM}"""

WHILE = f"""
%r = graph.while %x {{index = "i", count = "iterations"}} : (<V>) -> <V> {{
^condition(%p: <V>):
  %n0 = graph.reduce_sum %p {{axes = array<i64: 0>, keepdims = false}} : (<V>) -> <S>
  %l = graph.less %n0, %limit : (<S>, <S>) -> <B>
  graph.condition %l : <B>
}} do {{
^body(%s: <V>):
  %q = graph.mul %s, %s : (<V>, <V>) -> <V>
  %h = graph.mul %q, %z : (<V>, <V>) -> <V>
  %t = {TIMES.format("%h")}
  %e = graph.exp %t : (<V>) -> <V>
  %o = graph.add %e, %s : (<V>, <V>) -> <V>
  graph.yield %o : <V>
}}
{SUM}"""

NESTED = f"""
%r = graph.for %x {{count = #graph.shape<[3]>, index = "i"}} : (<V>) -> <V> {{
^outer(%s: <V>):
  %w1 = graph.while %s {{index = "j", count = "iterations"}} : (<V>) -> <V> {{
  ^condition(%p: <V>):
    %n0 = graph.reduce_sum %p {{axes = array<i64: 0>, keepdims = false}} : (<V>) -> <S>
    %l = graph.less %n0, %limit : (<S>, <S>) -> <B>
    graph.condition %l : <B>
  }} do {{
  ^body(%a: <V>):
    %b = graph.exp %a : (<V>) -> <V>
    %q = graph.mul %z, %z : (<V>, <V>) -> <V>
    %f = graph.mul %b, %q : (<V>, <V>) -> <V>
    %d = graph.add %f, %a : (<V>, <V>) -> <V>
    graph.yield %d : <V>
  }}
  %h = graph.sin %w1 : (<V>) -> <V>
  %m = graph.reduce_sum %h {{axes = array<i64: 0>, keepdims = false}} : (<V>) -> <S>
  %g = graph.less %m, %limit : (<S>, <S>) -> <B>
  %k = graph.if %g : (<B>) -> <V> {{
    %t = {TIMES.format("%h")}
    %u = graph.tanh %t : (<V>) -> <V>
    %v = graph.mul %u, %h : (<V>, <V>) -> <V>
    graph.yield %v : <V>
  }} else {{
    %o = graph.mul %h, %s : (<V>, <V>) -> <V>
    graph.yield %o : <V>
  }}
  graph.yield %k : <V>
}}
{SUM}"""

CHECKPOINT = f"""
%r = graph.checkpoint : () -> <V> {{
  %t = {TIMES.format("%x")}
  %h = graph.tanh %t : (<V>) -> <V>
  %e = graph.mul %h, %z : (<V>, <V>) -> <V>
  graph.yield %e : <V>
}}
{SUM}"""

CUSTOM = f"""
%r, %kept = graph.custom_vjp %x {{residuals = #builtin.int<1>}} : (<V>) -> (<V>, <V>) {{
^body(%a: <V>):
  %e = graph.exp %a : (<V>) -> <V>
  %s = graph.sin %e : (<V>) -> <V>
  graph.yield %s, %e : <V>, <V>
}} vjp {{
^derivative(%e: <V>, %d: <V>):
  %c = graph.cos %e : (<V>) -> <V>
  %f = graph.mul %c, %e : (<V>, <V>) -> <V>
  %g = graph.mul %f, %d : (<V>, <V>) -> <V>
  graph.yield %g : <V>
}}
{SUM}"""

PROGRAMS = {
    "if": (IF, "%c: <B>", (np.array(True),)),
    "else": (IF, "%c: <B>", (np.array(False),)),
    **{f"case {n}": (CASE, "%i: <I>", (np.array(n),)) for n in (0, 1, 2, 7)},
    **{
        f"for {n}": (FOR, "%rows: <R>", (np.random.default_rng(5).normal(size=(n, 4)),))
        for n in (1, 3, 6)
    },
    **{f"while {n}": (WHILE, "%limit: <S>", (np.array(n),)) for n in (-9.0, 5.0, 9.0)},
    "nested": (NESTED, "%limit: <S>", (np.array(0.9),)),
    "checkpoint": (CHECKPOINT, "", ()),
    "custom": (CUSTOM, "", ()),
}
RNG = np.random.default_rng(3)
FLOATS = (RNG.normal(size=4) * 0.3, RNG.normal(size=4), RNG.normal(size=(4, 4)) * 0.5)


def function_of(name: str) -> tuple[ModuleOp, FuncOp, list[Array]]:
    body, extra, arrays = PROGRAMS[name]
    arguments = ", ".join(filter(None, ["%x: <V>, %z: <V>, %w: <M>", extra]))
    text = f"func.func @main({arguments}) -> <S> {{\n{body}\nfunc.return %y : <S>\n}}"
    for short, kind in SHORT.items():
        text = text.replace(f"<{short}>", kind)
    module = Parser(WeftContext(), text).parse_module()
    module.verify()
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    return module, function, [*FLOATS, *arrays]


def run(function: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    sizes = {"n": 4}
    return evaluate_block(function.body.block, inputs, sizes)


def check_slopes(
    function: FuncOp, inputs: Sequence[Array], positions: Sequence[int], found: Sequence[Array]
) -> None:
    """Compares derivatives of the first result with differences along a direction of each input."""
    rng = np.random.default_rng(0)
    for position, slope in zip(positions, found, strict=True):
        direction = rng.normal(size=slope.shape)
        values: list[float] = []
        for step in (1e-6, -1e-6):
            moved = list(inputs)
            moved[position] = inputs[position] + step * direction
            values.append(float(run(function, moved)[0]))
        expected = (values[0] - values[1]) / 2e-6
        assert (slope * direction).sum() == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_slopes_and_compiled(name: str):
    module, function, inputs = function_of(name)
    plain = function.clone()
    positions = [0, 1, 2, *([3] if name.startswith("for") else [])]
    append_gradients(function, [("x", "z", "w", "rows")[position] for position in positions])
    module.verify()
    text = str(module)
    assert str(Parser(WeftContext(), text).parse_module()) == text
    value, *found = run(function, inputs)
    check_slopes(plain, inputs, positions, found)
    compiled = compile_module(module, WeightStore(), Options(host_target())).executable(1)
    for got, want in zip(compiled(*inputs), [value, *found], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_derivatives_are_slopes(name: str):
    module, function, inputs = function_of(name)
    append_gradients(function, ["x", "z"])
    last = function.get_return_op()
    assert last is not None
    b = GraphBuilder(InsertPoint.before(last), OPS_BY_NAME)
    weighted = [b.mul(slope, b.sin(slope)) for slope in last.operands[1:3]]
    total = b.reduce_sum(b.add(*weighted), axes=[0], keepdims=False)
    last.operands = [total, *last.operands[1:]]
    plain = function.clone()
    append_gradients(function, ["x", "z", "w"])
    module.verify()
    check_slopes(plain, inputs, [0, 1, 2], run(function, inputs)[-3:])


def test_a_loop_of_no_rounds_hands_cotangents_on():
    def loss(x, y):
        end = weft.fori_loop(0, 0, lambda _, s: wnp.tanh(s * y), x)
        return (end**2).sum() + (x * y).sum()

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    found = weft.trace(weft.grad(loss, (0, 1)), x, y)(x, y)
    np.testing.assert_allclose(found, [2 * x + y, x])
