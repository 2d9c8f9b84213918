"""A saved graph goes on to the same bytes; what is no such file is refused."""

from pathlib import Path

from compiler.cli.opt import run_opt
from tests.cli.command import Command


def test_saved_graph_gives_the_same_artifact(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    saved = tmp_path / "net.mlir"
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", "graph", "-o", saved)
    libraries: list[bytes] = []
    for name, model in (("a", dense_folder / "dense.onnx"), ("b", saved)):
        (tmp_path / name).mkdir()
        library = tmp_path / name / "libnet.so"
        weft_command.succeeds("compile", model, "--prefix", "net", "-o", library)
        libraries.append(library.read_bytes())
    assert libraries[0] == libraries[1]
    assert "graph.matmul" in run_opt([str(saved)])


def test_graph_files_of_others_are_refused(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    saved = tmp_path / "net.mlir"
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", "graph", "-o", saved)
    newer = tmp_path / "newer.mlir"
    newer.write_text(saved.read_text().replace("graph_version = 1", "graph_version = 2"))
    assert "version 1 at most" in weft_command.fails("compile", newer)
    (tmp_path / "bare.mlir").write_text(saved.read_text())
    assert "bare.weights" in weft_command.fails("compile", tmp_path / "bare.mlir")
    (tmp_path / "text.mlir").write_text("nonsense")
    assert "text.mlir" in weft_command.fails("compile", tmp_path / "text.mlir")
