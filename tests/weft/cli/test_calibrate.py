"""weft calibrate: what it prints, and what it keeps."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weft.cli.command import Command
from weft.cli.calibrate import UNITS
from weft.compiler.machine.codegen.host import _target, host_cpu, host_target
from weft.compiler.machine.python.fast_call import _entry_code
from weft.compiler.target import TARGETS
from weft.compiler.target.cost import CALIBRATED, GENERIC

LEVELS = tuple(target for target in TARGETS if target.cost.source == GENERIC)


@pytest.fixture(autouse=True)
def hasty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures wrongly, and soon; into a folder that is not there yet."""
    monkeypatch.setattr("weft.bench.limits.SECONDS", 1e-4)
    monkeypatch.setattr("weft.bench.limits.CALL_SECONDS", 1e-4)
    monkeypatch.setattr("weft.bench.calibrate.PASSES", 1)
    monkeypatch.setattr("weft.bench.calibrate.SECTIONS", 10)
    monkeypatch.setattr("weft.bench.calibrate.PAGES", 64)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def no_tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process on a CPU that has no table."""
    with monkeypatch.context() as patch:
        patch.setattr("weft.compiler.target.native.TARGETS", LEVELS)
        _forget()
        yield
    _forget()


def _forget() -> None:
    host_cpu.cache_clear()
    _target.cache_clear()


def test_a_cpu_with_a_table_is_compared_with_it(weft_command: Command, tmp_path: Path):
    if host_cpu().table is None:
        pytest.skip("this machine's CPU has no table")
    shown = weft_command.succeeds("calibrate")
    assert shown.splitlines()[0] == f"{host_cpu().name}, which has a table: nothing is kept"
    assert [line.split()[0] for line in shown.splitlines()[2:]] == [*UNITS]
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("no_tables")
def test_what_has_no_table_is_kept(weft_command: Command):
    outcome = weft_command("calibrate", "--json")
    assert outcome.status == 0
    content = json.loads(outcome.output)
    assert content["path"] == str(host_cpu().calibration)
    cost = host_target().cost
    assert cost.source == CALIBRATED
    assert content["measured"] == {name: getattr(cost, name) for name in UNITS}
    assert content["generic"]["fma_latency"] == 4


@pytest.mark.usefixtures("small_memory", "no_tables")
def test_damaged_costs_are_measured_again(weft_command: Command):
    path = host_cpu().calibration
    path.parent.mkdir()
    path.write_text("{")
    _entry_code.cache_clear()  # as in a process that has called nothing yet
    outcome = weft_command("calibrate")
    assert (outcome.status, outcome.error) == (0, f"{path}: costs of {host_cpu().name}\n")
    assert host_target().cost.source == CALIBRATED


@pytest.mark.usefixtures("small_memory", "no_tables")
def test_a_folder_that_cannot_be_made_is_an_error(
    weft_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert weft_command.fails("calibrate").endswith("cache: Not a directory")
