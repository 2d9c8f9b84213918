"""The table of `m_query`: a C host that knows its layout alone calls any model."""

import ctypes
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from tests.support.small_models import add_model, dense_model, rows_of
from weft.compilation import options_of
from weft.compiler.driver.named_sizes import parse_bound
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.loop_to_llvm.runtime.layout import DIM, SYMBOL, TABLE, TENSOR, Struct
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.model_table import model_table
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.bindings.header import header

HOST = Path(__file__).with_name("generic_host.c")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

DERIVED = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, 3] x, float[k, n] w) => (float[m, 3] y, float[c] z) {
  product = MatMul(w, x)
  y = Concat<axis = 0>(x, x, product)
  flat = Constant<value_ints = [-1]>()
  z = Reshape(x, flat)
}"""
FOUND = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, 4] x) => (int64[2, k] places) { places = NonZero(x) }"""


def compiled_from(model: object, **options: object) -> Compiled:
    return compile_model(model, options_of(model, prefix="net", **options))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, which has the common part of the headers alone."""
    folder = tmp_path_factory.mktemp("generic")
    (folder / "any.h").write_text(header("none", Signature((), ())))
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{folder}", "-ldl"]
    subprocess.run(["cc", str(HOST), *flags, "-o", str(folder / "host")], check=True)
    return folder / "host"


def run_generic(
    host: Path, library: Path, sizes: list[int], inputs: list[np.ndarray]
) -> tuple[list[str], list[bytes]]:
    """The lines that the host prints, and the outputs' bytes."""
    paths = [library.with_suffix(f".in{n}") for n in range(len(inputs))]
    for path, array in zip(paths, inputs, strict=True):
        path.write_bytes(array.tobytes())
    command = [host, library, "net", *sizes, "--", *paths]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    files = sorted(library.parent.glob(f"{library.name}.[0-9]"))
    return done.stdout.splitlines(), [path.read_bytes() for path in files]


@needs_cc
def test_a_host_calls_a_model_of_symbolic_sizes(host: Path, tmp_path: Path):
    model = dense_model("rows")
    compiled = compiled_from(model, bounds=[parse_bound("rows=1..64")])
    compiled.export(tmp_path / "libnet.so")
    x = rows_of(5)
    lines, (got,) = run_generic(host, tmp_path / "libnet.so", [5], [x])
    assert lines[1:] == [
        "size rows 1..64 of input 0 axis 0",
        "input x float32 (rows, 96) code 2 bits 32",
        "output y float32 (rows, 80) code 2 bits 32",
        "gave 5 80",
    ]
    assert got == compiled.executable()(x)[0].tobytes()


@needs_cc
def test_a_host_computes_derived_sizes(host: Path, tmp_path: Path):
    compiled = compiled_from(parser.parse_model(DERIVED))
    compiled.export(tmp_path / "libnet.so")
    x, w = np.arange(12, dtype="f4").reshape(4, 3), np.ones((2, 4), "f4")
    symbols = list(compiled.signature.symbols)
    sizes = [{"n": 4, "k": 2}[name] for name in symbols]
    lines, got = run_generic(host, tmp_path / "libnet.so", sizes, [x, w])
    assert lines[-2:] == ["gave 10 3", "gave 12"]
    assert got == [each.tobytes() for each in compiled.executable()(x, w)]


@needs_cc
def test_a_host_gets_outputs_that_the_call_makes(host: Path, tmp_path: Path):
    compiled = compiled_from(parser.parse_model(FOUND))
    compiled.export(tmp_path / "libnet.so")
    x = np.eye(3, 4, dtype="f4")
    lines, (got,) = run_generic(host, tmp_path / "libnet.so", [3], [x])
    assert any(line.startswith("found ") for line in lines)
    assert lines[-1] == "gave 2 3"
    assert got == np.array(np.nonzero(x)).tobytes()


@needs_cc
def test_a_host_sees_levels_and_static_sizes(host: Path, tmp_path: Path):
    compiled = compiled_from(add_model((2, 3), 6), isa=["v2", "v3"])
    compiled.export(tmp_path / "libnet.so")
    x = np.arange(6, dtype="i4").reshape(2, 3)
    lines, (got,) = run_generic(host, tmp_path / "libnet.so", [], [x, x])
    assert lines[1:3] == ["level x86-64-v2", "level x86-64-v3"]
    assert lines[3] == "input x int32 (2, 3) code 0 bits 32 bytes 24"
    assert got == (2 * x).tobytes()


def table_of(compiled: Compiled) -> bytes:
    """The table out of the loaded model."""
    executable = compiled.executable(threads=1)
    query = ctypes.CFUNCTYPE(ctypes.c_void_p)(executable._checked.address("query"))
    size = ctypes.c_uint64.from_address(query() + TABLE.fields["bytes"].offset).value
    return ctypes.string_at(query(), size)


def member(table: bytes, struct: Struct, name: str, start: int = 0) -> int:
    field = struct.fields[name]
    return int.from_bytes(table[start + field.offset : start + field.end], "little")


def text(table: bytes, place: int) -> str:
    return table[place : table.index(b"\0", place)].decode()


def test_the_table_is_read_by_its_offsets_alone():
    compiled = compiled_from(dense_model("rows"))
    table = table_of(compiled)
    assert member(table, TABLE, "size") == TABLE.size
    assert member(table, TABLE, "bytes") == len(table)
    tensor = member(table, TABLE, "inputs")
    assert text(table, member(table, TENSOR, "name", tensor)) == "x"
    first, second = (member(table, TENSOR, "dims", tensor) + n * DIM.size for n in range(2))
    assert text(table, member(table, DIM, "text", first)) == "rows"
    assert member(table, DIM, "symbol", first) == 0
    assert member(table, DIM, "size", second) == 96
    symbol = member(table, TABLE, "symbols")
    assert text(table, member(table, SYMBOL, "name", symbol)) == "rows"
    features = text(table, member(table, TABLE, "features")).split()
    assert features == [name[1:] for name in compiled.metadata["features"]]


@pytest.mark.parametrize("place", ["embedded", "file", "caller"])
def test_the_table_says_where_weights_are_and_their_hashes(place: str):
    compiled = compiled_from(dense_model("rows"), weights=place)
    size = sum(each["bytes"] for each in compiled.metadata["weights"])
    facts = json.dumps(compiled.metadata, sort_keys=True).encode()
    table = model_table(compiled.metadata)
    field = TABLE.fields["metadata_sha256"]
    assert table[field.offset : field.end] == hashlib.sha256(facts).digest()
    field = TABLE.fields["weights_sha256"]
    digest = bytes.fromhex(compiled.metadata.get("weights_sha256", ""))
    assert table[field.offset : field.end] == digest.ljust(32, b"\0")
    assert member(table, TABLE, "weights_in") == ["embedded", "file", "caller"].index(place)
    assert member(table, TABLE, "weight_bytes") >= size
    assert (member(table, TABLE, "prepared_bytes") > 0) == (place == "caller")
    assert member(table, TABLE, "logical_count") == (2 if place == "caller" else 0)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_module_gives_its_table(tmp_path: Path):
    compiled = compiled_from(add_model(), target="wasm32")
    compiled.export_wasm(tmp_path / "net.wasm")
    script = """
    const module = new WebAssembly.Module(require("fs").readFileSync(process.argv[1]));
    const { memory, net_query } = new WebAssembly.Instance(module, {}).exports;
    const start = net_query(), view = new DataView(memory.buffer, start);
    const size = Number(view.getBigUint64(8, true));
    process.stdout.write(Buffer.from(new Uint8Array(memory.buffer, start, size)).toString("hex"));
    """
    command = ["node", "-e", script, str(tmp_path / "net.wasm")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert bytes.fromhex(done.stdout) == model_table(compiled.metadata)
