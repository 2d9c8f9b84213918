"""Control flow of the graph level: evaluated, lowered and interpreted, and compiled, with one
answer; programs without it are compiled as if there were none.
"""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from tests.compiler.loop.interpreter import run_program
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module
from weft.compiler.graph_to_loop.lower_graph import lower_module
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.context import WeftContext
from weft.dialects.errors import InputError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import WeightStore

SHORT = {
    "V": "!graph.tensor<[n], f32>",
    "I": "!graph.tensor<[], i64>",
    "B": "!graph.tensor<[], i1>",
}


def module_of(arguments: str, results: str, body: str) -> ModuleOp:
    """The module of a graph function; V, I and B stand for a vector of n, an i64 and a bool."""
    text = f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"
    for short, kind in SHORT.items():
        text = text.replace(f"<{short}>", kind)
    module = Parser(WeftContext(), text).parse_module()
    module.verify()
    assert str(Parser(WeftContext(), str(module)).parse_module()) == str(module)
    return module


def check(module: ModuleOp, *cases: tuple[np.ndarray, ...], **sizes: int) -> list[list[np.ndarray]]:
    """Compares what the graph, its program and its machine code give for inputs; returns it."""
    function = next(op for op in module.clone().ops if isinstance(op, FuncOp))
    lowered = module.clone()
    lower_module(lowered)
    lowered.verify()
    executable = compile_module(module, WeightStore(), Options(host_target())).executable(1)
    results: list[list[np.ndarray]] = []
    for inputs in cases:
        results.append(evaluate_block(function.body.block, inputs, sizes))
        interpreted = run_program(lowered, *inputs, weights=None, **sizes)
        for want, *others in zip(results[-1], interpreted, executable(*inputs), strict=True):
            for other in others:
                assert other.dtype == want.dtype
                np.testing.assert_allclose(other, want, rtol=1e-5)
    return results


X = np.arange(1, 6, dtype=np.float32)

CHOICE = """
%r = graph.if %c : (<B>) -> <V> {
  %e = graph.neg %x : (<V>) -> <V>
  %a = graph.add %e, %outer : (<V>, <V>) -> <V>
  graph.yield %a : <V>
} else {
  graph.yield %x : <V>
}
"""


def test_if_computes_one_branch_that_reads_outer_values():
    body = f"%outer = graph.exp %x : (<V>) -> <V>\n{CHOICE}\nfunc.return %r, %x : <V>, <V>"
    module = module_of("%c: <B>, %x: <V>", "<V>, <V>", body)
    (taken, _), (left, _) = check(module, (np.array(True), X), (np.array(False), X), n=5)
    np.testing.assert_allclose(taken, np.exp(X) - X, rtol=1e-5)
    np.testing.assert_array_equal(left, X)


def test_case_takes_the_last_region_for_numbers_without_one():
    body = """
    %r = graph.case %i : (<I>) -> <V> { graph.yield %x : <V> } or {
      %a = graph.add %x, %x : (<V>, <V>) -> <V>
      graph.yield %a : <V>
    } or {
      %b = graph.neg %x : (<V>) -> <V>
      graph.yield %b : <V>
    }
    func.return %r : <V>"""
    numbers = (-7, 0, 1, 2, 9)
    module = module_of("%i: <I>, %x: <V>", "<V>", body)
    results = check(module, *((np.array(number), X) for number in numbers), n=5)
    for number, (result,) in zip(numbers, results, strict=True):
        np.testing.assert_array_equal(result, {0: X, 1: X + X}.get(number, -X))


def test_if_with_branches_of_different_sizes_gives_a_size_that_the_program_finds():
    body = """
    %r = graph.if %c {sizes = ["m"]} : (<B>) -> !graph.tensor<[m], f32> {
      %e = graph.concat %x, %x {axis = 0 : i64} : (<V>, <V>) -> !graph.tensor<[2 * n], f32>
      graph.yield %e : !graph.tensor<[2 * n], f32>
    } else { graph.yield %x : <V> }
    %s = graph.neg %r : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
    func.return %s : !graph.tensor<[m], f32>"""
    module = module_of("%c: <B>, %x: <V>", "!graph.tensor<[m], f32>", body)
    (long,), (short,) = check(module, (np.array(True), X), (np.array(False), X), n=5)
    assert (long.shape, short.shape) == ((10,), (5,))


SWAP = """
%a, %b, %all = graph.for %x, %y {count = #graph.shape<[k]>, index = "i"}
    : (<V>, <V>) -> (<V>, <V>, !graph.tensor<[k, n], f32>) {
^body(%p: <V>, %q: <V>):
  %s = graph.add %p, %q : (<V>, <V>) -> <V>
  graph.yield %q, %s, %p : <V>, <V>, <V>
}
"""


def test_for_carries_values_that_change_places():
    kinds = "<V>, <V>, !graph.tensor<[k, n], f32>"
    bind = '%n {sizes = ["k"]}'
    body = f"graph.bind_sizes {bind} : <I>\n{SWAP}\nfunc.return %a, %b, %all : {kinds}"
    module = module_of("%n: <I>, %x: <V>, %y: <V>", kinds, body)
    fibonacci = [1, 1, 2, 3, 5, 8, 13]
    results = check(module, *((np.array(rounds), X, X) for rounds in (0, 1, 5)), n=5)
    for rounds, (first, second, every) in zip((0, 1, 5), results, strict=True):
        np.testing.assert_allclose(first, X * fibonacci[rounds])
        np.testing.assert_allclose(second, X * fibonacci[rounds + 1])
        assert every.shape == (rounds, 5)


DOUBLING = """
%r, %all = graph.while %x {index = "i", count = "rounds", sizes = ["m"]}
    : (<V>) -> (!graph.tensor<[m], f32>, !graph.tensor<[rounds], i64>) {
^condition(%s: !graph.tensor<[m], f32>):
  %size = graph.size %s : (!graph.tensor<[m], f32>) -> <I>
  %holds = graph.less %size, %limit : (<I>, <I>) -> <B>
  graph.condition %holds : <B>
} do {
^body(%s2: !graph.tensor<[m], f32>):
  %d = graph.concat %s2, %s2 {axis = 0 : i64}
      : (!graph.tensor<[m], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[2 * m], f32>
  %number = graph.dims {values = #graph.shape<[i]>, scalar} : () -> <I>
  graph.yield %d, %number : !graph.tensor<[2 * m], f32>, <I>
}
func.return %r, %all : !graph.tensor<[m], f32>, !graph.tensor<[rounds], i64>"""


def test_while_grows_what_it_carries_and_collects():
    kinds = "!graph.tensor<[m], f32>, !graph.tensor<[rounds], i64>"
    module = module_of("%limit: <I>, %x: <V>", kinds, DOUBLING)
    limits = (4000, 0, 6)
    results = check(module, *((np.array(limit), X) for limit in limits), n=5)
    for limit, (result, numbers) in zip(limits, results, strict=True):
        rounds = next(k for k in range(20) if 5 << k >= limit)
        assert result.shape == (5 << rounds,)
        np.testing.assert_array_equal(numbers, np.arange(rounds))


COUNTING = """
graph.bind_sizes %n {sizes = ["k"]} : <I>
%r = graph.range %a, %b {size = #graph.shape<[k]>} : (<I>, <I>) -> !graph.tensor<[k], i64>
func.return %r : !graph.tensor<[k], i64>"""


def test_a_size_that_is_no_extent_is_an_error_of_the_call():
    module = module_of("%n: <I>, %a: <I>, %b: <I>", "!graph.tensor<[k], i64>", COUNTING)
    executable = compile_module(module, WeightStore(), Options(host_target())).executable(1)
    with pytest.raises(InputError, match="requires a size of 0 to [0-9]* for k, got -3"):
        executable(np.array(-3), np.array(0), np.array(1))
    with pytest.raises(InputError, match=r"no more bytes, for a tensor of shape \(k,\)"):
        executable(np.array(1 << 45), np.array(0), np.array(1))
    np.testing.assert_array_equal(executable(np.array(3), np.array(4), np.array(2))[0], [4, 6, 8])


def test_loops_nest_and_their_rounds_are_subscripts():
    body = """
    %r = graph.for %x {count = #graph.shape<[3]>, index = "i"} : (<V>) -> <V> {
    ^outer(%s: <V>):
      %t = graph.for %s {count = #graph.shape<[i + 1]>, index = "j"} : (<V>) -> <V> {
      ^inner(%u: <V>):
        %row = graph.slice %m {
              starts = #graph.shape<[i, 0]>, sizes = #graph.shape<[1, n]>,
              steps = array<i64: 1, 1>}
            : (!graph.tensor<[3, n], f32>) -> !graph.tensor<[1, n], f32>
        %v = graph.reshape %row {shape = #graph.shape<[n]>} : (!graph.tensor<[1, n], f32>) -> <V>
        %w = graph.add %u, %v : (<V>, <V>) -> <V>
        graph.yield %w : <V>
      }
      graph.yield %t : <V>
    }
    func.return %r : <V>"""
    module = module_of("%x: <V>, %m: !graph.tensor<[3, n], f32>", "<V>", body)
    rows = np.arange(15, dtype=np.float32).reshape(3, 5)
    ((result,),) = check(module, (X, rows), n=5)
    np.testing.assert_allclose(result, X + rows[0] + 2 * rows[1] + 3 * rows[2])
