"""The reference search: enough plans that differ, right answers of all, and what it says."""

from itertools import islice

import pytest

from benchmarks import regret
from benchmarks.models import find_cases
from benchmarks.operators import matmul
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target
from weft.dialects.errors import WeftError


def test_the_cases_are_recorded_ones():
    assert [case.name for case in find_cases(list(regret.PRODUCTS))] == list(regret.PRODUCTS)


@pytest.mark.parametrize("target", TARGETS[:4], ids=lambda target: target.name)
def test_every_cpu_has_a_hundred_plans(target: Target):
    names = [name for name, _, _ in regret.reference_plans(target)]
    assert len(set(names)) == len(names) > 100


def test_a_search_tells_the_choice_from_the_best(monkeypatch: pytest.MonkeyPatch):
    plans = list(islice(regret.reference_plans(host_target()), 20, 23))
    monkeypatch.setattr(regret, "reference_plans", lambda _: iter(plans))
    row = regret.regret_of(matmul(48, 40, 64), 1, host_target(), rounds=1, seconds=0.0)
    assert 1 <= row["plans"] <= 3
    assert row["regret"] >= 1.0
    assert row["best"] in ("chosen", *(name for name, _, _ in plans))
    assert f"{row['regret']:.3f}" in regret.shown(row)


def test_ranks_say_how_alike_two_orders_are():
    plans = {str(n): regret.Reference({}, float(n)) for n in range(9)}
    other = {"other": regret.Reference({}, None)}
    times = {str(n): 2.0 * n + 5 for n in range(9)} | {"other": 0.0}
    assert regret.rank_correlation(plans | other, times) == 1.0
    assert regret.rank_correlation(plans, {name: -time for name, time in times.items()}) == -1.0
    assert regret.rank_correlation(other, times) is None


def test_the_summary_has_the_mean_and_the_largest():
    rows = [{"regret": 1.0}, {"regret": 4.0}]
    assert regret.summary(rows) == "regret: mean 2.000, 95 % 4.000, largest 4.000"


def test_a_plan_with_another_answer_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(regret, "disagreement", lambda *_: "output 0 differs")
    search = regret.Search(matmul(8, 8, 8), 1, host_target())
    with pytest.raises(WeftError, match="equal answers of all plans, got: output 0 differs"):
        search.first_time({})


def test_moved_products_are_within_their_bounds():
    names = [case.name for case in regret.moved_products(1)]
    assert names == [case.name for case in regret.moved_products(1)]
    assert names != [case.name for case in regret.moved_products(2)]
    for name, start in zip(names[::2], regret.SIZES, strict=True):
        sizes = [int(size) for size in name.removeprefix("matmul_").split("x")]
        assert all(abs(size / old - 1) < 0.18 for size, old in zip(sizes, start, strict=True))
