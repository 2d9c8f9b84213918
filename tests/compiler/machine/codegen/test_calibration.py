"""Costs that were measured: kept by CPU, read by the target of a CPU without a table."""

from pathlib import Path

import pytest

from weft.compiler.machine.codegen.calibration import (
    calibration_path,
    read_calibration,
    write_calibration,
)
from weft.compiler.machine.codegen.host import host_cpu, host_target
from weft.compiler.target import TARGETS
from weft.compiler.target.cost import CALIBRATED, GENERIC, CostModel
from weft.dialects.errors import OptionError

LEVELS = tuple(target for target in TARGETS if target.cost.source == GENERIC)
MEASURED = CostModel(source=CALIBRATED, ghz=4.25, fma_ports=3, l3_bandwidth=7.5)


@pytest.fixture
def unknown_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes this machine's CPU one that weft has no table of; returns the file of its costs."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("weft.compiler.target.native.TARGETS", LEVELS)
    return host_cpu().calibration


def test_costs_read_back(tmp_path: Path):
    path = tmp_path / "new" / "costs.json"
    write_calibration(path, "znver99", MEASURED)
    assert read_calibration(path) == MEASURED
    assert [each.name for each in path.parent.iterdir()] == ["costs.json"]
    assert read_calibration(tmp_path / "none.json") is None


def test_each_cpu_has_a_file_of_its_own():
    paths = [
        calibration_path("znver99", {"avx2": True}),
        calibration_path("znver99", {"avx2": False}),
        calibration_path("znver98", {"avx2": True}),
    ]
    assert len(set(paths)) == 3
    assert calibration_path("znver99", {"avx2": False, "fma": False}) == paths[1]


def test_the_target_of_the_machine_has_them(unknown_cpu: Path):
    write_calibration(unknown_cpu, "znver99", MEASURED)
    assert host_target().cost == MEASURED
    assert host_target() == host_target()
    assert host_target(calibrated=False).cost != MEASURED


def test_a_cpu_with_a_table_does_not_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    cpu = host_cpu()
    if cpu.table is None:
        pytest.skip("this machine's CPU has no table")
    write_calibration(cpu.calibration, cpu.name, MEASURED)
    assert host_target().cost == cpu.table.cost


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "Input data was truncated"),
        ("{", "Input data was truncated"),
        ("[1]", "Expected `object`, got `array`"),
        ('{"format": 1, "cpu": "x"}', "missing required field `cost`"),
        ('{"format": 1, "cpu": "x", "cost": {"ghz": "3"}}', "Expected `float`, got `str`"),
        ('{"format": 1, "cpu": "x", "cost": {"source": "calibrated", "ghz": 0}}', "ghz = 0"),
        ('{"format": 2, "cpu": "x", "cost": {"source": "calibrated"}}', "format 2"),
        ('{"format": 1, "cpu": "x", "cost": {}}', "source generic"),
    ],
)
def test_a_damaged_file_is_one_error(unknown_cpu: Path, text: str, facts: str):
    unknown_cpu.parent.mkdir()
    unknown_cpu.write_text(text)
    with pytest.raises(OptionError) as raised:
        host_target()
    assert str(raised.value).startswith("native requires costs that `weft calibrate` wrote, ")
    assert str(unknown_cpu) in str(raised.value)
    assert facts in str(raised.value)
