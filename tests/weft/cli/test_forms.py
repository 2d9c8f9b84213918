"""What helps others to use a shared object: it compiles, links, and gives what Python gives."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import weft
from tests.weft.cli.command import Command
from weft.compiler.machine.bindings.files import BINDINGS


@pytest.fixture
def library(weft_command: Command, dense_folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "libdense.so"
    kinds = ",".join(["so", *BINDINGS])
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
        "['x': float32 ['rows', 96]] ['y': float32 ['rows', 80]] ['rows'] False",
        f"run requires {x.nbytes} bytes for 'x': float32 ['rows', 96], here {x.shape}, "
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


_GO_MAIN = """\
package main

import (
	"fmt"
	"weft.example/dense"
)

func main() {
	model, err := dense.New(2)
	if err != nil {
		panic(err)
	}
	defer model.Close()
	x, y := make([]float32, 2*96), make([]float32, 2*80)
	for i := range x {
		x[i] = 1
	}
	failed, sum := model.Run(x, y, []int64{2}), float32(0)
	for i := range y[:80] {
		sum += y[i] * y[80+i]
	}
	fmt.Println(failed, sum > 0)
	fmt.Println(model.Run(x[1:], y, []int64{2}))
	fmt.Println(model.Run(x, y[1:], []int64{2}))
	fmt.Println(model.Run(x, y, []int64{}))
	fmt.Println(model.Run(x, y, []int64{-1}))
	fmt.Println(model.Run(x, y, []int64{1 << 61}))
	fmt.Println(model.Run(nil, nil, []int64{0}))
}
"""


def test_go_package_checks_every_slice_before_it_calls(library: Path):
    """C1"""
    folder = library.parent
    package = folder / "dense"
    package.mkdir()
    for file in ("libdense.so", "libdense.h", "dense_weft.go", "dense_example.c"):
        (folder / file).rename(package / file)
    (folder / "go.mod").write_text("module weft.example\n\ngo 1.18\n")
    (folder / "main.go").write_text(_GO_MAIN)
    shell(folder, "go", "vet", "./...")
    shell(folder, "go", "build", "-o", "main", ".")
    x, y = '"x float32 (rows, 96)"', '"y float32 (rows, 80)"'
    assert shell(folder, "./main").splitlines() == [
        "<nil> true",
        f"dense requires 192 elements of {x}, got 191",
        f"dense requires 160 elements of {y}, got 159",
        'dense requires the sizes ["rows"], got 0',
        "dense requires sizes that its tensors can have, got [-1 0]",
        f"dense requires sizes that its tensors can have, got [{1 << 61} 0]",
        "<nil>",
    ]


_BUFFERS = """
import array, dense, numpy as np
model = dense.Model(threads=1)
x = np.arange(192, dtype="f").reshape(2, 96)
expected = bytes(model.run(x)[0])
for good in (x.tolist(), array.array("f", x.ravel()), x.tobytes(), bytearray(x), x.ravel()):
    good = array.array("f", x.ravel()) if isinstance(good, list) else good
    assert bytes(model.run(good, rows=2)[0]) == expected
readable = x.copy()
readable.flags.writeable = False
assert bytes(model.run(readable)[0]) == expected and np.array_equal(readable, x)
assert bytes(model.run(x[:0], rows=0)[0]) == b""
wrong = [
    x.astype("d"), x.astype("i"), x.view("u4"), x.view("u1").reshape(2, 384), x.astype(">f"),
    np.asfortranarray(x), np.zeros((2, 192), "f")[:, ::2], x.T, x.reshape(96, 2),
    x.reshape(1, 2, 96), x[:, :95],
]
for each in wrong:
    try:
        model.run(each, rows=2)
    except ValueError as error:
        print(error)
for rows in (-1, 1 << 61, 1 << 70, 1.0, None):
    try:
        model.run(x, rows=rows)
    except (TypeError, ValueError) as error:
        print(error)
"""


def test_python_module_checks_types_shapes_and_order(library: Path):
    """C2"""
    said = shell(library.parent, sys.executable, "-c", _BUFFERS).splitlines()
    tensor = "for 'x': float32 ['rows', 96], here (2, 96)"
    shape = f"run requires shape (2, 96) {tensor}, got"
    dense = f"run requires dense rows, one after the other {tensor}, got strides"
    assert said[:11] == [
        f"run requires elements of float32 {tensor}, got the buffer format 'd'",
        f"run requires elements of float32 {tensor}, got the buffer format 'i'",
        f"run requires elements of float32 {tensor}, got the buffer format 'I'",
        f"run requires elements of float32 {tensor}, got the buffer format 'B'",
        f"run requires the byte order little {tensor}, got '>f'",
        f"{dense} (4, 8)",
        f"{dense} (768, 8)",
        f"{shape} (96, 2)",
        f"{shape} (96, 2)",
        f"{shape} (1, 2, 96)",
        f"{shape} (2, 95)",
    ]
    assert len(said) == 16


_FOUND = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, 4] x) => (int64[2, k] places, float[n, 4] y) {
  places = NonZero(x)
  y = Relu(x)
}"""


@pytest.fixture
def found(weft_command: Command, tmp_path: Path) -> Path:
    """A library whose first output is of sizes that calls find, with all that helps to use it."""
    onnx.save(onnx.parser.parse_model(_FOUND), tmp_path / "found.onnx")
    path, kinds = tmp_path / "libfound.so", ",".join(["so", *BINDINGS])
    weft_command.succeeds("compile", tmp_path / "found.onnx", "--emit", kinds, "-o", path)
    return path


_EXTENTS = """\
#include <stdio.h>
#include "libfour.h"

int main(void) {
  const int64_t sizes[] = {0, 3, INT64_C(1) << 45, (INT64_C(1) << 45) + 1,
                           (INT64_C(1) << 61) + 3, (INT64_C(1) << 62) + 1, -1};
  const weft_table *table = four_query();
  for (int n = 0; n < 7; n++)
    printf("%lld ", (long long)weft_elements(table, weft_output(table, 0), &sizes[n]));
  return 0;
}
"""


def test_header_refuses_sizes_whose_arithmetic_would_wrap(weft_command: Command, tmp_path: Path):
    """C1: what bindings check lengths by."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[n] x) => (float[m] y) { y = Concat<axis = 0>(x, x, x, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "four.onnx")
    weft_command.succeeds("compile", tmp_path / "four.onnx", "-o", tmp_path / "libfour.so")
    (tmp_path / "main.c").write_text(_EXTENTS)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-ftrapv"]
    shell(tmp_path, "cc", *strict, "main.c", "-L.", "-lfour", "-Wl,-rpath,.", "-o", "main")
    assert shell(tmp_path, "./main").split() == ["0", "12", str(1 << 47), "-1", "-1", "-1", "-1"]


def test_example_in_c_prints_outputs_that_calls_make(found: Path):
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-L.", "-lfound", "-Wl,-rpath,."]
    shell(found.parent, "cc", "found_example.c", *flags, "-o", "example")
    assert shell(found.parent, "./example").startswith("output 1[0] = 0")


def test_rust_module_gives_outputs_that_calls_make(found: Path):
    (found.parent / "main.rs").write_text(
        "mod found;\nfn main() {\n  let model = found::Model::new(1).unwrap();\n"
        "  let (places, y) = model.run(&[0., 2., 0., 0., 1., 0., 0., 3.], [2]).unwrap();\n"
        '  println!("{:?} {:?}", places, y);\n'
        '  println!("{}", model.run(&[1.], [2]).unwrap_err());\n'
        '  println!("{}", model.run(&[1.], [1 << 61]).unwrap_err());\n}\n'
    )
    flags = ["-D", "warnings", "-L", ".", "-l", "found", "-C", "link-arg=-Wl,-rpath,."]
    shell(found.parent, "rustc", "main.rs", *flags)
    assert shell(found.parent, "./main").splitlines() == [
        "[0, 1, 1, 1, 0, 3] [0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 3.0]",
        'found requires 8 elements of "x float32 (n, 4)", got 1',
        "found requires sizes that its tensors can have, got "
        '[2305843009213693952, 0] for ["n", "NonZero_0_count"]',
    ]


def test_go_package_gives_outputs_that_calls_make(found: Path):
    """C1"""
    folder = found.parent
    (folder / "go.mod").write_text("module weft.example\n\ngo 1.18\n")
    (folder / "found_test.go").write_text(
        'package found\n\nimport "fmt"\n\nfunc ExampleModel() {\n'
        "\tmodel, _ := New(1)\n\tplaces, sizes := []int64{}, []int64{2, 0}\n"
        "\tx, y := []float32{0, 2, 0, 0, 1, 0, 0, 3}, make([]float32, 8)\n"
        "\tfmt.Println(model.Run(x, &places, y, sizes), places, sizes, y)\n"
        "\t// Output: <nil> [0 1 1 1 0 3] [2 3] [0 2 0 0 1 0 0 3]\n}\n"
    )
    assert "ok" in shell(folder, "go", "test", ".")


_CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(user C)
include(denseConfig.cmake)
include(denseConfig.cmake)
find_package(dense 7 CONFIG REQUIRED PATHS . NO_DEFAULT_PATH)
find_package(dense 3 CONFIG REQUIRED PATHS . NO_DEFAULT_PATH)
find_package(dense 8 CONFIG QUIET PATHS . NO_DEFAULT_PATH)
message(STATUS "8 is found: ${dense_FOUND}")
add_executable(user dense_example.c)
target_link_libraries(user PRIVATE dense::dense)
"""


def test_cmake_and_pkg_config_know_the_version_of_the_model(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    """N3: files of CMake can be included twice, and the version is the model's own."""
    model = onnx.load(dense_folder / "dense.onnx")
    model.model_version = 7
    onnx.save(model, tmp_path / "dense.onnx")
    library, kinds = tmp_path / "libdense.so", "so,cmake,pc,example-c"
    weft_command.succeeds("compile", tmp_path / "dense.onnx", "--emit", kinds, "-o", library)
    (tmp_path / "CMakeLists.txt").write_text(_CMAKE)
    assert "8 is found: 0" in shell(tmp_path, "cmake", "-S", ".", "-B", "build")
    shell(tmp_path, "cmake", "--build", "build")
    assert shell(tmp_path, "build/user").startswith("output 0[0] = ")
    flags = {"env": {**os.environ, "PKG_CONFIG_PATH": str(tmp_path)}}
    for options in (["--modversion", "dense"], ["--exists", "dense >= 7"]):
        subprocess.run(["pkg-config", "--print-errors", *options], check=True, **flags)
    assert weft.load(library).metadata["model_version"] == 7


@pytest.mark.parametrize(
    "name", ["a b", 'a"b', "a;b", "-a", ".a", "3d", "$(a)", "a,b", "ü", "a\nb"]
)
def test_names_that_build_systems_misread_are_refused_at_once(
    name: str, weft_command: Command, dense_folder: Path, tmp_path: Path
):
    """N3: before anything is compiled, with the way out."""
    model = tmp_path / f"{name}.onnx"
    model.write_bytes(b"no model")
    said = weft_command.fails("compile", model)
    assert "requires a name of letters, digits" in said
    assert "-o" in said
    executable = weft.compile(dense_folder / "dense.onnx")
    with pytest.raises(weft.OptionError, match="requires a name of letters, digits"):
        executable.export(tmp_path / f"{name}.so")
    assert not list(tmp_path.glob("*.so"))


def test_bindings_require_a_library_that_linkers_find(weft_command: Command, tmp_path: Path):
    """N3"""
    said = weft_command.fails("compile", "m.onnx", "--emit", "so,pc", "-o", tmp_path / "net.so")
    assert "lib<name>.so, got net.so" in said


@pytest.mark.parametrize("kinds", ["so,a", "nonsense", "graph,pc", ""])
def test_contradicting_kinds_are_wrong_usage(kinds: str, weft_command: Command):
    outcome = weft_command("compile", "m.onnx", "--emit", kinds)
    assert outcome.status == 2
    assert "--emit" in outcome.error
