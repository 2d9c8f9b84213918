"""Plans of contractions: what a Problem says, plans as text, costs, and kernels by plans."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.compiler.loop import kernels
from weft.compiler.loop.schedules import schedule_kernel
from weft.compiler.loop.schedules.gemm.choose_plan import (
    LEAST_GAIN,
    LEAST_SAMPLE,
    SAMPLES,
    time_of,
)
from weft.compiler.loop.schedules.gemm.cost import cost
from weft.compiler.loop.schedules.gemm.plan import Plan, parse_plan
from weft.compiler.loop.schedules.planned import Explanation, explain, schedule_by
from weft.compiler.target.module_target import GENERIC
from weft.compiler.target.target import PAGE, Target
from weft.compiler.target.x86_cpus import ZEN_4
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, ExprLike, Symbol

ROOMY = replace(GENERIC, l1_bytes=32 * 1024, l2_bytes=1024 * 1024, l3_bytes=32 * 1024 * 1024)


def explained(rows: ExprLike, columns: int, depth: int, target: Target = ROOMY) -> Explanation:
    (found,) = explain(kernels.product(rows, columns, depth), target)
    return found


def test_a_problem_says_how_long_loops_are_and_what_they_index():
    problem = explained(13, 20, 5).problem
    assert [extent.constant for extent in problem.extents] == [13, 20, 5]
    assert (problem.outer, problem.depth, problem.lanes) == (2, 5, 8)
    lhs, rhs = problem.factors
    assert [lhs.indexed_by(n) for n in range(3)] == [True, False, True]
    assert [rhs.indexed_by(n) for n in range(3)] == [False, True, True]
    assert [each.step for each in rhs.along] == [0, 1, 20]
    assert problem.rows_of(rhs) == 13
    assert problem.bytes_of(rhs) == 5 * 20 * 4


def test_reading_a_problem_and_rating_its_plans_changes_no_kernel():
    op = kernels.product(13, 20, 5)
    before = str(op)
    assert explain(op, GENERIC)
    assert str(op) == before


def test_plans_are_text_and_back():
    found = explained(130, 200, 50)
    plans = [rated.plan for rated in found.rated]
    assert len(plans) > 20
    assert [parse_plan(str(plan)) for plan in plans] == plans
    every = Plan(column=2, row=0, batch=(1, 3), panel=1, k_block=64, packing="flat", shared=True)
    assert parse_plan(str(every)) == every


@pytest.mark.parametrize("text", ["", "rows=2", "column=x", "column=1 rows=2 nothing=3"])
def test_refuses_other_texts(text: str):
    with pytest.raises(IllegalSchedule, match="a plan requires NAME=VALUE"):
        parse_plan(text)


def test_the_plan_that_is_taken_is_about_the_best():
    for sizes in ((64, 64, 64), (100, 100, 100), (512, 512, 512), (7, 300, 30)):
        found = explained(*sizes)
        times = {each.plan: time_of(each) for each in found.rated}
        assert list(times.values()) == sorted(times.values())
        assert 0 < times[found.chosen] <= min(times.values()) / LEAST_GAIN


def test_plans_by_which_units_wait_cost_more():
    found = explained(256, 256, 256)
    slow = replace(ROOMY, cost=replace(ROOMY.cost, fma_ports=1))
    tiles = {(each.plan.rows, each.plan.vectors): each for each in found.rated}
    narrow, wide = (cost(found.problem, tiles[tile].plan, ROOMY) for tile in ((8, 1), (6, 2)))
    assert narrow.compute > wide.compute
    assert cost(found.problem, tiles[(6, 2)].plan, slow).compute > 1.5 * wide.compute


def test_rows_of_a_panel_that_are_pages_apart_cost_more_than_others():
    def panel(columns: int) -> float:
        found = explained(128, columns, 256)
        plan = next(each.plan for each in found.rated if each.plan.packing == "none")
        return cost(found.problem, plan, ROOMY).panel / columns

    assert panel(2 * PAGE) > 1.5 * panel(2 * PAGE + 16)


def test_rows_of_a_panel_that_cross_lines_cost_more_than_others():
    def cycles(columns: int, packing: str) -> float:
        found = explained(512, columns, 240, ZEN_4)
        plan = next(
            each.plan
            for each in found.rated
            if (each.plan.rows, each.plan.vectors, each.plan.packing) == (14, 2, packing)
        )
        found_cost = cost(found.problem, plan, ZEN_4)
        return (found_cost.compute + found_cost.panel) / columns

    assert cycles(419, "none") > 1.05 * cycles(432, "none")
    assert cycles(419, "whole") < cycles(419, "none")


def test_rows_that_come_from_behind_l2_in_pieces_make_wide_panels_cost_less():
    def once(columns: int, vectors: int) -> float:
        found = explained(64, columns, 768, ZEN_4)
        tiles = (each for each in found.rated if each.plan.packing == "none")
        plan = next(each.plan for each in tiles if each.plan.vectors == vectors)
        return cost(found.problem, plan, ZEN_4, cold=True).once / columns

    assert once(2304, 2) > 1.3 * once(2304, 4)
    assert once(256, 2) == once(256, 4), "L2 keeps all of it"


def test_what_a_call_gives_is_packed_by_threads_while_the_next_part_is_prefetched():
    long = explained(128, 768, 3072).chosen
    assert (long.packing, long.per_tile, long.prefetched) == ("tile", True, True)
    assert None not in (long.k_block, long.column_block)
    found = explained(128, 768, 768)
    panels = next(
        each.plan
        for each in found.rated
        if each.plan.packing == "tile" and each.plan.k_block is None
    )
    assert panels.prefetched
    ways = (panels, replace(panels, prefetched=False))
    prefetched, alone = (cost(found.problem, each, ROOMY, cold=True).once for each in ways)
    assert prefetched < alone
    blocks_of_rows = [each.plan for each in explained(1024, 768, 3072).rated]
    assert not any(each.k_block and each.packing == "tile" for each in blocks_of_rows)


def test_rows_that_share_sets_of_l1_cost_more_than_others():
    def compute(depth: int) -> float:
        found = explained(64, 64, depth, ZEN_4)
        plan = next(
            each.plan for each in found.rated if (each.plan.rows, each.plan.vectors) == (14, 2)
        )
        return cost(found.problem, plan, ZEN_4).compute / depth

    assert compute(PAGE // 4 * 3) > 1.02 * compute(PAGE // 4 * 3 + 16)


def test_columns_that_are_gathered_cost_more_than_packed_ones():
    (found,) = explain(kernels.product(512, 64, 6000, transposed=True), ROOMY)
    best = {each.plan.packing: time_of(each) for each in reversed(found.rated)}
    assert 1.3 * best["whole"] < best["none"]


def test_rows_are_packed_where_a_plan_says_so():
    """Also where panels of the columns' operand could be packed one at a time."""
    sizes = 4096, 256, 96
    (found,) = explain(kernels.product(*sizes, columns_first=True), ROOMY)
    plans = [each.plan for each in found.rated if each.plan.panel == 1]
    assert {plan.packing for plan in plans if not plan.packed_rows} >= {"tile"}
    for packing in ("none", "whole"):
        plan = next(each for each in plans if each.packing == packing)
        op = kernels.product(*sizes, columns_first=True)
        schedule_by(op, ROOMY, plan)
        assert plan.packed_rows
        assert "%lhs_s = loop.alloc scratch" in str(op)


def test_columns_may_index_either_operand():
    found = explained(1000, 12, 300, ZEN_4)
    assert {each.plan.panel for each in found.rated} == {0, 1}


def test_few_panels_are_outside_where_rows_and_they_have_enough_work_together():
    shared, alone = (explained(rows, 9 * 32, 1444, ZEN_4) for rows in (456, 12))

    def panel(found: Explanation, packing: str) -> float:
        tile = ("none" if packing == "none" else "tile", 12, 2)
        each = next(
            each.plan
            for each in found.rated
            if (each.plan.packing, each.plan.rows, each.plan.vectors) == tile
        )
        return cost(found.problem, each, ZEN_4).panel

    # A panel is packed for the tiles of rows, which all come one after the other then.
    assert panel(shared, "tile") < panel(shared, "none") < 3 * panel(shared, "tile")
    assert panel(alone, "none") == 0, "there is one tile of rows"


def test_plans_without_a_cost_are_not_compared():
    small = replace(ZEN_4, l2_bytes=256 * 1024)
    found = explained(456, 288, 1444, small)
    assert found.rated[0].cost is not None


def test_a_plan_for_dynamic_sizes_has_a_cost_for_each_sample():
    found = explained(Expr.of(Symbol("n")), 40, 12)
    assert {len(each.costs) for each in found.rated} == {len((LEAST_SAMPLE, *SAMPLES))}


def test_products_that_typical_sizes_leave_empty_are_scheduled():
    few = Expr.of(Symbol("n")) // 1024
    assert schedule_kernel(kernels.product(few, few, 12), ROOMY).used == ["contraction"]


def test_products_of_one_row_have_one_plan():
    found = explained(1, 40, 12)
    assert [(each.plan, each.cost) for each in found.rated] == [(found.chosen, None)]


@pytest.mark.parametrize("position", [0, 5, -1])
def test_kernels_are_scheduled_by_any_of_their_plans(position: int):
    plan = explained(26, 40, 12).rated[position].plan
    op = kernels.product(26, 40, 12)
    assert schedule_by(op, ROOMY, plan).used == ["contraction"]
    kernels.same(kernels.product(26, 40, 12), op)


def test_a_chosen_plan_gives_the_schedule_that_weft_chooses():
    op, expected = kernels.product(26, 40, 12), kernels.product(26, 40, 12)
    schedule_kernel(expected, ROOMY)
    schedule_by(op, ROOMY, explained(26, 40, 12).chosen)
    assert str(op) == str(expected)


def test_refuses_plans_of_other_kernels():
    plan = replace(explained(26, 40, 12).chosen, rows=31)
    with pytest.raises(IllegalSchedule, match="a plan requires a contraction that has it"):
        schedule_by(kernels.product(26, 40, 12), ROOMY, plan)
