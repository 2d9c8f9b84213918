"""weft demo: the main job of the project, in an empty folder."""

from pathlib import Path

import pytest

import weft
from tests.weft.cli.command import Command


def test_compiles_runs_and_checks_a_real_network(
    weft_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    output = weft_command.succeeds("demo")
    assert "checked   against onnxruntime's stored answer: error" in output
    assert {path.name for path in (tmp_path / "weft-demo").iterdir()} == {
        "squeezenet.onnx",
        "libsqueezenet.so",
        "libsqueezenet.h",
    }
    assert weft.load("weft-demo/libsqueezenet.so").outputs[0].dims == (1, 1000, 1, 1)
