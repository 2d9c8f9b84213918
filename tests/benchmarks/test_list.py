"""The recorded list of benchmarks, and the tables of what was recorded."""

import json
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import pytest

from benchmarks import run
from benchmarks.case import Case
from benchmarks.closing import closing_table
from benchmarks.models import GROUPS, MORE_OPERATORS, OPERATORS, find_cases
from benchmarks.report import MARKERS, report, short_table, with_table
from benchmarks.run import best_peer, left_to_measure, noted, recorded
from weft.compiler.machine.artifact.compiler_digest import compiler_digest

SMALL = [case for case in (*OPERATORS, *MORE_OPERATORS) if "embedding" not in case.name]


def test_every_case_has_a_name_of_its_own():
    names = [case.name for group in GROUPS.values() for case in group]
    assert len(names) == len(set(names)) >= 100
    assert [case.name for case in find_cases([])] == names


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_operators_are_sound_models_of_their_inputs(case: Case):
    model = case.build()
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    inputs = case.inputs()
    for value in model.graph.input:
        kind = value.type.tensor_type
        array = inputs[value.name]
        assert onnx.helper.np_dtype_to_tensor_dtype(array.dtype) == kind.elem_type
        assert len(kind.shape.dim) == array.ndim
        for dim, size in zip(kind.shape.dim, array.shape, strict=True):
            assert dim.dim_param or dim.dim_value == size


def test_unknown_cases_are_refused():
    with pytest.raises(ValueError, match=r"got \['nothing'\]"):
        find_cases(["sgemm_256", "nothing"])


def _row(case: str, threads: int, ours: float, **peers: float | str) -> dict[str, Any]:
    engines: dict[str, dict[str, Any]] = {
        "weft": {
            "status": "ok",
            "version": "1",
            "ms": ours,
            "ratio": 1.0,
            "roofline_percent": 50,
            "fma_percent": 93.0,
            "bandwidth_percent": 40.0,
        }
    }
    for name, time in peers.items():
        engines[name] = (
            {"status": "missing", "reason": time, "version": ""}
            if isinstance(time, str)
            else {"status": "ok", "version": "2", "ms": time, "ratio": time / ours}
        )
    limits = {"cpu": "znver9", "gflops": 100.0}
    return {"case": case, "threads": threads, "limits": limits, "engines": engines}


def test_the_last_measurement_of_a_case_counts_and_errors_do_not(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    rows = [
        _row("sgemm_256", 1, 1.0, torch=2.0),
        _row("sgemm_256", 1, 1.0, torch=3.0),
        {"case": "sgemm_512", "threads": 1, "error": "no"},
        {"model": "of an older run"},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = recorded(path)
    assert found.keys() == {("sgemm_256", 1)}
    assert best_peer(found["sgemm_256", 1]) == ("torch", 3.0)
    assert recorded(tmp_path / "none") == {}


def test_what_a_compiler_was_measured_against_is_not_measured_again(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    here = {"compiler": compiler_digest()[:16]}
    rows = [
        _row("sgemm_256", 1, 1.0, torch=2.0) | {"compiler": "another"},
        _row("sgemm_256", 1, 2.0, onnxruntime=8.0) | here,
        _row("sgemm_256", 1, 3.0, xla="no module jax") | here,
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = recorded(path)
    assert found["sgemm_256", 1]["engines"].keys() == {"weft", "onnxruntime", "xla"}
    (case,) = find_cases(["sgemm_256"])
    asked = Namespace(vs=["onnxruntime", "torch", "xla"], threads=[1, 2])
    assert left_to_measure(case, found, asked) == {1: ["torch"], 2: asked.vs}


DISTURBED, STILL = 117.0, 230.0


@pytest.mark.parametrize("again", [0, 1, 2])
def test_disturbed_rows_are_measured_again(again: int, monkeypatch: pytest.MonkeyPatch):
    rates = iter([DISTURBED, DISTURBED if again == 1 else STILL, STILL])

    def measured(*_: object) -> dict[str, Any]:
        return {"limits": {"best_gflops": 234.0, "gflops": next(rates)}}

    def prepared(*_: object) -> None:
        return None

    monkeypatch.setattr(run, "prepare", prepared)
    monkeypatch.setattr(run, "_measured", measured)
    arguments: Any = Namespace(artifacts=Path(), prepare=False, again=again)
    nothing: Any = None
    case = find_cases(["sgemm_256"])[0]
    rows = run.measure_case(case, {2: []}, {2: nothing}, nothing, arguments)
    wanted = {0: [DISTURBED], 1: [DISTURBED, DISTURBED], 2: [DISTURBED, STILL]}[again]
    assert [row["limits"]["gflops"] for row in rows] == wanted


def test_what_peers_have_said_counts_for_their_versions(tmp_path: Path):
    path = tmp_path / "case.1.json"
    said = {"reason": "no", "version": version("numpy")}
    engines = {
        "openblas": said | {"status": "lacks"},
        "onnxruntime": said | {"status": "failed", "version": "0.1"},
    }
    path.write_text(json.dumps(engines))
    assert noted(path).keys() == {"openblas"}
    for status in ("differs", "slow"):
        path.write_text(json.dumps({"openblas": said | {"status": status}}))
        assert noted(path) == {}
    assert noted(tmp_path / "none") == {}


def test_the_readme_s_table_is_between_its_marks():
    row = _row("sgemm_256", 1, 1.0, torch=3.0)
    row |= {"when": "2026-11-21T00:00:00", "compile_s": 0.25, "so_kb": 21}
    table = short_table({("sgemm_256", 1): row})
    assert "| sgemm_256 | 1 | 3 torch | 3.00 | 0.2 s | 21 KB |" in table
    assert "Recorded on 2026-11-21." in table
    text = f"before {MARKERS[0]} old {MARKERS[1]} after"
    assert with_table(text, table) == f"before {MARKERS[0]}\n\n{table}\n\n{MARKERS[1]} after"


def test_tables_have_the_fastest_peer_and_its_ratio():
    rows = [
        _row("sgemm_256", 1, 1.0, torch=3.0, onnxruntime=1.5),
        _row("sgemm_512", 1, 2.0, torch=6.0, iree="no module iree"),
        _row("add_8", 1, 1.0, torch=0.1),
    ]
    text = report({(row["case"], row["threads"]): row for row in rows})
    assert "| sgemm_256 | 1 | 1.5 onnxruntime | 1.50 | 50 |" in text
    assert "| sgemm_512 | 2 | 6 torch | 3.00 | 50 |" in text
    assert "| **geometric mean** | | | **2.12** | |" in text
    assert "| torch | 1 | 2 | 3.00 | 3.00 |" in text
    assert "| add_8 | 1 | 0.10 | torch |" in text
    assert "| iree | missing | 1 | no module iree |" in text


def test_the_closing_table_tells_what_is_below_its_gate_and_what_is_missing():
    rows = [
        _row("sgemm_256", 1, 1.0, torch=0.94),
        _row("sgemm_512", 1, 1.0, torch=0.96),
        _row("reduce_sum_4096x4096", 1, 1.0, xla=3.0),
        _row("add_8", 1, 1.0, torch=9.0),
        _row("resnet50_b1", 1, 1.0, torch=1.5, iree="no module iree"),
        _row("add_1M", 1, 1.0, torch=0.81),
        _row("vit_s16", 1, 1.0, torch=0.79),
    ]
    text = closing_table({(row["case"], row["threads"]): row for row in rows})
    assert "| sgemm_256 | 1 | 0.94 torch | 0.94 | 93 | 40 | below 0.95 on 1 |" in text
    assert "| sgemm_512 | 1 | 0.96 torch | 0.96 | 93 | 40 | tie on 1 |" in text
    assert "| add_1M | 1 | 0.81 torch | 0.81 | 93 | 40 |  |" in text
    mean = f"{(0.94 * 0.96 * 3) ** (1 / 3):.2f}"
    assert f"| **geometric mean** | | | **{mean}** | | | below 1.4 on 1 |" in text
    below = text[text.index("### Below their gates") : text.index("Not measured")]
    assert [line.split()[1] for line in below.splitlines()[3:] if line] == ["vit_s16", "sgemm_256"]
    assert "sgemm_1024 on 1" in text
    assert "| iree | 0 of 7 | | |" in text
    assert "| | | missing: no module iree | resnet50_b1 |" in text
    assert "| | | not asked | add_1M, add_8," in text


def test_products_have_to_reach_their_share_of_the_multiply_adds():
    row = _row("sgemm_2048", 2, 1.0, torch=1.5)
    assert (
        "below"
        not in closing_table({("sgemm_2048", 2): row}).partition("###")[2].partition("mean")[0]
    )
    row["engines"]["weft"]["fma_percent"] = 91.9
    assert "below 92 % FMA on 2" in closing_table({("sgemm_2048", 2): row})
