"""A saved graph goes on to the same code; what is no such file is refused."""

import hashlib
import re
from pathlib import Path

from benchmarks.same_code import Code, codes_of
from tests.weft.cli.command import Command
from weft.cli.opt import run_opt
from weft.compiler.machine.artifact.artifact import read_metadata


def test_saved_graph_gives_the_same_code(weft_command: Command, dense_folder: Path, tmp_path: Path):
    saved = tmp_path / "net.mlir"
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", "graph", "-o", saved)
    archives: list[dict[str, Code]] = []
    calls: list[object] = []
    for name, model in (("a", dense_folder / "dense.onnx"), ("b", saved)):
        (tmp_path / name).mkdir()
        library = tmp_path / name / "libnet.so"
        weft_command.succeeds("compile", model, "--prefix", "net", "-o", library)
        weft_command.succeeds("compile", model, "--prefix", "net", "-o", library.with_suffix(".a"))
        archives.append(dict(codes_of(library.with_suffix(".a"))))
        (call,) = read_metadata(library)["calls"]
        calls.append(call | {"nodes": []})
    # The file does not have the names of the model's nodes, which are in the facts of the run time.
    for each in archives:
        del each["runtime"]
    assert archives[0] == archives[1]
    assert calls[0] == calls[1]
    assert "graph.matmul" in run_opt([str(saved)])


def test_graph_files_of_others_are_refused(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    saved = tmp_path / "net.mlir"
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", "graph", "-o", saved)
    newer = tmp_path / "newer.mlir"
    newer.write_text(saved.read_text().replace("graph_version = 3", "graph_version = 4"))
    assert "version 3, as this weft writes it" in weft_command.fails("compile", newer)
    (tmp_path / "bare.mlir").write_text(saved.read_text())
    assert "bare.weights" in weft_command.fails("compile", tmp_path / "bare.mlir")
    (tmp_path / "text.mlir").write_text("nonsense")
    assert "text.mlir" in weft_command.fails("compile", tmp_path / "text.mlir")


def test_weights_of_a_graph_file_are_those_that_were_written_with_it(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    """B2: one bit of a tensor, or the digest left out, and the graph is refused in one line."""
    saved = tmp_path / "net.mlir"
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", "graph", "-o", saved)
    weights = tmp_path / "net.weights"
    whole = weights.read_bytes()
    changed = bytearray(whole)
    changed[-100] ^= 1
    weights.write_bytes(changed)
    message = f"requires the weights that were written with it, got {weights} with others"
    assert message in weft_command.fails("compile", saved, "-o", tmp_path / "libnet.so")
    weights.write_bytes(whole)
    digest = re.search(r'weft.weights_sha256 = "(\w+)"', saved.read_text())
    assert digest is not None
    assert digest[1] == hashlib.sha256(whole).hexdigest()
    saved.write_text(saved.read_text().replace("weft.weights_sha256", "weft.other"))
    assert "requires the digest of its weights, got none" in weft_command.fails("compile", saved)
