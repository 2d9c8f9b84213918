"""weft compile: what it writes, under which name, and what it leaves when it fails."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import weft
from tests.support.small_models import add_model, rows_of
from tests.weft.cli.command import Command
from weft.compiler.driver.lowering import program_passes
from weft.compiler.graph.passes import GRAPH_PASSES
from weft.dialects.module_attributes import CodeOptions


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_writes_a_shared_object_and_its_header(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    output = weft_command.succeeds(
        "compile", dense_folder / "dense.onnx", "-o", tmp_path / "libnet.so"
    )
    assert output == ""
    assert names(tmp_path) == {"libnet.so", "libnet.h"}
    assert weft.load(tmp_path / "libnet.so")(rows_of(2))[0].shape == (2, 80)


@pytest.mark.skipif(shutil.which("ld") is None, reason="ld is not installed")
def test_another_linker_is_chosen(weft_command: Command, dense_folder: Path, tmp_path: Path):
    model, path = dense_folder / "dense.onnx", tmp_path / "libnet.so"
    weft_command.succeeds("compile", model, "-o", path, "--linker", "ld")
    assert "weights   intact, SHA-256 " in weft_command.succeeds("verify", path)
    assert weft.load(path)(rows_of(2))[0].shape == (2, 80)
    other = tmp_path / "libnet.a"
    refusal = weft_command.fails("compile", model, "-o", other, "--linker", "ld")
    assert "--linker ld requires a shared object, got a" in refusal
    assert not other.exists()


def test_names_the_output_after_the_model(
    weft_command: Command, dense_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    weft_command.succeeds("compile", dense_folder / "dense.onnx")
    assert names(tmp_path) == {"libdense.so", "libdense.h"}


@pytest.mark.parametrize(
    ("arguments", "magic"),
    [(["-o", "net.a"], b"!<arch>"), (["--emit", "a"], b"!<arch>"), (["-o", "net.so"], b"\x7fELF")],
    ids=["name", "option", "shared"],
)
def test_the_name_or_the_option_says_what_is_written(
    weft_command: Command,
    dense_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    magic: bytes,
):
    monkeypatch.chdir(tmp_path)
    weft_command.succeeds("compile", dense_folder / "dense.onnx", *arguments)
    (written,) = (path for path in tmp_path.iterdir() if path.suffix != ".h")
    assert written.read_bytes().startswith(magic)


def test_writes_objects_into_a_folder(weft_command: Command, dense_folder: Path, tmp_path: Path):
    weft_command.succeeds(
        "compile", dense_folder / "dense.onnx", "--emit", "obj", "-o", tmp_path / "objects"
    )
    assert {"runtime.o", "program.o", "weights.o", "dense.h"} < names(tmp_path / "objects")


@pytest.mark.parametrize(
    ("level", "text"),
    [
        ("graph", "graph.matmul"),
        ("loop", "loop.program @main[rows]"),
        ("llvm", 'define hidden i32 @"dense.program"'),
        ("asm", "dense.program:"),
    ],
)
def test_prints_a_level(weft_command: Command, dense_folder: Path, level: str, text: str):
    assert text in weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", level)


def test_writes_a_level(weft_command: Command, dense_folder: Path, tmp_path: Path):
    path = tmp_path / "dense.mlir"
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", "loop", "-o", path)
    assert "loop.program" in path.read_text()


def test_dumps_every_stage(weft_command: Command, dense_folder: Path, tmp_path: Path):
    stages = tmp_path / "stages"
    weft_command.succeeds(
        "compile",
        dense_folder / "dense.onnx",
        "-o",
        tmp_path / "m.so",
        "--dump-dir",
        stages,
        "--verify-each",
    )
    written = names(stages)
    passes = (*GRAPH_PASSES, *program_passes(CodeOptions()))
    texts = {f"{number:02}-{each.name}.mlir" for number, each in enumerate(passes, 1)}
    assert {"00-imported.mlir"} | texts == {name for name in written if name.endswith(".mlir")}
    assert any(name.startswith("matmul") and name.endswith(".ll") for name in written)


def test_options_reach_the_compiler(weft_command: Command, dense_folder: Path, tmp_path: Path):
    path = tmp_path / "m.so"
    options = ("--target-cpu", "x86-64-v2", "--prefix", "tiny", "--naive", "--strict-fp")
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "-o", path, *options)
    facts = weft_command.succeeds("inspect", path)
    assert facts.startswith("tiny: ")
    assert "x86-64-v2" in facts
    assert "naive" in facts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target-cpu", "z80"], "target requires one of native, x86-64"),
        (["--prefix", "1st"], "prefix requires letters, digits and _"),
        (["-o", "m.dll"], "-o requires a name in .so, .a or .wasm, or --emit, got m.dll"),
        (["-o", "none/m.so"], "-o requires a folder that exists, got none"),
    ],
    ids=["target", "prefix", "name", "folder"],
)
def test_refuses_options(
    weft_command: Command,
    dense_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    assert message in weft_command.fails("compile", dense_folder / "dense.onnx", *arguments)
    assert names(tmp_path) == set()


def truncated(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString()[:-10]


def with_a_flipped_bit(model: onnx.ModelProto) -> bytes:
    data = bytearray(model.SerializeToString())
    data[2] ^= 0x04
    return bytes(data)


def with_an_unknown_op(model: onnx.ModelProto) -> bytes:
    model.graph.node[0].op_type = "Frobnicate"
    return model.SerializeToString()


def with_a_cycle(model: onnx.ModelProto) -> bytes:
    model.graph.node[0].input[1] = "z"
    return model.SerializeToString()


def with_a_name_twice(model: onnx.ModelProto) -> bytes:
    model.graph.node.add().CopyFrom(model.graph.node[0])
    return model.SerializeToString()


def with_a_huge_dim(model: onnx.ModelProto) -> bytes:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 62
    return model.SerializeToString()


def with_a_negative_dim(model: onnx.ModelProto) -> bytes:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -3
    return model.SerializeToString()


def with_weights_outside_its_folder(model: onnx.ModelProto) -> bytes:
    tensor = model.graph.initializer.add(name="y", data_type=1, dims=[8], data_location=1)
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return model.SerializeToString()


def empty(model: onnx.ModelProto) -> bytes:
    return b""


BAD_MODELS = (
    truncated, with_a_flipped_bit, with_an_unknown_op, with_a_cycle, with_a_name_twice,
    with_a_huge_dim, with_a_negative_dim, with_weights_outside_its_folder, empty,
)  # fmt: skip


@pytest.mark.parametrize("damage", BAD_MODELS, ids=lambda damage: damage.__name__)
def test_a_bad_model_is_one_line_and_no_file(weft_command: Command, tmp_path: Path, damage):
    model = tmp_path / "bad.onnx"
    model.write_bytes(damage(add_model()))
    assert "bad.onnx" in weft_command.fails("compile", model, "-o", tmp_path / "libbad.so")
    assert names(tmp_path) == {"bad.onnx"}


def test_a_missing_model_is_one_line(weft_command: Command, tmp_path: Path):
    message = weft_command.fails("compile", tmp_path / "none.onnx", "-o", tmp_path / "m.so")
    assert "none.onnx" in message
    assert "No such file" in message


def test_what_takes_too_long_leaves_nothing(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    """B1: one line, and neither a file nor a part of one."""
    model, output = dense_folder / "dense.onnx", tmp_path / "model.so"
    error = weft_command.fails("compile", model, "-o", output, "--no-cache", "--timeout", "0.01")
    rule = "compiling requires at most 0.01 s, got more; --timeout (timeout= in Python) allows more"
    assert error.endswith(rule)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_warning(
    weft_command: Command, dense_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    outcome = weft_command("compile", dense_folder / "dense.onnx", "-o", tmp_path / "m.so")
    assert outcome.status == 0
    assert outcome.error.startswith("weft: warning: cache requires a folder that can be written")
    assert outcome.error.count("\n") == 1


def test_the_cache_gives_the_same_file(weft_command: Command, dense_folder: Path, tmp_path: Path):
    contents = []
    for option in ([], [], ["--no-cache"]):
        path = tmp_path / "libm.so"
        weft_command.succeeds("compile", dense_folder / "dense.onnx", "-o", path, *option)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] == contents[2]
    assert np.frombuffer(contents[0][:4], np.uint8).tolist() == [0x7F, 69, 76, 70]
