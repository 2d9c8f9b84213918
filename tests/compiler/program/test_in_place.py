"""Which results may take the memory of an operand, and gradients that depend on it (W1, W2)."""

import numpy as np
import pytest
from xdsl.parser import Parser

import weft
import weft.numpy as wnp
from weft.compiler.program.memory.in_place import in_place_arguments
from weft.dialects.context import WeftContext
from weft.dialects.loop.program import KernelOp

KIND = "!loop.buffer<[8], f32>"


def pairs_of(body: str) -> list[tuple[int, int]]:
    """The pairs that are found for a kernel that reads `%x` and writes `%y`."""
    text = f"loop.kernel @k(%x: {KIND}, %y: {KIND}) {{ {body.replace('T', KIND)} }}"
    kernel = next(iter(Parser(WeftContext(), text).parse_module().ops))
    assert isinstance(kernel, KernelOp)
    return [(pair.operand, pair.result) for pair in in_place_arguments(kernel)]


NEGATE = """loop.for %i = 0 to {count} {{
  %v{n} = loop.load %x[{index}] : T
  %w{n} = arith.negf %v{n} : f32
  loop.store %w{n}, %y[{index}] : T
}}"""

FILL = """%zero = arith.constant 0.0 : f32
loop.for %j = 0 to 8 { loop.store %zero, %y[%j] : T }
"""


def test_loads_in_front_of_each_store_go_in_place():
    assert pairs_of(NEGATE.format(n=0, count=8, index="%i")) == [(0, 1)]


def test_main_loop_and_remainder_go_in_place():
    main = NEGATE.format(n=0, count=6, index="%i")
    assert pairs_of(main + NEGATE.format(n=1, count=2, index="%i + 6")) == [(0, 1)]


def test_prefetched_results_and_operands_go_in_place():
    body = NEGATE.format(n=0, count=8, index="%i")
    ahead = "loop.prefetch %x[%i + 4] : T\n  loop.prefetch %y[%i + 4] : T\n  %v0 ="
    assert pairs_of(body.replace("%v0 =", ahead, 1)) == [(0, 1)]


def test_a_result_that_is_filled_first_does_not_go_in_place():
    """W1: stores in blocks without a load."""
    assert pairs_of(FILL + NEGATE.format(n=0, count=8, index="%i")) == []


def test_a_result_that_is_computed_twice_does_not_go_in_place():
    twice = NEGATE.format(n=0, count=8, index="%i") + NEGATE.format(n=1, count=8, index="%i")
    assert pairs_of(twice) == []


MATRIX = np.array([[3.0, 1.0], [1.0, 2.0]], np.float32)
VECTOR = np.array([[1.0], [2.0]], np.float32)


def gaussian_process(matrix, vector):
    """A likelihood, but for constants."""
    solved = wnp.linalg.solve(matrix, vector)
    return (vector * solved).sum() + wnp.log(wnp.linalg.det(matrix))


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize(
    "loss",
    [
        lambda s, b: (wnp.linalg.solve(s, b) ** 2).sum(),
        lambda s, b: (wnp.linalg.inv(s) ** 2).sum() + b.sum(),
        lambda s, b: wnp.linalg.slogdet(s).logabsdet + b.sum(),
        gaussian_process,
    ],
    ids=["solve", "inv", "eliminated", "gaussian process"],
)
def test_w1_gradients_through_linear_algebra_agree_with_eager(loss, naive):
    """W1."""
    gradient = weft.grad(loss)
    compiled = weft.trace(gradient, MATRIX, VECTOR, naive=naive)
    expected = gradient(weft.Tensor(MATRIX), weft.Tensor(VECTOR))
    np.testing.assert_allclose(compiled(MATRIX, VECTOR), np.asarray(expected), 1e-4, 1e-6)


@pytest.mark.parametrize("naive", [False, True])
def test_w2_gradients_through_scans_of_rows_agree_with_eager(naive):
    """W2."""

    def loss(x):
        def body(s, k):
            return s - wnp.take(s, k, 0)[None, :] * s, None

        s, _ = weft.scan(body, x, wnp.arange(2))
        return (s**2).sum()

    x = np.array([[0.3, 1.2], [0.7, -0.4]], np.float32)
    compiled = weft.trace(weft.grad(loss), x, naive=naive)
    np.testing.assert_allclose(compiled(x), np.asarray(weft.grad(loss)(weft.Tensor(x))), 1e-5)
