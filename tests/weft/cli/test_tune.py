"""weft tune: a file of schedules that compile takes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support.small_models import dense_model, dense_reference, rows_of
from tests.weft.cli.command import Command
from weft.compiler.loop.tuned_file import Tuned, TunedWarning, target_key, write_tuned
from weft.compiler.machine.codegen.host import host_target


def test_writes_a_file_that_compile_takes(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    path, model = tmp_path / "tuned.json", dense_folder / "dense.onnx"
    arguments = ("--random-dim", "rows=8", "--seconds", "0.5", "-o", path)
    outcome = weft_command("tune", model, *arguments)
    assert outcome.status == 0
    assert outcome.error.startswith(f"{path}: ")
    assert json.loads(path.read_text())["format"] == 3
    tuned = weft.compile(model, tuned=path, threads=1, cache=False)
    (y,) = tuned(rows_of(5))
    np.testing.assert_allclose(y, dense_reference(dense_model(), rows_of(5)), rtol=1e-4, atol=1e-4)


def test_only_kernels_of_the_model_are_forced(dense_folder: Path, tmp_path: Path):
    model, path = dense_folder / "dense.onnx", tmp_path / "tuned.json"
    (kernel,) = weft.compile(model, threads=1, cache=False).metadata["kernels"]
    key = target_key(host_target())
    write_tuned(path, [Tuned(key, name, 1, 2.0, 1.0, ()) for name in (kernel["name"], "other")])
    with pytest.warns(TunedWarning, match="got @other too, unused"):
        tuned = weft.compile(model, tuned=path, threads=1, cache=False)
    assert [each["schedules"] for each in tuned.metadata["kernels"]] == [["forced"]]


def test_refuses_what_cannot_be_tuned(weft_command: Command, dense_folder: Path, tmp_path: Path):
    model = dense_folder / "dense.onnx"
    assert "ONNX model" in weft_command.fails("tune", dense_folder / "libdense.so")
    assert "native" in weft_command.fails("tune", model, "--target-cpu", "x86-64")
    assert "--naive" in weft_command.fails("tune", model, "--naive")
    nowhere = tmp_path / "none" / "tuned.json"
    assert "folder that exists" in weft_command.fails("tune", model, "-o", nowhere)
