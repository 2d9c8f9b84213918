"""weft run: arrays in and out as files."""

from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.test_max_iterations import loop_model
from tests.support.small_models import dense_model, dense_reference, rows_of
from tests.weft.cli.command import Command


@pytest.mark.parametrize("name", ["libdense.so", "dense.onnx"])
def test_writes_outputs_as_arrays(
    weft_command: Command, dense_folder: Path, tmp_path: Path, name: str
):
    output = weft_command.succeeds(
        "run", dense_folder / name, "--input", f"x={dense_folder / 'x.npy'}",
        "--output-dir", tmp_path / "out",
    )  # fmt: skip
    assert output == f"{tmp_path / 'out' / 'y.npy'}\n"
    y = np.load(tmp_path / "out" / "y.npy")
    expected = dense_reference(dense_model("rows"), rows_of(5))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_the_only_input_needs_no_name(weft_command: Command, dense_folder: Path):
    output = weft_command.succeeds(
        "run", dense_folder / "libdense.so", "--input", dense_folder / "x.npy"
    )
    assert output.startswith("y  float32  [5, 80]  min 0  max ")


def test_random_inputs_depend_on_their_seed(weft_command: Command, dense_folder: Path):
    outputs = [
        weft_command.succeeds(
            "run", dense_folder / "libdense.so", "--random", seed, "--dim", "rows=3"
        )
        for seed in (1, 1, 2)
    ]
    assert outputs[0] == outputs[1] != outputs[2]
    assert "[3, 80]" in outputs[0]


def test_the_trap_names_the_operator_that_makes_nan(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    x = rows_of(5)
    arguments = ["--trap-nan", "--input", dense_folder / "x.npy"]
    assert "[5, 80]" in weft_command.succeeds("run", dense_folder / "dense.onnx", *arguments)
    x[2, 3] = np.inf
    np.save(tmp_path / "x.npy", x * 0)
    message = weft_command.fails(
        "run", dense_folder / "dense.onnx", "--trap-nan", "--input", tmp_path / "x.npy"
    )
    assert "requires inputs without nan, got some in x" in message
    message = weft_command.fails("run", dense_folder / "libdense.so", *arguments)
    assert "trap-nan requires a model" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "dense requires inputs x, got no 'x'"),
        (["--input", "w=x.npy"], "--input requires name=file.npy with a name of ['x'], got w="),
        (["--input", "x=none.npy"], "none.npy: No such file or directory"),
        (["--input", "x=dense.onnx"], "dense.onnx requires one array in NumPy's format, got"),
        (["--input", "x=wide.npy"], "requires float32 [rows, 96] for input 'x', got float64"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], "requires each name once, got x twice"),
        (["--random"], "--random requires --dim for every size of input 'x', got none for rows"),
        (
            ["--random", "--dim", "rows=many"],
            "dim requires a text such as batch=4, got 'rows=many'",
        ),
        (["--random", "--dim", "rows=2", "--threads", "0"], "requires 1 to 1024 threads, got 0"),
    ],
)
def test_refuses_inputs(
    weft_command: Command,
    dense_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
):
    for name in ("dense.onnx", "x.npy"):
        (tmp_path / name).write_bytes((dense_folder / name).read_bytes())
    np.save(tmp_path / "wide.npy", np.zeros((2, 96)))
    monkeypatch.chdir(tmp_path)
    arguments = [*arguments, "--output-dir", "out"]
    assert message in weft_command.fails("run", dense_folder / "libdense.so", *arguments)
    assert not (tmp_path / "out").exists()


def test_refuses_an_artifact_that_is_damaged(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    data = (dense_folder / "libdense.so").read_bytes()
    (tmp_path / "cut.so").write_bytes(data[: len(data) // 2])
    assert "cut.so" in weft_command.fails("run", tmp_path / "cut.so", "--random")


def test_a_loop_without_end_has_a_limit(weft_command: Command, tmp_path: Path):
    path = tmp_path / "spinning.onnx"
    path.write_bytes(loop_model(None, None).SerializeToString())
    message = weft_command.fails("run", path, "--random", 1, "--max-iterations", 50)
    assert "requires loops of at most 50 iterations, got 51, at spin" in message
