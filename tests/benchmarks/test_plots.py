"""Plots of recorded results: every case and CPU once, at the place of its number."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.plots.draw import Axis, ratios, scatter
from benchmarks.plots.recorded import PLOTS, measured_rows, write_plots

WHEN = "2026-11-22T18:27:52+00:00"


def row(case: str, cpu: str, threads: int, ms: float, peer_ms: float, when: str = WHEN) -> str:
    engines = {
        "weft": {"status": "ok", "ms": ms, "ratio": 1.0},
        "other": {"status": "ok", "ms": peer_ms, "ratio": peer_ms / ms},
    }
    limits = {"cpu": cpu, "gflops": 100.0}
    record = {"case": case, "threads": threads, "when": when, "limits": limits, "engines": engines}
    return json.dumps(record)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    lines = [
        row("lenet_b1", "znver5", 1, 2.0, 8.0, "2026-11-20T00:00:00+00:00"),
        row("lenet_b1", "znver5", 1, 2.0, 4.0),
        row("lenet_b1", "znver5", 2, 1.0, 4.0),
        row("sgemm_512", "znver4", 1, 3.0, 3.6),
    ]
    (tmp_path / "2026-11-22.jsonl").write_text("\n".join(lines) + "\n")
    cost = {"model": "lenet_b1", "kernels": 8, "cold_here": [2.5, 1.0, 100.0]}
    other = {"model": "vgg<19>", "kernels": 30, "cold_here": [9.5, 4.0, 300.0]}
    (tmp_path / "compile-cost-2026.jsonl").write_text(f"{json.dumps(cost)}\n{json.dumps(other)}\n")
    return tmp_path


def titles(path: Path) -> list[str]:
    """What dots say of themselves."""
    root = ElementTree.fromstring(path.read_text())
    return sorted(each.text or "" for each in root.iter() if each.tag.endswith("title"))


def test_the_newest_row_of_each_case_is_drawn(results: Path, tmp_path: Path):
    assert measured_rows(results)["znver5", "lenet_b1", 1]["engines"]["other"]["ms"] == 4.0
    written = write_plots(results, tmp_path / "plots")
    assert [path.stem for path in written] == list(PLOTS)
    found = {path.stem: titles(path) for path in written}
    assert found["ratio-by-cpu"][:2] == ["lenet_b1, znver5: 2.00", "sgemm_512, znver4: 1.20"]
    assert found["scaling-with-threads"][0] == "lenet_b1, znver5, 2 threads: 2.00"
    assert found["compile-cost"] == ["lenet_b1: 8, 2.5", "vgg<19>: 30, 9.5"]


def test_dots_are_where_their_numbers_are():
    text = ratios("title", {"one": {"a": 1.0, "b": 4.0}, "two": {"b": 2.0}}, "explained")
    circles = [each for each in ElementTree.fromstring(text).iter() if each.tag.endswith("circle")]
    places = {each[0].text: float(each.attrib["cx"]) for each in circles if len(each)}
    least, middle, most = (places[f"{name}.00"] for name in ("a, one: 1", "b, two: 2", "b, one: 4"))
    assert middle - least == pytest.approx(most - middle, abs=0.2)
    text = scatter("title", {"a": (1.0, 10.0), "b": (100.0, 10.0)}, ("x", "y"))
    circles = [each for each in ElementTree.fromstring(text).iter() if each.tag.endswith("circle")]
    assert circles[0].attrib["cy"] == circles[1].attrib["cy"]


def test_ticks_are_round_numbers_on_the_axis():
    assert Axis([0.9, 12.0], 100.0).ticks() == pytest.approx([1, 2, 5, 10])
