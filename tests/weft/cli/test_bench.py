"""weft bench: its rows, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.weft.cli.command import Command

pytestmark = pytest.mark.usefixtures("small_memory")

QUICK = ("--rounds", "1", "--seconds", "0.001")


def test_rows_of_limits_and_engines(weft_command: Command, dense_folder: Path):
    arguments = ("--dim", "rows=4", "--vs", "onnxruntime", *QUICK, "--json")
    text = weft_command.succeeds("bench", dense_folder / "dense.onnx", *arguments)
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows[0]["limit"] == "fma"
    engines = [row for row in rows if row["kind"] == "engine"]
    assert [(row["engine"], row["status"]) for row in engines] == [
        ("weft", "ok"),
        ("onnxruntime", "ok"),
    ]
    assert engines[0]["ratio"] == 1
    assert {"ms", "gflops", "fma_percent", "roofline_percent", "difference"} < engines[1].keys()


def test_a_table_of_an_artifact_alone(weft_command: Command, dense_folder: Path):
    library = dense_folder / "libdense.so"
    text = weft_command.succeeds("bench", library, "--vs", "none", "--dim", "rows=4", *QUICK)
    assert text.startswith("limits of ")
    assert text.splitlines()[-1].startswith("weft ")


def test_refuses_engines_it_does_not_know(weft_command: Command, dense_folder: Path):
    reason = weft_command.fails("bench", dense_folder / "dense.onnx", "--vs", "onnxruntime,tvm")
    assert reason.startswith("--vs requires engines of onnxruntime, ")
    assert reason.endswith("got tvm")


def test_refuses_to_give_an_artifact_to_others(weft_command: Command, dense_folder: Path):
    assert "requires an ONNX model" in weft_command.fails("bench", dense_folder / "libdense.so")


def test_refuses_symbols_without_a_size(weft_command: Command, dense_folder: Path):
    assert "--dim" in weft_command.fails("bench", dense_folder / "dense.onnx")


def test_kernels_of_a_model(weft_command: Command, dense_folder: Path):
    arguments = ("--dim", "rows=4", "--vs", "none", "--kernels", *QUICK)
    text = weft_command.succeeds("bench", dense_folder / "dense.onnx", *arguments)
    assert "contraction" in text.splitlines()[-1]
    assert "clocks" in weft_command.fails("bench", dense_folder / "libdense.so", *arguments)
