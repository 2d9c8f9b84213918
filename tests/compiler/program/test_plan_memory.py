"""The memory plan on random programs: buffers that are alive together never overlap."""

from collections.abc import Mapping
from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given, settings
from xdsl.dialects.builtin import f32

from weft.compiler.program.memory.plan_memory import ALIGNMENT, buffer_bytes, lifetimes, plan_memory
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import WORKSPACE_BYTES, CallOp, KernelOp, ProgramOp, ViewOp
from weft.dialects.loop.types import ExprsAttr, buffer, buffer_type_of

SYMBOLS = ("m", "n")
SIZES = st.integers(0, 200).map(Expr.of) | st.builds(
    lambda factor, name, more: factor * Expr.of(name) + more,
    st.integers(1, 40),
    st.sampled_from(SYMBOLS),
    st.sampled_from([Expr.of(0), Expr.of(7), Expr.of("m"), Expr.of("n")]),
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[ProgramOp, dict[str, KernelOp]]:
    """Calls that each fill a new buffer from some earlier ones, a few of them through views."""
    program = ProgramOp.of("main", SYMBOLS, [], 0)
    kernels: dict[str, KernelOp] = {}
    values = []
    for number in range(draw(st.integers(1, 12))):
        alloc = AllocOp.of(buffer([draw(SIZES)], f32))
        read = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
        arguments = [*read, alloc.result]
        kernel = KernelOp.of(f"k{number}", SYMBOLS, [buffer_type_of(value) for value in arguments])
        kernels[f"k{number}"] = kernel
        call = CallOp.of(f"k{number}", [Expr.of(name) for name in SYMBOLS], arguments)
        program.body.block.add_ops([alloc, call])
        values.append(alloc.result)
        if draw(st.booleans()):
            view = ViewOp.of(alloc.result, buffer([1, *buffer_type_of(alloc.result).shape], f32))
            program.body.block.add_op(view)
            values.append(view.result)
    return program, kernels


def offset_of(alloc: AllocOp, values: Mapping[Atom, int]) -> int:
    assert alloc.offset is not None, "the plan places every buffer"
    return alloc.offset.data[0].evaluate(values)


def arena_of(program: ProgramOp, values: Mapping[Atom, int]) -> int:
    size = program.attributes[WORKSPACE_BYTES]
    assert isinstance(size, ExprsAttr)
    return size.data[0].evaluate(values)


@settings(max_examples=200)
@given(programs(), st.integers(0, 50), st.integers(0, 50))
def test_buffers_that_live_together_lie_apart(drawn, m, n):
    program, kernels = drawn
    plan_memory(program, kernels)
    values: dict[Atom, int] = {Symbol("m"): m, Symbol("n"): n}
    spans = [
        (life, offset_of(life.alloc, values), buffer_bytes(buffer_type_of(life.alloc.result)))
        for life in lifetimes(program)
    ]
    for life, offset, size in spans:
        assert offset % ALIGNMENT == 0, life
        assert 0 <= offset <= offset + size.evaluate(values) <= arena_of(program, values)
    for (one, first, extent), (other, second, length) in combinations(spans, 2):
        if one.overlaps(other):
            apart = first + extent.evaluate(values) <= second
            assert apart or second + length.evaluate(values) <= first


@given(programs())
def test_arena_is_never_larger_than_all_buffers_together(drawn):
    program, kernels = drawn
    values: dict[Atom, int] = {Symbol("m"): 3, Symbol("n"): 5}
    total = sum(life.size.evaluate(values) for life in lifetimes(program))
    plan_memory(program, kernels)
    assert arena_of(program, values) <= total


def test_a_chain_of_equal_buffers_needs_two():
    program = ProgramOp.of("main", ["n"], [], 0)
    kind = buffer([64 * Expr.of("n")], f32)
    previous = None
    for _ in range(6):
        alloc = AllocOp.of(kind)
        arguments = [alloc.result] if previous is None else [previous, alloc.result]
        name = f"k{len(arguments)}"
        program.body.block.add_ops([alloc, CallOp.of(name, [Expr.of("n")], arguments)])
        previous = alloc.result
    kernels = {f"k{count}": KernelOp.of(f"k{count}", ["n"], [kind] * count) for count in (1, 2)}
    assert plan_memory(program, kernels) == 2 * 256 * Expr.of("n")
