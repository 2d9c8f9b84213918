"""The target of a machine: its CPU's table, or what was measured, or its level's."""

import pytest
from msgspec.structs import replace

from weft.compiler.target.arm import NEOVERSE_N1
from weft.compiler.target.cost import CALIBRATED, GENERIC, CostModel
from weft.compiler.target.native import calibration_advice, native_target
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import X86_64_V2, X86_64_V3, X86_64_V4
from weft.compiler.target.x86_cpus import ICE_LAKE, SAPPHIRE_RAPIDS, ZEN_3, ZEN_4, ZEN_5

X86 = "x86_64-unknown-linux-gnu"
MB = 1024 * 1024
ELSEWHERE = {"l1_bytes": 4096, "l2_bytes": 1 * MB, "l3_bytes": 400 * MB}


def names(target) -> dict[str, bool]:
    return {name[1:]: name[0] == "+" for name in target.features}


def test_a_cpu_with_a_table_is_the_same_on_every_machine():
    one, other = (
        native_target(X86, "icelake-server", names(ICE_LAKE), caches, 4)
        for caches in ({}, ELSEWHERE)
    )
    assert one == other
    assert (one.cost, one.l1_bytes, one.l2_bytes, one.l3_bytes) == (
        ICE_LAKE.cost, ICE_LAKE.l1_bytes, ICE_LAKE.l2_bytes, ICE_LAKE.l3_bytes,
    )  # fmt: skip


def test_a_machine_may_have_less_of_the_last_cache():
    small = native_target(X86, "znver3", names(ZEN_3), ELSEWHERE | {"l3_bytes": 16 * MB}, 4)
    assert (small.l3_bytes, small.l2_bytes) == (16 * MB, ZEN_3.l2_bytes)


def test_a_cpu_without_a_table_has_the_costs_of_its_level_and_its_own_caches():
    for level in (X86_64_V2, X86_64_V3, X86_64_V4):
        target = native_target(X86, "znver99", names(level), ELSEWHERE, 4)
        assert (target.cost, target.l1_bytes) == (level.cost, 4096)
        assert target.vector_bytes == level.vector_bytes
        assert "znver99 has no table" in calibration_advice(target.cpu, target.cost.source)


@pytest.mark.parametrize("table", [SAPPHIRE_RAPIDS, ZEN_5])
def test_a_core_by_another_name_has_the_costs_of_the_nearest_table(table: Target):
    more = names(table) | {"amx-tile": True}
    target = native_target(X86, "rocketlake", more, ELSEWHERE, 4)
    assert (target.cost, target.l1_bytes, target.l3_bytes) == (table.cost, 4096, table.l3_bytes)
    advice = calibration_advice(target.cpu, target.cost.source)
    assert f"those of {table.name} are taken" in advice


def test_what_was_measured_is_part_of_the_target():
    measured = CostModel(source=CALIBRATED, ghz=5.5)
    target = native_target(X86, "znver99", names(X86_64_V4), ELSEWHERE, 4, measured)
    assert target.cost == measured
    assert calibration_advice(target.cpu, target.cost.source) == ""


def test_a_cpu_whose_vectors_are_hidden_has_no_table():
    hidden = names(ZEN_4) | dict.fromkeys(
        (name for name in names(ZEN_4) if name.startswith("avx512")), False
    )
    target = native_target(X86, "znver4", hidden, ELSEWHERE, 4)
    assert (target.vector_bytes, target.cost.source) == (32, GENERIC)
    assert calibration_advice(target.cpu, target.cost.source)


def test_an_arm_cpu_has_features_that_its_system_does_not_name():
    target = native_target("aarch64-unknown-linux-gnu", "neoverse-n1", {"neon": True}, {}, 4)
    assert {*NEOVERSE_N1.features} <= {*target.features}
    assert replace(target, cores=1).cost == NEOVERSE_N1.cost


def test_levels_need_no_advice():
    assert calibration_advice("x86-64-v3", X86_64_V3.cost.source) == ""
