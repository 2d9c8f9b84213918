"""Artifacts: shared objects and static libraries from Python and from C, whole and damaged."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import weft
from tests.support.small_models import add_model, dense_model, rows_of
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.artifact.artifact import Compiled, load, read_metadata
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.shared_object import SharedObject
from weft.dialects.errors import ArtifactError, OptionError

ROWS = 37
HOST_PROGRAM = Path(__file__).with_name("artifact_host.c")
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    model = dense_model("rows")
    return compile_model(model, options_of(model, prefix="dense"))


@pytest.fixture(scope="module")
def folder(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds libdense.so, libdense.a, libdense.h and x.bin."""
    folder = tmp_path_factory.mktemp("artifact")
    compiled.export(folder / "libdense.so")
    compiled.export_archive(folder / "libdense.a")
    compiled.export_object(folder / "dense.o")
    rows_of(ROWS).tofile(folder / "x.bin")
    return folder


@pytest.fixture(scope="module")
def expected(compiled: Compiled) -> np.ndarray:
    """What the model gives in this process."""
    return compiled.executable(threads=1)(rows_of(ROWS))[0]


def build(folder: Path, library: str, flags: Sequence[str]) -> Path:
    program = folder / f"host-{library}"
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")
    sources = (str(HOST_PROGRAM), f"-I{folder}", "-o", str(program), str(folder / library))
    subprocess.run([str(CC), *warnings, *sources, *flags], check=True)
    return program


def run(program: Path, folder: Path, threads: int) -> np.ndarray:
    output = folder / f"{program.name}-{threads}.bin"
    arguments = [str(ROWS), str(threads), str(folder / "x.bin"), str(output)]
    subprocess.run([str(program), *arguments], check=True, timeout=20)
    return np.fromfile(output, np.float32).reshape(ROWS, 80)


@needs_cc
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("library", ["libdense.so", "libdense.a", "dense.o"])
def test_a_c_program_gets_the_same_bits(
    folder: Path, expected: np.ndarray, library: str, threads: int
):
    flags = [f"-Wl,-rpath,{folder}"] if library.endswith(".so") else ["-pthread"]
    output = run(build(folder, library, flags), folder, threads)
    assert output.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loaded_artifact_gives_the_same_bits(folder: Path, expected: np.ndarray, threads: int):
    executable = weft.load(folder / "libdense.so", threads=threads)
    assert executable(rows_of(ROWS))[0].tobytes() == expected.tobytes()


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
@pytest.mark.skipif(host_target().arch != "x86_64", reason="others have no such sections")
def test_a_static_library_keeps_weights_out_of_the_reach_of_code(folder: Path):
    shown = subprocess.run(
        ["readelf", "--sections", "--wide", folder / "libdense.a"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    (weights,) = (line.split() for line in shown.splitlines() if ".lrodata.weights" in line)
    assert "Al" in weights, "linkers place large sections beyond 2 GiB"


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
@pytest.mark.skipif(host_target().arch != "x86_64", reason="other processors have no such note")
def test_the_least_processor_may_load_it(folder: Path):
    library = folder / "libdense.so"
    notes = subprocess.run(
        ["readelf", "--notes", "--wide", library], check=True, capture_output=True, text=True
    ).stdout
    assert "x86 ISA needed: x86-64-baseline\n" in notes


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_needs_nothing_but_libc(folder: Path):
    library = folder / "libdense.so"
    dynamic = subprocess.run(
        ["readelf", "--dynamic", library], check=True, capture_output=True, text=True
    ).stdout
    needed = [line for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert len(needed) == 1
    assert "libc.so.6" in needed[0]


@pytest.mark.skipif(shutil.which("ldd") is None, reason="needs ldd")
def test_every_symbol_resolves(folder: Path):
    shown = subprocess.run(
        ["ldd", "-r", folder / "libdense.so"], check=True, capture_output=True, text=True
    )
    assert "undefined" not in shown.stdout + shown.stderr


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_exports_only_the_interface(folder: Path):
    shown = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", folder / "libdense.so"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = [line.split() for line in shown.splitlines() if " GLOBAL " in line]
    defined = {row[7] for row in rows if row[6] != "UND"}
    assert defined == {
        f"dense_{name}"
        for name in (
            "abi_version", "metadata", "create", "destroy", "workspace_size", "run", "last_error",
            "release", "level", "query", "run_dlpack", "cancel", "set_poll",
            "set_profile", "create_pool", "parallel_for",
        )
    }  # fmt: skip


@pytest.mark.usefixtures("own_kernels")
def test_the_same_model_gives_the_same_bytes(folder: Path, tmp_path: Path):
    model = dense_model("rows")
    again = compile_model(model, options_of(model, prefix="dense"))
    again.export(tmp_path / "libdense.so")
    again.export_archive(tmp_path / "libdense.a")
    again.export_object(tmp_path / "dense.o")
    for name in ("libdense.so", "libdense.a", "dense.o", "libdense.h"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_objects_go_into_a_folder(compiled: Compiled, tmp_path: Path):
    compiled.export_objects(tmp_path / "objects")
    names = {path.name for path in (tmp_path / "objects").iterdir()}
    assert names == {*(f"{name}.o" for name in compiled.objects), "weights.o", "dense.h"}


def test_metadata_is_read_without_loading(folder: Path, compiled: Compiled):
    assert read_metadata(folder / "libdense.so") == compiled.metadata


def test_metadata_says_what_a_call_computes(compiled: Compiled):
    (kernel,) = compiled.metadata["kernels"]
    # a product and a sum for each weight, the bias and the maximum for each element
    assert kernel["flops"] == f"{96 * 80 * 2 + 2 * 80} * rows"
    assert kernel["calls"] == 1
    assert compiled.metadata["operators"]["graph.relu"] == 1


def test_opens_what_replaced_a_loaded_artifact(tmp_path: Path):
    path = tmp_path / "libm.so"
    x = np.ones(4, np.float32)
    weft.compile(add_model((4,)), cache=False).export(path)
    first = weft.load(path)
    weft.compile(add_model((3,)), cache=False).export(path)
    second = weft.load(path)
    assert first(x, x)[0].shape == (4,)
    assert second(x[:3], x[:3])[0].shape == (3,)


def test_opens_another_artifact_after_one_of_two_that_share_a_file(folder: Path, tmp_path: Path):
    weft.compile(add_model((4,))).export(tmp_path / "libother.so")
    first, second = (weft.load(folder / "libdense.so") for _ in range(2))
    del first
    other = weft.load(tmp_path / "libother.so")
    assert other.outputs != second.outputs


def test_a_loaded_artifact_is_not_exported(folder: Path, tmp_path: Path):
    with pytest.raises(weft.OptionError, match="got one that was loaded"):
        weft.load(folder / "libdense.so").export(tmp_path / "copy.so")


def test_refuses_an_artifact_of_another_machine(tmp_path: Path):
    model = add_model()
    compile_model(model, options_of(model, target="aarch64")).export(tmp_path / "libm.so")
    host = host_target()
    if host.arch == "aarch64":
        pytest.skip("aarch64 is this machine")
    with pytest.raises(weft.ArtifactError, match=f"requires a aarch64 machine, got {host.arch}"):
        weft.load(tmp_path / "libm.so")


def test_refuses_a_cpu_that_lacks_features(folder: Path):
    lesser = replace(host_target(), features=("+sse2",), cpu="lesser")
    with pytest.raises(weft.ArtifactError, match=r"requires a CPU with .*, got lesser"):
        load(folder / "libdense.so", lesser)


@pytest.mark.parametrize("place", [0.02, 0.5, 0.9], ids=["front", "middle", "end"])
def test_refuses_a_truncated_artifact(folder: Path, tmp_path: Path, place: float):
    data = (folder / "libdense.so").read_bytes()
    (tmp_path / "cut.so").write_bytes(data[: int(len(data) * place)])
    with pytest.raises(weft.ArtifactError):
        weft.load(tmp_path / "cut.so")


def code_offset(data: bytes | bytearray) -> int:
    """Where the segment that can be executed starts in a file."""
    header = elf.FileHeader(*elf.FILE_HEADER.unpack_from(data))
    places = range(header.program_count)
    programs = [
        elf.ProgramHeader(
            *elf.PROGRAM_HEADER.unpack_from(
                data, header.program_offset + place * elf.PROGRAM_HEADER.size
            )
        )
        for place in places
    ]
    return next(each.offset for each in programs if each.flags & elf.PF_X)


def test_refuses_changed_code(folder: Path, tmp_path: Path):
    data = bytearray((folder / "libdense.so").read_bytes())
    data[code_offset(data)] ^= 0xFF
    (tmp_path / "changed.so").write_bytes(data)
    with pytest.raises(weft.ArtifactError, match="requires the code and data that were linked"):
        weft.load(tmp_path / "changed.so")


def test_refuses_a_file_that_is_no_artifact(tmp_path: Path):
    path = tmp_path / "text.so"
    path.write_text("no ELF file")
    with pytest.raises(weft.ArtifactError, match="requires a 64-bit little-endian shared object"):
        weft.load(path)


def test_refuses_a_file_that_does_not_exist(tmp_path: Path):
    with pytest.raises(weft.ArtifactError, match="requires a readable file, got No such file"):
        weft.load(tmp_path / "none.so")


def test_a_failed_export_leaves_no_file(compiled: Compiled, tmp_path: Path):
    (tmp_path / "libdense.so").mkdir()  # cannot be replaced by a file
    with pytest.raises(ArtifactError, match="requires a regular file or a free name"):
        compiled.export(tmp_path / "libdense.so")
    assert [path.name for path in tmp_path.iterdir()] == ["libdense.so"]


def test_a_name_says_what_is_written(tmp_path: Path):
    """`export` writes what the suffix says, each form of which gives the same results."""
    model = weft.compile(dense_model(8), prefix="dense", cache=False)
    for suffix in (".so", ".a", ".o", ".mlir"):
        model.export(tmp_path / f"libdense{suffix}")
    assert (tmp_path / "libdense.a").read_bytes()[:8] == b"!<arch>\n"
    wanted = model(rows_of(8))[0]
    for name in ("libdense.so", "libdense.mlir"):
        path = tmp_path / name
        again = weft.load(path) if name.endswith(".so") else weft.compile(path, cache=False)
        np.testing.assert_array_equal(again(rows_of(8))[0], wanted)


@pytest.mark.parametrize("name", ["net", "net.dll", "net.SO", "net.onnx", "net.o.txt"])
def test_other_names_are_refused(tmp_path: Path, name: str):
    model = weft.compile(add_model((4,)), cache=False)
    with pytest.raises(
        OptionError, match=r"requires a name in \.so, \.a, \.o, \.mlir, \.wasm, got"
    ):
        model.export(tmp_path / name)
    with pytest.raises(OptionError, match="requires the target wasm32"):
        model.export(tmp_path / "net.wasm")
    assert list(tmp_path.iterdir()) == []


def test_verify_reads_the_weights(folder: Path, tmp_path: Path):
    """`weft.load` takes other weights without a word unless it is asked to verify them."""
    data = bytearray((folder / "libdense.so").read_bytes())
    with open(folder / "libdense.so", "rb") as file:
        weights = SharedObject(file, "dense").sections()[".weights"]
    data[weights.offset] ^= 1
    (tmp_path / "libdense.so").write_bytes(data)
    weft.load(tmp_path / "libdense.so")
    with pytest.raises(ArtifactError, match="requires the weights that were linked, got others"):
        weft.load(tmp_path / "libdense.so", verify=True)
    assert weft.load(folder / "libdense.so", verify=True) is not None


def test_verify_reads_the_weights_in_a_file(tmp_path: Path):
    path = tmp_path / "libdense.so"
    weft.compile(dense_model(8), weights="file", cache=False).export(path)
    assert weft.load(path, verify=True) is not None
    beside = path.with_suffix(".safetensors")
    data = bytearray(beside.read_bytes())
    data[-1000] ^= 1
    beside.write_bytes(data)
    weft.load(path)
    with pytest.raises(ArtifactError, match="got others than their digest tells"):
        weft.load(path, verify=True)


def test_export_requires_a_folder(compiled: Compiled, tmp_path: Path):
    with pytest.raises(weft.ArtifactError, match="requires a folder that can be written"):
        compiled.export(tmp_path / "none" / "libdense.so")


def test_export_refuses_the_name_of_its_header(compiled: Compiled, tmp_path: Path):
    with pytest.raises(weft.OptionError, match=r"requires a name that does not end in \.h"):
        compiled.export(tmp_path / "libdense.h")
