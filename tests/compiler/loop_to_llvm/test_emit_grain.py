"""The estimate of a loop's work, which decides whether and how finely threads share it."""

from tests.compiler.loop_to_llvm.compiled_kernel import parse_kernel
from weft.compiler.loop_to_llvm.parallel import grain
from weft.dialects.expr import Expr
from weft.dialects.loop.iteration_cost import (
    FUNCTION_OPERATIONS,
    GELU_OPERATIONS,
    GRAIN_OPERATIONS,
    iteration_cost,
)
from weft.dialects.loop.ops import ForOp

BUFFER = "!loop.buffer<[n, 64], f32>"


def outermost(body: str) -> ForOp:
    """The loop `i` over n around the body."""
    text = f"loop.kernel @k[n](%x: {BUFFER}) {{ loop.for %i = 0 to n parallel {{ {body} }} }}"
    (loop,) = parse_kernel(text).body.block.ops
    assert isinstance(loop, ForOp)
    return loop


def test_inner_loops_multiply_and_vectors_divide():
    access = f"%a = loop.load %x[%i, %j] : {BUFFER} loop.store %a, %x[%i, %j] : {BUFFER}"
    assert iteration_cost(outermost(f"loop.for %j = 0 to 64 {{ {access} }}")) == 2 * 64 + 1
    assert (
        iteration_cost(outermost(f"loop.for %j = 0 to 64 vector(16) {{ {access} }}")) == 2 * 4 + 1
    )


def test_functions_cost_more():
    line = f"%a = loop.load %x[%i, 0] : {BUFFER} %b = math.exp %a : f32"
    assert iteration_cost(outermost(line)) == 1 + FUNCTION_OPERATIONS + 1
    line = f"%a = loop.load %x[%i, 0] : {BUFFER} %b = loop.gelu %a : f32"
    assert iteration_cost(outermost(line)) == 1 + GELU_OPERATIONS + 1


def test_triangular_loops_count_their_widest_row():
    access = f"%a = loop.load %x[%i, %j] : {BUFFER}"
    cost = iteration_cost(
        outermost(f"loop.for %k = 0 to 10 {{ loop.for %j = 0 to %k {{ {access} }} }}")
    )
    assert cost == 10 * 10 + 1


def test_symbolic_work_gives_a_symbolic_grain():
    access = f"%a = loop.load %x[%j, 0] : {BUFFER}"
    chunk = grain(outermost(f"loop.for %j = 0 to n {{ {access} }}"))
    assert chunk == Expr.of(GRAIN_OPERATIONS).ceildiv(Expr.of("n") + 1)
