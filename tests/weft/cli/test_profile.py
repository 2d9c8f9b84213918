"""weft profile: tables, JSON, and the trace for Perfetto."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.models.networks import build_mlp
from tests.support.small_models import rows_of
from tests.weft.cli.command import Command
from weft.cli.drawing.drawn import shown_share

NODES = "/MatMul, /Add, /Relu"


def test_a_table_of_kernels_adds_up_to_the_call(weft_command: Command, dense_folder: Path):
    arguments = ("--random-dim", "rows=40", "--threads", "1", "--calls", "3")
    library = dense_folder / "libdense.so"
    text = weft_command.succeeds("profile", library, *arguments, "--by", "node", "--by", "kernel")
    assert "the median of 3 calls" in text
    assert NODES in text
    rows = [line.split() for line in text.split("by kernel")[1].splitlines() if "%" not in line]
    shares = [float(cells[3]) for cells in rows if cells and cells[0].startswith("matmul_add_relu")]
    shares += [float(cells[3]) for cells in rows if cells[:2] == ["between", "kernels"]]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_json_has_spans_and_rows(weft_command: Command, dense_folder: Path, tmp_path: Path):
    np.savez(tmp_path / "in.npz", x=rows_of(7))
    arguments = ("--inputs", tmp_path / "in.npz", "--threads", "1", "--calls", "2", "--json")
    found = json.loads(weft_command.succeeds("profile", dense_folder / "libdense.so", *arguments))
    assert sum(span["end"] - span["begin"] for span in found["spans"]) == found["nanoseconds"]
    (kernel,) = found["kernel_calls"]
    assert (kernel["flops"], kernel["nodes"]) == (15520 * 7, NODES.split(", "))
    assert found["operator"][0]["runs"] == 1
    assert len(found["calls"]) == 2


def test_the_trace_is_chromes_json(weft_command: Command, tmp_path: Path):
    onnx.save(build_mlp(batch=16), tmp_path / "mlp.onnx")
    trace = tmp_path / "trace.json"
    weft_command.succeeds("profile", tmp_path / "mlp.onnx", "-o", trace, "--calls", "3")
    content = json.loads(trace.read_text())
    events = content["traceEvents"]
    phases = {phase: [each for each in events if each["ph"] == phase] for phase in "MXC"}
    assert sum(map(len, phases.values())) == len(events)
    assert {each["name"] for each in phases["M"]} >= {"process_name", "thread_name"}
    caller = [each for each in phases["X"] if each["tid"] == 0 and each["cat"] != "wait"]
    total = sum(each["dur"] for each in caller)
    assert total == pytest.approx(content["otherData"]["nanoseconds"] / 1e3)
    kernels = [each for each in caller if each["cat"] == "kernel"]
    assert all(each["args"]["flops"] >= 0 and each["args"]["bytes"] > 0 for each in kernels)
    nodes = [node for each in kernels for node in each["args"]["nodes"].split(", ")]
    assert len([node for node in nodes if "fc" in node]) >= 3
    memory = [each["args"]["bytes"] for each in phases["C"]]
    assert max(memory) >= 16 * 512 * 4, "the first layer's result is in the arena"
    assert memory[-1] == 0


def test_refuses_other_files_and_names(weft_command: Command, dense_folder: Path, tmp_path: Path):
    library = dense_folder / "libdense.so"
    np.savez(tmp_path / "in.npz", other=rows_of(7))
    arguments = ("--inputs", tmp_path / "in.npz", "--random-dim", "rows=2")
    message = weft_command.fails("profile", library, *arguments)
    assert "requires inputs x, got unknown 'other'" in message
    message = weft_command.fails("profile", library, "--inputs", dense_folder / "x.npy")
    assert "requires arrays in NumPy's .npz format" in message
    assert "at least one call" in weft_command.fails(
        "profile", library, "--calls", "0", "--random-dim", "rows=2"
    )


def test_help_teaches(weft_command: Command):
    text = weft_command.succeeds("profile", "--help")
    for taught in ("ui.perfetto.dev", "m_set_profile", "--by", "--inputs x.npz -o trace.json"):
        assert taught in text


@pytest.mark.parametrize(
    ("share", "bar"), [(0.0, ""), (0.05, "▌"), (0.5, "█████"), (1.0, "█" * 10), (1.7, "█" * 10)]
)
def test_a_share_is_a_bar(share: float, bar: str):
    assert shown_share(share).strip() == bar


def test_ranks_are_shown_beside_one_another(weft_command: Command, tmp_path: Path):
    """Threads that are ranks make the same calls; what they do together has its own spans."""
    onnx.save(build_mlp(batch=16), tmp_path / "mlp.onnx")
    trace = tmp_path / "trace.json"
    arguments = (tmp_path / "mlp.onnx", "--mesh", "data=2", "--shard", "image=data", "--calls", "3")
    text = weft_command.succeeds("profile", *arguments, "-o", trace)
    assert "on 2 ranks, ms" in text
    assert text.count("all_gather") == 1
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {1, 2}
    found = json.loads(weft_command.succeeds("profile", *arguments, "--json"))
    assert [each["operation"] for each in found["mesh"]["collectives"]] == ["all_gather"]
    assert min(each["begin"] for each in found["ranks"]) == 0
    for each in found["ranks"]:
        own = [span for span in each["spans"] if span["thread"] == 0]
        assert sum(span["end"] - span["begin"] for span in own) == each["nanoseconds"]
        # One to start it, one to wait for it.
        assert [span["name"].split()[0] for span in own].count("all_gather") == 2
