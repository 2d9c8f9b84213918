import ctypes
import io
import platform
import shutil

import numpy as np
import pytest

from tests.compiler.machine.elf.objects import ADD, emit, load
from tests.compiler.machine.elf.test_link import IMPORTER, TABLES, WEIGHTED, readelf
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.link import WeightBlob
from weft.compiler.machine.elf.note import check_image, read_note
from weft.compiler.machine.elf.system_linker import find_tool, link_with_tool, named_tool
from weft.dialects.errors import ArtifactError, UnsupportedError

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux",
    reason="the tools of this machine link for Linux on x86-64 only",
)


@pytest.fixture(params=["ld", "cc", "ld.lld"])
def tool(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def test_linked_library_runs_with_its_weights(tmp_path, tool):
    values = np.arange(500, dtype=np.float32)
    blobs = [
        WeightBlob("weights", values.nbytes, 64, lambda out: out.write(values.tobytes())),
        WeightBlob("more", 100, 1, lambda out: out.write(bytes(range(100)))),
    ]
    names = ["look", "weight", "in_a_thread", "byte_through_pointer"]
    path = tmp_path / "lib.so"
    with open(path, "wb") as out:
        link_with_tool(
            [emit(source) for source in (TABLES, IMPORTER, WEIGHTED)],
            soname="libtool.so",
            exports=names,
            weights=blobs,
            note=b"note",
            out=out,
            linker=tool,
        )
    assert read_note(path) == b"note"
    check_image(path)
    library = load(path)
    library.weight.restype = ctypes.c_float
    assert library.weight(ctypes.c_int64(321)) == 321.0
    assert library.byte_through_pointer(ctypes.c_int64(4)) == 9
    assert library.in_a_thread() == 4711
    assert not hasattr(library, "dispatch")
    dynamic = readelf(path, "-dW")
    assert "Library soname: [libtool.so]" in dynamic
    assert dynamic.count("(NEEDED)") == 1
    assert "Shared library: [libc.so.6]" in dynamic


def test_same_input_gives_identical_bytes(tool):
    def once() -> bytes:
        out = io.BytesIO()
        link_with_tool([emit(TABLES)], soname="l.so", exports=["look"], out=out, linker=tool)
        return out.getvalue()

    assert once() == once()


def test_message_of_the_linker_is_passed_on(tool):
    objects = [emit(ADD), emit(ADD + "\n")]
    with pytest.raises(ArtifactError, match=r"linkable objects, got .*add"):
        link_with_tool(objects, soname="l.so", exports=["add"], out=io.BytesIO(), linker=tool)


def test_missing_export_is_refused():
    with pytest.raises(ArtifactError, match="a visible definition of export 'nowhere', got none"):
        link_with_tool([emit(ADD)], soname="l.so", exports=["nowhere"], out=io.BytesIO())


def test_machine_without_any_linker_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(UnsupportedError, match="riscv64-linux-gnu-ld, ld.lld or the ziglang"):
        find_tool(elf.EM_RISCV)


@pytest.mark.parametrize(
    ("name", "machine", "command"),
    [("cc", elf.EM_AARCH64, "aarch64-linux-gnu-gcc"), ("ld.lld", elf.EM_X86_64, "ld.lld")],
)
def test_a_named_linker_that_is_missing_is_refused(name, machine, command, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=f"linker {name} requires a command {command}, got"):
        named_tool(name, machine)
