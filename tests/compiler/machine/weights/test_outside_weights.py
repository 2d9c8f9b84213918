"""Weights beside an artifact, or with its caller, from Python and from C."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from onnx import helper, numpy_helper, parser

import weft
from tests.support.small_models import dense_model, rows_of
from tests.weft.cli.command import Command
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.loop_to_llvm.runtime import EXPORTS, LIBC_NAMES
from weft.compiler.machine.artifact.artifact import Compiled, read_metadata
from weft.compiler.machine.artifact.cache import Cache
from weft.compiler.machine.artifact.verify import verify
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.weights.file import data_bytes, file_header, map_weights

ROWS = 37
HOST_PROGRAM = Path(__file__).with_name("weights_host.c")
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")


def compiled_with(weights: str, bias: float = 0.0, target: str = "native") -> Compiled:
    model = dense_model("rows", bias)
    return compile_model(model, options_of(model, target=target, prefix="dense", weights=weights))


def logical(bias: float = 0.0) -> dict[str, np.ndarray]:
    tensors = dense_model("rows", bias).graph.initializer
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    model = dense_model("rows")
    return weft.compile(model, cache=False)(rows_of(ROWS))[0]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libdense.so with libdense.safetensors."""
    path = tmp_path_factory.mktemp("file") / "libdense.so"
    compiled_with("file").export(path)
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libdense.so, which takes its weights from its caller."""
    path = tmp_path_factory.mktemp("caller") / "libdense.so"
    compiled_with("caller").export(path)
    return path


def test_the_file_is_mapped_and_shared(beside: Path, expected: np.ndarray):
    first, second = weft.load(beside, threads=1), weft.load(beside, threads=2)
    assert first(rows_of(ROWS))[0].tobytes() == expected.tobytes()
    assert second(rows_of(ROWS))[0].tobytes() == expected.tobytes()
    name = str(beside.with_suffix(".safetensors"))
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if name in line]
    assert maps
    assert all("w" not in line.split()[1] for line in maps)


def test_the_file_is_one_of_safetensors(beside: Path):
    content = beside.with_suffix(".safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header.pop("__metadata__") == {"sha256": read_metadata(beside)["weights_sha256"]}
    places = sorted(each["data_offsets"] for each in header.values())
    assert [start for start, _ in places] == [0, *(end for _, end in places[:-1])]
    assert places[-1][1] == len(content) - 8 - size
    start, end = header["bias"].pop("data_offsets")
    assert header["bias"] == {"dtype": "F32", "shape": [80]}
    stored = np.frombuffer(content[8 + size + start : 8 + size + end], np.float32)
    np.testing.assert_array_equal(stored, logical()["bias"])


def test_a_file_elsewhere_is_given_by_its_path(beside: Path, tmp_path: Path, expected: np.ndarray):
    shutil.copy(beside, tmp_path / "libdense.so")
    with pytest.raises(
        weft.ArtifactError, match="requires a readable file of weights, got No such"
    ):
        weft.load(tmp_path / "libdense.so")
    loaded = weft.load(tmp_path / "libdense.so", weights=beside.with_suffix(".safetensors"))
    assert loaded(rows_of(ROWS))[0].tobytes() == expected.tobytes()


def findings_of(path: Path) -> list[tuple[bool, str]]:
    found = verify(path, host_target(), exports=EXPORTS, libc=LIBC_NAMES)
    return [(each.ok, each.text) for each in found]


def test_files_of_other_weights_are_refused(beside: Path, tmp_path: Path):
    path = tmp_path / "libdense.so"
    compiled_with("file", bias=1.0).export(path)
    shutil.copy(beside, path)
    with pytest.raises(weft.ArtifactError, match="compiled with, got a header of others"):
        weft.load(path)
    assert not findings_of(path)[-1][0]
    weights = path.with_suffix(".safetensors")
    whole = beside.with_suffix(".safetensors").read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(weft.ArtifactError, match=r"requires \d+ bytes of weights, got \d+"):
        weft.load(path)
    weights.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    weft.load(path)  # which reads the header alone
    assert "others than their digest tells" in findings_of(path)[-1][1]
    weights.write_bytes(whole)
    assert all(ok for ok, _ in findings_of(path))


def test_more_than_two_gigabytes_are_mapped(tmp_path: Path):
    weights = [
        {"name": "first", "dtype": "float32", "bytes": 4, "offset": 0},
        {"name": "last", "dtype": "int8", "bytes": 3 << 30, "offset": 64},
    ]
    metadata = {"weights": weights, "weights_sha256": "0" * 64}
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(file_header(metadata))
        file.seek(data_bytes(weights) - 1, 1)
        file.write(b"\7")
    first, last = map_weights(path, metadata)
    assert (len(first), len(last), last[-1]) == (4, 3 << 30, 7)


def test_arrays_of_the_caller_are_prepared(bare: Path, expected: np.ndarray):
    loaded = weft.load(bare, weights=logical())
    assert loaded(rows_of(ROWS))[0].tobytes() == expected.tobytes()
    other = weft.load(bare, weights=logical(bias=1.0))
    want = weft.compile(dense_model("rows", 1.0), cache=False)(rows_of(ROWS))[0]
    assert other(rows_of(ROWS))[0].tobytes() == want.tobytes()
    assert loaded(rows_of(ROWS))[0].tobytes() == expected.tobytes()


def test_arrays_that_do_not_fit_are_refused(bare: Path):
    with pytest.raises(weft.InputError, match=r"float32 \[80\] for weight 'bias', got none"):
        weft.load(bare, weights={"weight": logical()["weight"]})
    with pytest.raises(weft.InputError, match=r"for weight 'bias', got float32 \[3\]"):
        weft.load(bare, weights=logical() | {"bias": np.zeros(3, np.float32)})
    with pytest.raises(weft.InputError, match=r"'weight', got none; .* for weight 'bias', got"):
        weft.load(bare, weights={})


def test_weights_in_another_form_are_refused(bare: Path, beside: Path, tmp_path: Path):
    with pytest.raises(weft.OptionError, match="requires weights as arrays by name, got none"):
        weft.load(bare)
    with pytest.raises(weft.OptionError, match="as the path of a file, got arrays"):
        weft.load(beside, weights=logical())
    compiled_with("embedded").export(tmp_path / "libdense.so")
    with pytest.raises(weft.OptionError, match="requires weights as none, got a path"):
        weft.load(tmp_path / "libdense.so", weights="x.safetensors")
    with pytest.raises(weft.OptionError, match="weights requires one of embedded, file, caller"):
        weft.compile(dense_model(), weights="nowhere")


@pytest.mark.parametrize("place", ["file", "caller"])
def test_a_model_in_this_process_and_out_of_the_cache_has_its_weights(
    place: str, tmp_path: Path, expected: np.ndarray
):
    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        made = weft.compile(dense_model("rows"), cache=cache, weights=place)
        assert made(rows_of(ROWS))[0].tobytes() == expected.tobytes()
        made.export(tmp_path / "libmodel.so")
        given = logical() if place == "caller" else None
        loaded = weft.load(tmp_path / "libmodel.so", weights=given)
        assert loaded(rows_of(ROWS))[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", ["aarch64", "riscv64", "wasm32"])
@pytest.mark.parametrize("place", ["file", "caller"])
def test_other_targets_export_the_same(place: str, target: str, tmp_path: Path):
    compiled = compiled_with(place, target=target)
    if target == "wasm32":
        compiled.export_wasm(tmp_path / "dense.wasm")
        path = tmp_path / "dense.wasm"
    else:
        compiled.export(tmp_path / "libdense.so")
        path = tmp_path / "libdense.so"
    assert all(ok for ok, _ in findings_of(path))
    assert path.with_suffix(".safetensors").exists() == (place == "file")


@needs_cc
@pytest.mark.parametrize("library", ["libdense.so", "libdense.a"])
@pytest.mark.parametrize("place", ["file", "caller"])
def test_a_c_program_binds_and_prepares_weights(
    place: str, library: str, tmp_path: Path, expected: np.ndarray
):
    compiled = compiled_with(place)
    (compiled.export if library.endswith("so") else compiled.export_archive)(tmp_path / library)
    program = tmp_path / "host"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread")
    sources = (HOST_PROGRAM, f"-I{tmp_path}", "-o", program, tmp_path / library)
    subprocess.run([str(CC), *flags, *map(str, sources), f"-Wl,-rpath,{tmp_path}"], check=True)
    rows_of(ROWS).tofile(tmp_path / "x.bin")
    given = [tmp_path / "libdense.safetensors"]
    if place == "caller":
        given = [tmp_path / name for name in logical()]
        for name, array in logical().items():
            array.tofile(tmp_path / name)
    output = tmp_path / "y.bin"
    command: list[object] = [program, ROWS, tmp_path / "x.bin", output, *given]
    subprocess.run(list(map(str, command)), check=True, timeout=20)
    assert output.read_bytes() == expected.tobytes()


def test_c_refuses_a_header_of_other_weights(beside: Path):
    library = ctypes.CDLL(str(beside))
    content = bytearray(beside.with_suffix(".safetensors").read_bytes())
    table = (ctypes.c_void_p * 2)()

    def bind() -> int:
        data = (ctypes.c_char * len(content)).from_buffer(content)
        return library.dense_bind_weights(data, ctypes.c_uint64(len(content)), table)

    assert bind() == 0
    content[100] ^= 1
    assert bind() == 7


def test_the_command_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, output = tmp_path / "dense.onnx", tmp_path / "libdense.so"
    model.write_bytes(dense_model().SerializeToString())
    Command(capsys).succeeds("compile", model, "--no-cache", "--weights", "file", "-o", output)
    assert {each.name for each in tmp_path.iterdir()} == {
        "dense.onnx",
        "libdense.so",
        "libdense.h",
        "libdense.safetensors",
    }


def test_two_artifacts_of_one_model_are_the_same_bytes(beside: Path, tmp_path: Path):
    compiled_with("file").export(tmp_path / "libdense.so")
    for suffix in (".so", ".safetensors", ".h"):
        again = (tmp_path / "libdense.so").with_suffix(suffix).read_bytes()
        assert again == beside.with_suffix(suffix).read_bytes()


def test_metadata_must_be_those_of_the_weights(tmp_path: Path):
    compiled = compiled_with("file")
    other = replace(compiled, metadata={**compiled.metadata, "weights_sha256": "1" * 64})
    other.export(tmp_path / "libdense.so")
    assert not findings_of(tmp_path / "libdense.so")[-1][0]


@pytest.mark.parametrize("place", ["file", "caller"])
def test_names_that_files_of_weights_have_taken_are_kept_apart(place: str, tmp_path: Path):
    """N4"""
    names = ["__metadata__", "weft.padding.1", "größe", 'a"', "a\n", "__metadata__'"]
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((1, 17)).astype(np.float32) for name in names}
    nodes = [
        helper.make_node(("Mul", "Max")[n % 2], [f"t{n}", name], [f"t{n + 1}"])
        for n, name in enumerate(names)
    ]
    x, y = (helper.make_tensor_value_info(t, 1, ["rows", 17]) for t in ("t0", f"t{len(names)}"))
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "names", [x], [y], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rows = rng.standard_normal((2, 17)).astype(np.float32)
    path = tmp_path / "libnames.so"
    weft.compile(model, weights=place, cache=False).export(path)
    given = {"weights": weights} if place == "caller" else {}
    (got,) = weft.load(path, **given)(rows)
    (expected,) = weft.compile(model, cache=False)(rows)
    np.testing.assert_array_equal(got, expected)
    if place == "file":
        assert {"__metadata__'", "weft.padding.1'", "__metadata__''"} <= header_of(path).keys()


def header_of(path: Path) -> dict[str, object]:
    data = path.with_suffix(".safetensors").read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def test_a_model_without_weights_has_an_empty_file(tmp_path: Path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[n] x) => (float[n] y) { y = Relu(x) }"""
    path = tmp_path / "librelu.so"
    weft.compile(parser.parse_model(text), weights="file", cache=False).export(path)
    assert header_of(path).keys() == {"__metadata__"}
    (y,) = weft.load(path)(np.array([-1, 2], np.float32))
    assert y.tolist() == [0, 2]
