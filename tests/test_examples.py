"""Every program in examples/ runs, in an empty folder and with a cache of its own."""

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import parser

from tests.models.light import SEED, seeded_input
from tests.models.peer import run_onnxruntime
from tests.support.shared_kernels import compile_shared
from weft.cli.demo_model import load_light, with_random_weights
from weft.compilation import options_of
from weft.compiler.abi.constants import Status

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    shown = subprocess.run(
        [sys.executable, example],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout != ""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A cell after the other, whose source functions of it are read from, as Jupyter has it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    assert len(code) >= 4
    for number, text in enumerate(code):
        name = f"<cell {number} of {notebook.stem}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), names)


@pytest.mark.parametrize("library", ["libresnet50.so", "libresnet50.a"])
def test_example_in_c_names_the_class_that_onnxruntime_names(library: str, tmp_path: Path):
    model, image = with_random_weights(load_light("resnet50"), SEED), seeded_input()
    compiled = compile_shared(model, options_of(model, prefix="resnet50"))
    export = compiled.export if library.endswith(".so") else compiled.export_archive
    export(tmp_path / library)
    beside = (tmp_path / library).stat().st_size - sum(blob.size for blob in compiled.blobs())
    assert beside < 1_000_000, "code, metadata and tables are small beside the weights"
    (tmp_path / "image.raw").write_bytes(image.tobytes())
    source = ROOT / "examples" / "c" / "classify.c"
    assert len(source.read_text().split("int main")[1].splitlines()) <= 20
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", source, library, "-Wl,-rpath,."]
    flags += ["-pthread"] if library.endswith(".a") else []
    subprocess.run(["cc", *flags, "-o", "classify"], cwd=tmp_path, check=True)
    shown = subprocess.run(
        ["./classify", "image.raw"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    constants = {tensor.name for tensor in model.graph.initializer}
    (name,) = {value.name for value in model.graph.input} - constants
    (expected,) = run_onnxruntime(model, {name: image})
    assert int(shown.stdout) == expected.argmax()
    needed = subprocess.run(
        ["ldd", "./classify"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[0].rsplit("/", 1)[-1] for line in needed.splitlines()}
    assert names <= {"linux-vdso.so.1", "libresnet50.so", "libc.so.6", "ld-linux-x86-64.so.2"}


def test_a_host_in_c_decodes_images(tmp_path: Path):
    """Pixels of a PPM file; what its decoder does not know ends the call."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        agraph (uint8[n] data) => (uint8[h, w, c] image) { [dec] image = ImageDecoder(data) }""")
    compile_shared(model, options_of(model, prefix="decoder")).export(tmp_path / "libdecoder.so")
    source = ROOT / "examples" / "c" / "decode.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", source, "libdecoder.so"]
    subprocess.run(["cc", *flags, "-Wl,-rpath,.", "-o", "decode"], cwd=tmp_path, check=True)
    pixels = bytes(range(7 * 5 * 3))
    for data, shown in (
        (b"P6\n5 7\n255\n" + pixels, (0, "7 5 104\n")),
        (b"P6\n5 7\n255\n" + pixels[1:], (Status.CANCELLED, "to succeed, got 1, at dec\n")),
    ):
        (tmp_path / "image.ppm").write_bytes(data)
        command = ["./decode", "image.ppm"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout[-len(shown[1]) :]) == shown


def test_there_are_examples():
    assert len(EXAMPLES) >= 3
