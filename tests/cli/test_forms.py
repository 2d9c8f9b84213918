"""What helps others to use a shared object: it compiles, links, and gives what Python gives."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import weft
from compiler.machine.forms import FORMS
from tests.cli.command import Command

NO_CARGO = shutil.which("rustc") is None
NO_GO = shutil.which("go") is None


@pytest.fixture
def library(weft_command: Command, dense_folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "libdense.so"
    kinds = ",".join(["so", *FORMS])
    weft_command.succeeds("compile", dense_folder / "dense.onnx", "--emit", kinds, "-o", path)
    return path


def shell(folder: Path, *command: object) -> str:
    texts = [str(part) for part in command]
    done = subprocess.run(texts, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_example_in_c_runs(library: Path):
    source = "dense_example.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", source, "-L.", "-ldense", "-Wl,-rpath,."]
    shell(library.parent, "cc", *flags, "-o", "example")
    lines = shell(library.parent, "./example").splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("output 0[0] = ")


def test_python_module_needs_the_standard_library_alone(library: Path, dense_folder: Path):
    x = np.load(dense_folder / "x.npy")
    (library.parent / "x").write_bytes(x.tobytes())
    script = f"""
import sys, dense
x = open("x", "rb").read()
model = dense.Model(threads=2)
(y,) = model.run(x, rows={x.shape[0]})
open("y", "wb").write(bytes(y))
assert bytes(model.run(memoryview(x).cast("f", {x.shape}))[0]) == bytes(y)
print(model.inputs, model.outputs, model.sizes, model.has_self_test)
for wrong in (lambda: model.run(x[1:], rows={x.shape[0]}), lambda: model.run(x)):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        print(error)
assert "numpy" not in sys.modules
"""
    said = shell(library.parent, sys.executable, "-c", script)
    assert said.splitlines() == [
        "[x: float32 ['rows', 96]] [y: float32 ['rows', 80]] ['rows'] False",
        f"run requires {x.nbytes} bytes of x: float32 ['rows', 96] where rows = {x.shape[0]}, "
        f"got {x.nbytes - 1}",
        "run requires the sizes ['rows'], got []",
    ]
    (expected,) = weft.load(library)(x)
    got = np.frombuffer((library.parent / "y").read_bytes(), np.float32)
    np.testing.assert_array_equal(got, expected.ravel())


def test_python_module_gives_outputs_that_calls_make(weft_command: Command, tmp_path: Path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[n, 4] x) => (int64[2, k] places) { places = NonZero(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "found.onnx")
    library, kinds = tmp_path / "libfound.so", "so,python"
    weft_command.succeeds(
        "compile", tmp_path / "found.onnx", "--emit", kinds, "-o", library, "--self-test"
    )
    script = """
import array, found
model = found.Model()
model.self_test()
x = memoryview(array.array("f", [0, 2, 0, 0, 1, 0, 0, 3]).tobytes()).cast("f", (2, 4))
print(model.found == list(model.outputs[0].dims[1:]), list(model.run(x)[0]))
"""
    assert shell(tmp_path, sys.executable, "-c", script) == "True [0, 1, 1, 1, 0, 3]\n"


@pytest.mark.skipif(NO_CARGO, reason="rustc is not installed")
def test_rust_module_refuses_another_library(library: Path):
    source = library.parent / "dense.rs"
    source.write_text(source.read_text().replace("(rows, 96)", "(rows, 97)"))
    main = library.parent / "main.rs"
    main.write_text(
        'mod dense;\nfn main() {\n  println!("{}", dense::Model::new(2).err().unwrap());\n}\n'
    )
    flags = ["-L", ".", "-l", "dense", "-C", "link-arg=-Wl,-rpath,."]
    shell(library.parent, "rustc", "main.rs", *flags)
    said = shell(library.parent, "./main")
    assert said.startswith("dense requires a library of")
    assert '"x float32 (rows, 96)"' in said


@pytest.mark.skipif(NO_CARGO, reason="rustc is not installed")
def test_rust_module_runs(library: Path):
    main = library.parent / "main.rs"
    main.write_text(
        "mod dense;\nfn main() {\n  let x = vec![1f32; 2 * 96];\n"
        "  let (y,) = dense::Model::new(2).unwrap().run(&x, [2]).unwrap();\n"
        '  assert_eq!(y[..80], y[80..]);\n  println!("{}", y.len());\n}\n'
    )
    flags = ["-L", ".", "-l", "dense", "-C", "link-arg=-Wl,-rpath,."]
    shell(library.parent, "rustc", "main.rs", *flags)
    assert shell(library.parent, "./main") == "160\n"


@pytest.mark.skipif(NO_GO, reason="go is not installed")
def test_go_package_compiles(library: Path):
    folder = library.parent
    (folder / "go.mod").write_text("module dense\n\ngo 1.21\n")
    shell(folder, "go", "vet", ".")


def test_pkg_config_and_cmake_name_the_library(library: Path):
    folder = library.parent
    assert "-ldense" in (folder / "dense.pc").read_text()
    assert "libdense.so" in (folder / "libdense.cmake").read_text()


@pytest.mark.parametrize("kinds", ["so,a", "nonsense", "graph,pc", ""])
def test_contradicting_kinds_are_wrong_usage(kinds: str, weft_command: Command):
    outcome = weft_command("compile", "m.onnx", "--emit", kinds)
    assert outcome.status == 2
    assert "--emit" in outcome.error
