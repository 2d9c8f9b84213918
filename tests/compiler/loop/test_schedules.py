"""Schedules take every kernel: none fails, and none changes what a kernel computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from xdsl.dialects.builtin import ArrayAttr, Float16Type, IntAttr, NoneAttr

from tests.compiler.loop import kernels
from tests.compiler.loop.interpreter import run_kernel
from tests.support import oracle
from tests.support.sample import Sample
from tests.support.samples import SAMPLES
from weft.compiler.graph_to_loop.naive_kernels import copy_kernel, lower_group
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.nest import child_loops, loops_in, perfect_nest
from weft.compiler.loop.primitives import tile
from weft.compiler.loop.schedule_file import apply_schedule
from weft.compiler.loop.schedules import (
    SCHEDULES,
    Schedule,
    attention,
    contraction,
    leading_reduction,
    schedule_kernel,
    sliding_window,
)
from weft.compiler.loop.schedules.contraction import Choose
from weft.compiler.loop.schedules.gemm import blocks, small_n, split_k
from weft.compiler.loop.schedules.gemm.macro_kernel import apply_plan
from weft.compiler.loop.schedules.gemm.plan import Packing, Plan
from weft.compiler.loop.schedules.gemm.plans import first_plan, plan_with
from weft.compiler.loop.schedules.gemm.problem import Nests, Problem
from weft.compiler.loop.schedules.gemm.tile_params import (
    Params,
    default_params,
    tiles,
    wide_params,
)
from weft.compiler.loop.schedules.gemm.views import View
from weft.compiler.target.module_target import GENERIC
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.graph import OPS, OPS_BY_NAME, GraphOp, group_of
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import type_of
from weft.dialects.loop.ops import AllocOp, ForOp, StoreOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import F32
from weft.dialects.loop.types import buffer_type_of

WIDE = Target("wide", "x86_64-unknown-linux-gnu", "x86-64-v4", (), 64, 32, has_fma=True)
TARGETS = (GENERIC, WIDE)
TOLERANCE = {"float64": 1e-11, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Sums may be reassociated."""


@pytest.mark.parametrize("cls", OPS, ids=lambda cls: cls.name.removeprefix("graph."))
@settings(max_examples=3)
@given(data=st.data())
def test_scheduled_operators_compute_the_same(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    op = oracle.operator(cls, sample)
    group = group_of(op)
    naive = lower_group(group, list(group.body.block.args), {})
    arguments = [*dict(zip(op.operands, sample.present, strict=True)).values()]
    arguments += [blank(type_of(result)) for result in op.results]
    expected = run_kernel(naive, *arguments)
    for target in TARGETS:
        scheduled = naive.clone()
        steps = schedule_kernel(scheduled, target).steps
        scheduled.verify()
        again = naive.clone()
        apply_schedule(again, KernelSchedule("again", steps), target)
        assert str(again) == str(scheduled), "a schedule is its primitives, and nothing else"
        got = run_kernel(scheduled, *arguments, scramble=True)
        for actual, array in zip(got, expected, strict=True):
            check(actual, array)


def blank(kind):
    return np.zeros(kind.static_shape, numpy_dtype(kind.element))


def check(actual, expected) -> None:
    tolerance = TOLERANCE.get(expected.dtype.name, 0)
    wide = expected.astype(np.float64) if tolerance else expected
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1.0) if tolerance else 0
    np.testing.assert_allclose(
        actual.astype(wide.dtype), wide, rtol=tolerance, atol=tolerance * scale
    )


@pytest.mark.parametrize("build", [kernels.prefix_sum, kernels.scatter])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_no_schedule_may_reorder_stays_serial(build, target):
    op: KernelOp = build()
    schedule_kernel(op, target)
    kernels.same(build(), op)
    loops = [loop for loop in op.walk() if isinstance(loop, ForOp)]
    assert loops
    assert not any(loop.vector or loop.parallel for loop in loops)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("rows", [2, 13, 600, None])
@pytest.mark.parametrize("columns", [1, 10, 64, None])
def test_tiles_fit_the_registers(target, rows: int | None, columns: int | None):
    found = list(tiles(target, rows, columns, target.lanes(4)))
    assert found
    assert len(set(found)) == len(found)
    for each in found:
        kept = each.vectors if each.rows > 1 else 0  # a lone row's vectors are used as loaded
        assert each.rows * each.vectors + kept < target.vector_registers
        assert rows is None or each.rows <= rows


@pytest.mark.parametrize(("rows", "columns"), [(64, 96), (70, 100)])
def test_matrices_that_no_cache_holds_are_turned_in_tiles_of_two_lines(rows: int, columns: int):
    small = replace(WIDE, l3_bytes=rows * columns * 4)
    op = kernels.turned(rows, columns)
    schedule_kernel(op, small)
    blocks = [loop.extent.constant for loop in perfect_nest(next(iter(loops_in(op))))]
    assert blocks == [columns // 32, rows // 32, 2, 2, 16, 16]
    assert all(op.nontemporal for op in op.walk() if isinstance(op, StoreOp))
    kernels.same(kernels.turned(rows, columns), op)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("rows", "columns"), [(65, 65), (66, 65), (65, 97)])
def test_one_row_and_column_beside_whole_tiles_compute_the_same(target, rows: int, columns: int):
    op = kernels.turned_beside(rows, columns)
    schedule_kernel(op, target)
    kernels.same(kernels.turned_beside(rows, columns), op)


@pytest.mark.parametrize(
    "tile", list(tiles(GENERIC, 13, 20, 8)), ids=lambda each: f"{each.rows}x{each.vectors}"
)
@pytest.mark.parametrize("packing", ["none", "tile", "whole"])
def test_every_tile_and_packing_computes_the_same(tile: Params, packing: Packing):
    op = kernels.product(13, 20, 5)
    choose = partial(_with_tile, tile=tile, packing=packing)
    assert list(contraction.apply_all(op, GENERIC, choose)) == ["contraction"]
    kernels.same(kernels.product(13, 20, 5), op)


def _by(params: Params) -> Choose:
    return partial(first_plan, params=params)


def _with_tile(
    problem: Problem, view: View, target: Target, *, tile: Params, packing: Packing
) -> Plan:
    plan = plan_with(problem, view, target, tile.rows, tile.vectors, packing)
    return plan or first_plan(problem, view, target, tile)


@pytest.mark.parametrize("transposed", [False, True])
def test_copies_of_whole_operands_compute_the_same(transposed: bool):
    small = replace(GENERIC, l2_bytes=64)
    params = Params(rows=3, vectors=2, stack_bytes=64, copy_rows=2)

    def build():
        return kernels.product(5, 37, 11, transposed=transposed)

    op = build()
    assert list(contraction.apply_all(op, small, _by(params))) == ["contraction"]
    scopes = [alloc.scope.data for alloc in op.walk() if isinstance(alloc, AllocOp)]
    assert "workspace" in scopes
    kernels.same(build(), op)


def test_operands_that_the_kernel_computed_lie_in_panels_from_the_start():
    small = replace(GENERIC, l2_bytes=64)
    params = Params(rows=3, vectors=2, stack_bytes=64, copy_rows=2)

    def build():
        return kernels.turned_product(5, 37, 11)

    op = build()
    assert list(contraction.apply_all(op, small, _by(params))) == ["contraction"]
    (panels,) = (a for a in op.walk() if isinstance(a, AllocOp) and a.scope.data == "workspace")
    assert not isinstance(buffer_type_of(panels.result).layout, NoneAttr)
    kernels.same(build(), op)


@pytest.mark.parametrize("columns", [77, 80])
def test_panels_copied_one_at_a_time_compute_the_same(columns: int):
    small = replace(GENERIC, l2_bytes=3000)
    params = Params(rows=2, vectors=1, copy_rows=2)

    def build():
        return kernels.product(16, columns, 11)

    op = build()
    assert list(contraction.apply_all(op, small, _by(params))) == ["contraction"]
    scopes = {alloc.scope.data for alloc in op.walk() if isinstance(alloc, AllocOp)}
    assert scopes == {"registers", "scratch"}
    kernels.same(build(), op)


@pytest.mark.parametrize(("columns", "scopes"), [(1024, {"scratch"}), (1016, set())])
def test_fewer_rows_pay_for_copies_of_panels_whose_terms_crowd(columns: int, scopes: set[str]):
    op = kernels.product(16, columns, 64)
    small = replace(GENERIC, l2_bytes=16 * 1024)
    assert list(contraction.apply_all(op, small, first_plan)) == ["contraction"]
    found = {alloc.scope.data for alloc in op.walk() if isinstance(alloc, AllocOp)}
    assert found - {"registers"} == scopes


@pytest.mark.parametrize(
    ("build", "sizes"),
    [
        (partial(kernels.product, 12, 40, 21), {}),
        (partial(kernels.product, 8, 33, 48), {}),
        (partial(kernels.product, "n", 40, 21, symbols=["n"]), {"n": 11}),
        (partial(kernels.product, "n", 40, 21, symbols=["n"]), {"n": 3}),
    ],
)
def test_a_long_k_goes_by_blocks(
    build: Callable[[], KernelOp], sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    smaller = {"ROWS": 6, "FEW_ROWS": 2, "UNKNOWN_ROWS": 6, "COLUMNS": 32, "LEAST_BLOCKS": 1}
    for name, value in smaller.items():
        monkeypatch.setattr(blocks, name, value)
    taken: list[Plan] = []

    def choose(problem: Problem, view: View, target: Target) -> Plan:
        plan = plan_with(problem, view, target, 3, 2, "whole")
        found = None if plan is None else blocks.blocked(problem, plan, target)
        assert found is not None
        taken.append(found)
        return found

    op = build()
    caches = replace(GENERIC, l1_bytes=1024)
    assert list(contraction.apply_all(op, caches, choose)) == ["contraction"]
    assert len(taken) == 1
    kernels.same(build(), op, **sizes)


@pytest.mark.parametrize("rows", [16, 17])
def test_large_weights_of_few_rows_are_scheduled(rows: int):
    op = kernels.product(rows, 1024, 64)
    op.attributes["weights"] = ArrayAttr([IntAttr(1)])
    small = replace(GENERIC, l2_bytes=16 * 1024)
    assert list(contraction.apply_all(op, small, _by(Params(4, 2, copy_rows=8)))) == ["contraction"]
    op.verify()


@pytest.mark.parametrize(("registers", "widest"), [(16, {2: 4, 3: 3, 4: 3}), (32, {2: 4, 3: 4})])
def test_tiles_of_few_rows_have_vectors_enough_for_the_units(
    registers: int, widest: dict[int, int]
):
    cost = replace(GENERIC.cost, fma_latency=4, fma_ports=2)
    target = replace(GENERIC, vector_registers=registers, cost=cost)
    for rows, vectors in widest.items():
        assert default_params(target, rows, 3072, 8) == Params(rows, vectors)
    assert default_params(target, 6, 3072, 8) == Params(6, 2)
    assert default_params(target, 3, 16, 8) == Params(3, 2)  # there are no more columns
    assert default_params(target, 8, None, 8).vectors == 2


def test_wide_tiles_load_less_where_there_are_registers():
    many = replace(GENERIC, vector_registers=32)
    assert wide_params(many, 1024, 1024, 16) == Params(4, 4)
    assert wide_params(GENERIC, 1024, 1024, 8) == default_params(GENERIC, 1024, 1024, 8)


def test_wide_tiles_are_as_high_as_many_rows_and_the_first_cache_allow():
    many = replace(GENERIC, vector_registers=32)
    roomy = replace(many, l1_bytes=48 * 1024)
    assert wide_params(roomy, 1024, 1024, 16) == Params(6, 4)
    assert wide_params(roomy, 256, 256, 16) == wide_params(many, 256, 256, 16) == Params(4, 4)
    assert wide_params(many, 333, 555, 16) == Params(6, 4), "3 divides the rows, but is too few"


@pytest.mark.parametrize("transposed", [False, True])
def test_copies_of_narrow_floats_are_wide_and_compute_the_same(transposed: bool):
    params = Params(rows=3, vectors=2, stack_bytes=64, copy_rows=2)
    small = replace(GENERIC, l2_bytes=64)

    def build():
        return kernels.product(5, 67, 11, transposed=transposed, element=Float16Type())

    op = build()
    assert list(contraction.apply_all(op, small, _by(params))) == ["contraction"]
    copies = [alloc for alloc in op.walk() if isinstance(alloc, AllocOp)]
    found = [c.result.type.element for c in copies if c.scope.data == "workspace"]
    assert found == [Float16Type() if transposed else F32, F32]
    kernels.same(build(), op)


@pytest.mark.parametrize("depth", [16, 19])
def test_a_matrix_of_long_rows_is_streamed(depth: int):
    op = kernels.product(1, 1040, depth)
    schedule_kernel(op, GENERIC)
    assert any(loop.index.name_hint == "ko" for loop in loops_in(op))
    kernels.same(kernels.product(1, 1040, depth), op)


@pytest.mark.parametrize("columns", [17, 18])
def test_long_sums_that_are_alone_in_their_tile_are_cut_too(columns: int):
    op = kernels.product(1, columns, 40)
    params = Params(rows=1, vectors=2, sum_block=8)
    assert list(contraction.apply_all(op, GENERIC, _by(params))) == ["contraction"]
    kernels.same(kernels.product(1, columns, 40), op)


def test_rows_that_fill_no_whole_tile_are_tiled_too():
    x = np.zeros((1, 8, 45, 48), np.float32)
    window = {"kernel": [3, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": False}
    group = group_of(oracle.operator(OPS_BY_NAME["max_pool"], Sample([x], window)))
    kernel = lower_group(group, list(group.body.block.args), {})
    assert schedule_kernel(kernel, GENERIC).used == ["sliding-window"]


def test_loops_without_iterations_go():
    op = kernels.softmax(0, 9)
    schedule_kernel(op, GENERIC)
    assert not [loop for loop in op.walk() if isinstance(loop, ForOp)]


def test_reductions_that_get_no_vectors_are_named():
    line = "vectors: the reduction over k takes an element at a time"
    assert schedule_kernel(kernels.product(4, 8, 16), GENERIC, ()).refused == [line]
    assert schedule_kernel(kernels.product(4, 8, 16), GENERIC).refused == []


def test_plans_that_a_primitive_refuses_are_followed_by_the_next(monkeypatch: pytest.MonkeyPatch):
    op, expected = kernels.product(26, 40, 12), kernels.product(26, 40, 12)
    schedule_kernel(expected, GENERIC)
    tried: list[Plan] = []

    def refuse_twice(kernel: KernelOp, nests: Nests, plan: Plan, target: Target) -> bool:
        tried.append(plan)
        applied = apply_plan(kernel, nests, plan, target)
        if len(tried) <= 2:
            raise IllegalSchedule("nothing is good enough")
        return applied

    monkeypatch.setattr(contraction, "apply_plan", refuse_twice)
    scheduled = schedule_kernel(op, GENERIC)
    assert scheduled.used == ["contraction"]
    assert len(set(tried)) == 3
    first, second = (f"contraction: nothing is good enough (plan {plan})" for plan in tried[:2])
    assert scheduled.refused == [first, second]
    assert str(op) != str(expected)
    kernels.same(kernels.product(26, 40, 12), op)


def test_a_schedule_that_refuses_is_left_out_and_leaves_no_trace():
    def refuse(kernel: KernelOp, target: Target) -> Iterator[str]:
        tile(perfect_nest(child_loops(kernel)[-1])[0], 2)
        raise IllegalSchedule("nothing is good enough")
        yield

    op, expected = kernels.product(4, 8, 16), kernels.product(4, 8, 16)
    steps = schedule_kernel(expected, GENERIC).steps
    scheduled = schedule_kernel(op, GENERIC, (Schedule("refusing", refuse), *SCHEDULES))
    assert scheduled.refused == ["refusing: nothing is good enough"]
    assert scheduled.steps == steps
    assert str(op) == str(expected)


def test_a_schedule_of_reductions_is_asked_for_kernels_that_have_one_alone():
    def take(kernel: KernelOp, target: Target) -> Iterator[str]:
        yield "asked"

    schedules = (Schedule("asked", take, reduces=True), *SCHEDULES)
    assert "asked" in schedule_kernel(kernels.product(4, 8, 16), GENERIC, schedules).used
    x = buffer_type_of(kernels.product(4, 8, 16).body.block.args[0])
    assert "asked" not in schedule_kernel(copy_kernel(x, x), GENERIC, schedules).used


def test_schedules_that_are_imported_later_yield_the_names_that_they_are_listed_by():
    later = (attention, split_k, small_n, contraction, leading_reduction, sliding_window)
    assert [each.NAME for each in later] == [each.name for each in SCHEDULES if each.reduces]
