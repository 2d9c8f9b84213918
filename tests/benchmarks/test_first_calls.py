"""What first calls cost is measured in processes of their own."""

import pytest

from benchmarks.compile_cost import HERE, OURS
from benchmarks.first_calls.__main__ import main, measure


def test_a_call_is_measured_cold_and_warm():
    row = measure("operator", {OURS: HERE}, rounds=1)
    assert row.keys() == {"here_cold", "here_warm"}
    assert row["here_cold"].keys() == {"first", "sum"}
    assert 0 < row["here_warm"]["first"] < row["here_cold"]["first"]


def test_an_unknown_call_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", ["first_calls", "jitt"])
    with pytest.raises(SystemExit):
        main()
    assert "CALL requires operator, jit, trace" in capsys.readouterr().err
