"""--dim and --value: one meaning in every command that reads a model."""

from pathlib import Path

import pytest

from tests.end_to_end.test_fixed_inputs import RATES, model_of
from tests.weft.cli.command import Command


@pytest.mark.usefixtures("small_memory")
def test_every_command_reads_them(weft_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "rates.onnx"
    path.write_bytes(model_of(RATES).SerializeToString())
    fixed = ("--dim", "n=2", "--value", "rate=16000")
    weft_command.succeeds("compile", path, *fixed, "-o", tmp_path / "librates.so")
    assert "float32  [2, m]" in weft_command.succeeds("inspect", path, *fixed)
    ran = weft_command.succeeds("run", path, "--random", "--random-dim", "m=5", *fixed)
    assert "[10]" in ran
    compared = ("compare", path, "onnxruntime", "--random", "--dim", "m=5")
    assert "y" in weft_command.succeeds(*compared, *fixed)
    quick = ("--rounds", "1", "--seconds", "0.01", "--dim", "m=5")
    assert "onnxruntime" in weft_command.succeeds("bench", path, *fixed, *quick)
    tuned = ("tune", path, "--seconds", "0.1", "-o", tmp_path / "tuned.json", "--dim", "m=5")
    assert "tuned.json: " in weft_command(*tuned, *fixed).error
