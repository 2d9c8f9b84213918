"""weft inspect: what it says of artifacts and models."""

import json
from pathlib import Path

from tests.cli.command import Command


def test_reads_an_artifact(weft_command: Command, dense_folder: Path):
    text = weft_command.succeeds("inspect", dense_folder / "libdense.so")
    assert "x  float32  [rows, 96]" in text
    assert "15520 * rows flop" in text
    assert "graph.matmul" in text
    assert "workspace at its peak" in text


def test_compiles_a_model_and_times_its_stages(weft_command: Command, dense_folder: Path):
    text = weft_command.succeeds("inspect", dense_folder / "dense.onnx")
    stages = text.split("stages\n")[1]
    assert "ms" in stages
    assert {"import", "weft-fuse", "schedule", "llvm"} <= set(stages.split())


def test_json_holds_everything(weft_command: Command, dense_folder: Path):
    facts = json.loads(weft_command.succeeds("inspect", dense_folder / "libdense.so", "--json"))
    assert facts["inputs"] == [{"name": "x", "dtype": "float32", "dims": ["rows", 96]}]
    assert facts["file_bytes"] == (dense_folder / "libdense.so").stat().st_size
    assert {"kernels", "memory", "operators", "workspace_bytes", "weights"} < facts.keys()


def test_takes_the_time_of_a_call(weft_command: Command, dense_folder: Path):
    arguments = ("--time", "--dim", "rows=4", "--threads", "1", "--json")
    facts = json.loads(weft_command.succeeds("inspect", dense_folder / "libdense.so", *arguments))
    assert 0 < facts["run_ms"] < 1000


def test_refuses_other_files(weft_command: Command, dense_folder: Path):
    assert "x.npy" in weft_command.fails("inspect", dense_folder / "x.npy")
