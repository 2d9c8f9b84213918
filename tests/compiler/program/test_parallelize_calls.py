"""Calls that run at the same time: results are the same bits, and no branch touches what another
one writes.
"""

import itertools
from collections.abc import Iterator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.parser import Parser

import weft
from tests.compiler.loop.interpreter import run_program
from weft.compiler.driver.kernel_makers import ScheduledKernels
from weft.compiler.driver.lowering import UNSCHEDULED, lower
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module, optimize_graph
from weft.compiler.driver.session import Session
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.call_time import call_time
from weft.compiler.program.memory.plan_memory import buffer_bytes, kernels_of, plan_memory
from weft.compiler.program.parallelize_calls import (
    LEAST_GAIN,
    ThreadModel,
    concurrent_groups,
    parallelize_calls,
    written_arguments,
)
from weft.compiler.target.x86_cpus import ZEN_4
from weft.dialects.context import WeftContext
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dynamic import root
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import CallOp, ProgramOp
from weft.dialects.loop.types import buffer_type_of

KERNELS = """
loop.kernel @add(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>,
                 %z: !loop.buffer<[16], f32>) {
  loop.for %i = 0 to 16 {
    %a = loop.load %x[%i] : !loop.buffer<[16], f32>
    %b = loop.load %y[%i] : !loop.buffer<[16], f32>
    %c = arith.addf %a, %b : f32
    loop.store %c, %z[%i] : !loop.buffer<[16], f32>
  }
}
loop.kernel @turn(%x: !loop.buffer<[4, 4], f32>, %z: !loop.buffer<[16], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      %a = loop.load %x[%j, %i] : !loop.buffer<[4, 4], f32>
      loop.store %a, %z[4 * %i + %j] : !loop.buffer<[16], f32>
    }
  }
}
"""
SIXTEEN = "!loop.buffer<[16], f32>"
FOURS = "!loop.buffer<[4, 4], f32>"

Step = tuple[bool, int, int, int | None]
"""Whether it adds, its operands, and an older buffer that it writes."""

STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 99),
        st.integers(0, 99),
        st.none() | st.none() | st.integers(0, 99),
    ),
    min_size=2,
    max_size=14,
)


def _module(steps: list[Step]) -> ModuleOp:
    """A program that computes buffers from each other, some of them anew, and adds up the last."""
    lines: list[str] = []
    names = ["%in0", "%in1"]
    made: list[str] = []
    for number, (adds, one, two, older) in enumerate(steps):
        first, second = names[one % len(names)], names[two % len(names)]
        target = made[older % len(made)] if older is not None and made else f"%b{number}"
        if target in (first, second) and not adds:
            target = f"%b{number}"
        if target not in names:
            lines.append(f"{target} = loop.alloc workspace : {SIXTEEN}")
            names.append(target)
            made.append(target)
        if adds:
            types = ", ".join([SIXTEEN] * 3)
            lines.append(f"loop.call @add({first}, {second}, {target}) : {types}")
        else:
            lines.append(f"%v{number} = loop.view {first} : {SIXTEEN} to {FOURS}")
            lines.append(f"loop.call @turn(%v{number}, {target}) : {FOURS}, {SIXTEEN}")
    last = made[-1], names[len(names) // 2]
    lines.append(f"loop.call @add({last[0]}, {last[1]}, %out) : {', '.join([SIXTEEN] * 3)}")
    arguments = ", ".join(f"%{name}: {SIXTEEN}" for name in ("in0", "in1", "out"))
    text = f"{KERNELS}loop.program @main({arguments}) inputs 2 {{\n{chr(10).join(lines)}\n}}"
    return Parser(WeftContext(), text).parse_module()


def _program(module: ModuleOp) -> ProgramOp:
    return next(op for op in module.ops if isinstance(op, ProgramOp))


def _overlapped(module: ModuleOp) -> ModuleOp:
    """A copy whose calls are grouped as often as they may be."""
    copy = module.clone()
    model = ThreadModel(wake=0, wake_each=0, share=1e9)
    parallelize_calls(_program(copy), kernels_of(copy), lambda call: 1e6, 2, model)
    copy.verify()
    return copy


Span = tuple[object, int, int]


def _spans(branch: Block, *, written: bool, module: ModuleOp) -> Iterator[Span]:
    """Where a branch reads, or where it writes: in which memory, from where, and to where."""
    kernels = kernels_of(module)
    for call in branch.ops:
        for position, argument in enumerate(call.operands if isinstance(call, CallOp) else ()):
            assert isinstance(call, CallOp)
            if (position in written_arguments(kernels[call.kernel])) is written:
                base, size = root(argument), buffer_bytes(buffer_type_of(argument)).constant
                assert size is not None
                if isinstance(base.owner, AllocOp):
                    assert base.owner.offset is not None
                    start = base.owner.offset.data[0].constant or 0
                    yield None, start, start + size
                else:
                    yield base, 0, size


def _meet(one: Span, other: Span) -> bool:
    return one[0] is other[0] and one[1] < other[2] and other[1] < one[2]


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_branches_do_not_depend_on_each_other(steps: list[Step]):
    module = _module(steps)
    module.verify()
    x, y = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    overlapped = _overlapped(module)
    (expected,) = run_program(module, x, y)
    (got,) = run_program(overlapped, x, y)
    assert got.tobytes() == expected.tobytes()
    plan_memory(_program(overlapped), kernels_of(overlapped))
    for op in overlapped.walk():
        blocks = [region.block for region in op.branches] if isinstance(op, ConcurrentOp) else ()
        for one, other in itertools.permutations(blocks, 2):
            touched = [
                *_spans(other, written=False, module=overlapped),
                *_spans(other, written=True, module=overlapped),
            ]
            for span in _spans(one, written=True, module=overlapped):
                assert not any(_meet(span, each) for each in touched)


def test_chains_become_branches():
    steps = [(True, 0, 0, None), (True, 1, 1, None), (True, 2, 2, None), (True, 3, 3, None)]
    overlapped = _overlapped(_module(steps))
    (op,) = [op for op in overlapped.walk() if isinstance(op, ConcurrentOp)]
    calls = [sum(isinstance(each, CallOp) for each in r.block.ops) for r in op.branches]
    assert calls == [3, 2]


def _towers(rows: int = 3, width: int = 96) -> weft.Graph:
    """Two chains of products that meet in the end."""
    rng = np.random.default_rng(0)
    graph = weft.Graph("towers")
    ends = []
    for number in range(2):
        value = graph.input(f"x{number}", "float32", (rows, width))
        for _ in range(3):
            weight = rng.standard_normal((width, width)).astype(np.float32) / 8
            value = graph.op("tanh", value @ graph.constant(weight))
        ends.append(value)
    graph.output("y", ends[0] * ends[1])
    return graph


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize(
    ("rows", "width", "pays"), [(1, 256, True), (8, 128, True), (512, 512, False)]
)
def test_the_model_puts_small_chains_side_by_side(threads: int, rows: int, width: int, pays: bool):
    model = _towers(rows, width).imported()
    session = Session(Options(ZEN_4))  # another CPU computes such small products in no time
    optimize_graph(model.module, WeftContext(model.weights), session)
    lower(model.module, model.weights, ScheduledKernels(session), session, UNSCHEDULED)
    kernels = kernels_of(model.module)
    time = call_time(kernels, session.options.target)
    parallelize_calls(_program(model.module), kernels, time, threads)
    groups = concurrent_groups(_program(model.module), time)
    assert [len(group.branches) for group in groups] == ([2] if pays else [])
    for group in groups:
        one_by_one, together = group.modelled[threads]
        assert together * LEAST_GAIN <= one_by_one


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_results_are_the_same_bits_side_by_side(threads: int, monkeypatch: pytest.MonkeyPatch):
    inputs = np.random.default_rng(1).standard_normal((2, 3, 96)).astype(np.float32)
    model = _towers().imported()
    alone = compile_module(model.module.clone(), model.weights, Options(host_target()))
    monkeypatch.setattr(
        "weft.compiler.program.parallelize_calls.call_time", lambda *_: lambda call: 3900.0
    )
    beside = compile_module(model.module, model.weights, Options(host_target()))
    (group,) = beside.metadata["concurrent"]
    assert len(group["branches"]) == 2
    assert alone.metadata["concurrent"] == []
    (expected,) = alone.executable(1)(*inputs)
    executable = beside.executable(threads)
    for _ in range(200):
        (got,) = executable(*inputs)
        assert got.tobytes() == expected.tobytes()
