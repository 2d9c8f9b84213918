"""The same model, options and weft give the same bytes wherever and however they are compiled."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.models.networks import NETWORKS
from tests.support.small_models import dense_model
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model

ROOT = Path(__file__).parents[4]

BUILD = """\
import os, sys
from pathlib import Path
model, cores, options = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
os.sched_getaffinity = lambda process: set(range(cores))  # as many processes compile
from weft.compiler.driver.pipeline import __file__ as where, compile_model
assert where.startswith(os.environ["PYTHONPATH"]), where
from weft.compilation import options_of
compiled = compile_model(model, options_of(model, prefix="net", **options))
compiled.export(Path("libnet.so"))
compiled.export_archive(Path("libnet.a"))
"""


def build(model: Path, folder: Path, source: Path, seed: int, cores: int, options: str) -> None:
    """Compiles in a process of its own, with so many processes beside it, into a folder."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(source)}
    command = [sys.executable, "-P", "-c", BUILD, str(model), str(cores), options]
    subprocess.run(command, cwd=folder, env=environment, check=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lenet", '{"isa": ["v2", "v3"], "self_test": True}'),
        ("bert", '{"target": "x86-64-v4", "weights": "file"}'),
    ],
)
def test_builds_are_the_same_bytes(name: str, options: str, tmp_path: Path):
    network = next(each for each in NETWORKS if each.name == name)
    model, other = tmp_path / "model.onnx", tmp_path / "elsewhere" / "net.onnx"
    onnx.save(network.build(), model)
    other.parent.mkdir()
    shutil.copy(model, other)
    moved = tmp_path / "moved"
    shutil.copytree(ROOT / "weft", moved / "weft")
    build(model, tmp_path / "a", ROOT, 0, 1, options)
    build(other, tmp_path / "b" / "deeper", moved, 77, 3, options)
    files = {path.name for path in (tmp_path / "a").iterdir()}
    beside = {"libnet.safetensors"} if "file" in options else set[str]()
    assert files >= {"libnet.so", "libnet.a", "libnet.h"} | beside
    for file in files:
        first = (tmp_path / "a" / file).read_bytes()
        assert first == (tmp_path / "b" / "deeper" / file).read_bytes(), file
        assert str(tmp_path).encode() not in first
        assert str(ROOT).encode() not in first


def test_what_was_compiled_before_does_not_matter():
    """LLVM has globals that a target changes as soon as code is made for it."""

    def objects(target: str) -> dict[str, bytes]:
        options = options_of(dense_model(), target=target, prefix="net")
        return dict(compile_model(dense_model(), options).objects)

    first = {target: objects(target) for target in ("x86-64-v3", "aarch64", "riscv64", "wasm32")}
    assert {target: objects(target) for target in first} == first
