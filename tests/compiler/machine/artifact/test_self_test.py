"""Golden inputs and outputs in an artifact: from C, from Python, in every form, and what is off."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

import weft
from tests.support.small_models import add_model, dense_model, dense_reference, rows_of
from tests.weft.cli.command import Command
from weft.compilation import options_of
from weft.compiler.driver.golden import MOST_BYTES
from weft.compiler.driver.named_sizes import parse_bound, parse_bucket
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.artifact.artifact import Compiled, load, read_metadata
from weft.compiler.machine.codegen.host import host_target

HOST_PROGRAM = Path(__file__).with_name("self_test_host.c")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def compiled_from(model: ModelProto, **options: object) -> Compiled:
    given = {"self_test": True, "prefix": "dense"} | options
    return compile_model(model, options_of(model, **given))


def logical(bias: float) -> dict[str, np.ndarray]:
    tensors = dense_model("rows", bias).graph.initializer
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


@needs_cc
@pytest.mark.parametrize("library", ["libdense.so", "libdense.a"])
def test_a_c_program_runs_it(library: str, tmp_path: Path):
    compiled = compiled_from(dense_model("rows"))
    (compiled.export if library.endswith("so") else compiled.export_archive)(tmp_path / library)
    flags = ["-std=c11", "-Wall", "-Werror", f"-I{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-pthread"]
    program = tmp_path / "host"
    sources = [str(HOST_PROGRAM), str(tmp_path / library)]
    subprocess.run(["cc", *sources, *flags, "-o", str(program)], check=True)
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"0\n"


@pytest.mark.parametrize("place", ["embedded", "file", "caller"])
def test_other_weights_fail_it_where_there_can_be_some(place: str, tmp_path: Path):
    path = tmp_path / "libdense.so"
    compiled = compiled_from(dense_model("rows"), weights=place)
    compiled.executable().self_test()
    compiled.export(path)
    weights = logical(0.0) if place == "caller" else None
    load(path, host_target(), weights=weights).self_test()
    if place != "caller":
        return
    other = load(path, host_target(), weights=logical(1.0))
    with pytest.raises(weft.ArtifactError) as failure:
        other.self_test()
    number = r"(-?\d\.\d{6}(?:e-?\d+)?)"
    text = rf"requires {number} within {number} at \((\d+), (\d+)\) of output 'y', got {number}$"
    wanted, margin, *place_, got = re.search(text, str(failure.value)).groups()
    assert float(got) != float(wanted)
    assert abs(float(got) - float(wanted)) > float(margin) > 0
    assert int(place_[0]) == 0


def test_the_numbers_of_a_failure_are_those_of_the_outputs(tmp_path: Path):
    model = dense_model("rows", 1.0)
    x = rows_of(3)
    compiled = compiled_from(model, weights="caller", self_test={"x": x})
    compiled.export(tmp_path / "libdense.so")
    other = load(tmp_path / "libdense.so", host_target(), weights=logical(0.0))
    with pytest.raises(weft.ArtifactError) as failure:
        other.self_test()
    wanted, _, row, column, got = re.search(
        r"requires (\S+) within (\S+) at \((\d+), (\d+)\) of output 'y', got (\S+)$",
        str(failure.value),
    ).groups()
    place = int(row), int(column)
    assert float(wanted) == pytest.approx(dense_reference(model, x)[place], rel=1e-5)
    assert float(got) == pytest.approx(other(x)[0][place], rel=1e-5, abs=1e-12)


def test_levels_and_sizes_are_part_of_it(tmp_path: Path):
    compiled = compiled_from(
        dense_model("rows"), isa=["v2", "v3"], bounds=[parse_bound("rows=5..7")]
    )
    assert compiled.metadata["self_test"]["sizes"] == {"rows": 5}
    compiled.export(tmp_path / "libdense.so")
    load(tmp_path / "libdense.so", host_target()).self_test()
    buckets = compiled_from(dense_model("rows"), buckets=[parse_bucket("rows=3,9")])
    assert buckets.metadata["self_test"]["sizes"] == {"rows": 3}
    buckets.executable().self_test()


def test_derived_sizes_and_gradients_are_part_of_it():
    text = """agraph (float[n, m] x) => (float[k] y) {
      s = Constant<value_ints = [-1]>() y = Reshape(x, s) }"""
    model = parser.parse_model(HEAD + text)
    assert compiled_from(model).metadata["self_test"]["sizes"] == {"n": 2, "m": 8}
    text = "agraph (float[n, 3] x) => (float y) { t = Mul(x, x) y = ReduceSum<keepdims = 0>(t) }"
    compiled = compiled_from(parser.parse_model(HEAD + text), gradients=["x"])
    assert [each["name"] for each in compiled.metadata["outputs"]] == ["y", "grad_x"]


def test_sizes_are_such_as_the_model_takes():
    text = """agraph (float[n, 1, h, w] x, float[1, 1, 11, 11] k) => (float[n, 1, a, b] y) {
      y = Conv(x, k) }"""
    compiled = compiled_from(parser.parse_model(HEAD + text))
    assert compiled.metadata["self_test"]["sizes"] == {"n": 2, "h": 32, "w": 32}


def test_outputs_that_the_call_makes_are_compared():
    text = "agraph (float[n, 4] x) => (int64[2, k] places) { places = NonZero(x) }"
    compiled_from(parser.parse_model(HEAD + text)).executable().self_test()


@pytest.mark.parametrize("dtype", [1, 2, 3, 6, 7, 10, 11, 16])
def test_every_type_is_compared(dtype: int):
    compiled = compiled_from(add_model((3, 5), dtype))
    compiled.executable().self_test()
    coarse = {10: 2.0**-7, 16: 2.0**-4, 11: 1e-9}
    assert compiled.metadata["self_test"]["tolerance"] == coarse.get(dtype, 1e-4)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "bool"])
def test_narrow_outputs_are_decoded(dtype: str):
    kinds = {"float8_e4m3fn": 17, "float8_e5m2": 19, "float16": 10, "bfloat16": 16, "bool": 9}
    x = helper.make_tensor_value_info("x", 1, ["n"])
    y = helper.make_tensor_value_info("y", kinds[dtype], ["n"])
    node = helper.make_node("Cast", ["x"], ["y"], to=kinds[dtype])
    graph = helper.make_graph([node], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    values = np.concatenate([np.ldexp(1.0, np.arange(-30, 8)), [0.0, -0.0, -1.5, np.nan, np.inf]])
    given = {"x": values.astype(np.float32)}
    compiled_from(model, self_test=given).executable().self_test()


def test_given_inputs_are_what_it_runs_on(tmp_path: Path):
    np.savez(tmp_path / "inputs.npz", x=rows_of(3))
    compiled = compiled_from(dense_model("rows"), self_test=tmp_path / "inputs.npz")
    facts = compiled.metadata["self_test"]
    assert (facts["inputs"], facts["sizes"]) == ("given", {"rows": 3})
    same = compiled_from(dense_model("rows"), self_test={"x": rows_of(3)})
    other = compiled_from(dense_model("rows"), self_test={"x": rows_of(3, seed=2)})
    assert same.metadata == compiled.metadata
    assert other.metadata["self_test"]["sha256"] != facts["sha256"]


REFUSED = {
    "names": ({"y": rows_of(3)}, "requires arrays named x, got y"),
    "dtype": ({"x": rows_of(3).astype("f8")}, r"float32 \(rows, 96\) for input 'x', got float64"),
    "shape": ({"x": rows_of(3).T}, r"float32 \(rows, 96\) for input 'x', got float32 \(96, 3\)"),
    "file": ("missing.npz", "requires arrays by name in NumPy's format .npz, got missing.npz"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_do_not_fit_are_refused(case: str):
    given, text = REFUSED[case]
    with pytest.raises(weft.OptionError, match=text):
        compiled_from(dense_model("rows"), self_test=given)


def test_it_has_a_limit():
    with pytest.raises(weft.OptionError, match=f"requires at most {MOST_BYTES} bytes"):
        compiled_from(add_model((6 << 20,)))


def test_a_model_out_of_the_cache_has_it(tmp_path: Path):
    cache = weft.Cache(tmp_path)
    model = dense_model("rows")
    for _ in range(2):
        weft.compile(model, cache=cache, self_test=True).self_test()
    with pytest.raises(weft.OptionError, match="requires a model that was compiled with one"):
        weft.compile(model, cache=cache).self_test()


def test_verify_runs_it_and_inspect_shows_it(weft_command: Command, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    model, path = tmp_path / "dense.onnx", tmp_path / "libdense.so"
    onnx.save(dense_model("rows"), model)
    weft_command.succeeds("compile", model, "--self-test", "-o", path)
    assert "self-test" in weft_command.succeeds("verify", path)
    assert "passed, within 0.0001" in weft_command.succeeds("verify", path)
    assert "self-test" not in weft_command.succeeds("verify", path, "--no-run")
    assert "of seeded inputs and their outputs for rows = 2" in weft_command.succeeds(
        "inspect", path
    )
    assert read_metadata(path)["self_test"]["inputs"] == "seeded"
    foreign = tmp_path / "libforeign.so"
    weft_command.succeeds("compile", model, "--self-test", "--target-cpu", "aarch64", "-o", foreign)
    assert "not run: " in weft_command.succeeds("verify", foreign)


@pytest.fixture
def weft_command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
