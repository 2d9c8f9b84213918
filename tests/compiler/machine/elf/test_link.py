import ctypes
import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.machine.elf.objects import (
    AARCH64,
    ADD,
    CALLEE,
    CALLER,
    TABLES,
    X86_64,
    emit,
    link_file,
    linked_bytes,
    load,
)
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.link import WeightBlob, undefined_symbols
from weft.compiler.machine.elf.note import check_image, read_note
from weft.dialects.errors import ArtifactError, UnsupportedError

native = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux",
    reason="loading the linked x86-64 code needs Linux on x86-64",
)

IMPORTER = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
define internal ptr @work(ptr %arg) {
  store i32 4711, ptr %arg
  ret ptr null
}
define i32 @in_a_thread() {
  %thread = alloca i64
  %cell = call ptr @malloc(i64 4)
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @work, ptr %cell)
  %id = load i64, ptr %thread
  %joined = call i32 @pthread_join(i64 %id, ptr null)
  %value = load i32, ptr %cell
  call void @free(ptr %cell)
  ret i32 %value
}
@imported = internal global ptr @malloc
define ptr @pointer_to_malloc() {
  %p = load volatile ptr, ptr @imported
  ret ptr %p
}
"""
OWN = """
@own = internal thread_local global i32 40
@own_zeros = internal thread_local global [8 x i64] zeroinitializer, align 64
@own_shared = thread_local global i32 7
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
define i32 @count_own() {
  %old = load i32, ptr @own
  %new = add i32 %old, 1
  store i32 %new, ptr @own
  ret i32 %new
}
define i64 @touch_own(i64 %i, i64 %v) {
  %p = getelementptr i64, ptr @own_zeros, i64 %i
  %old = load i64, ptr %p
  store i64 %v, ptr %p
  %place = ptrtoint ptr @own_zeros to i64
  %beyond = and i64 %place, 63
  %sum = add i64 %old, %beyond
  ret i64 %sum
}
define i32 @swap_own_shared(i32 %v) {
  %old = load i32, ptr @own_shared
  store i32 %v, ptr @own_shared
  ret i32 %old
}
define internal ptr @count_there(ptr %cell) {
  %count = call i32 @count_own()
  %seven = call i32 @swap_own_shared(i32 0)
  %sum = add i32 %count, %seven
  store i32 %sum, ptr %cell
  ret ptr null
}
define i32 @count_in_a_thread() {
  %thread = alloca i64
  %cell = alloca i32
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @count_there, ptr %cell)
  %id = load i64, ptr %thread
  %joined = call i32 @pthread_join(i64 %id, ptr null)
  %value = load i32, ptr %cell
  ret i32 %value
}
"""
WEIGHTED = """
@weights = external constant float
@more = external constant i8
@places = internal global [2 x ptr] [ptr @weights, ptr getelementptr (i8, ptr @more, i64 5)]
define float @weight(i64 %i) {
  %p = getelementptr float, ptr @weights, i64 %i
  %v = load float, ptr %p
  ret float %v
}
define i8 @byte_through_pointer(i64 %i) {
  %slot = getelementptr ptr, ptr @places, i64 1
  %base = load volatile ptr, ptr %slot
  %p = getelementptr i8, ptr %base, i64 %i
  %v = load i8, ptr %p
  ret i8 %v
}
"""


def readelf(path: Path, *flags: str) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    done = subprocess.run(["readelf", *flags, path], capture_output=True, text=True, check=True)
    assert "arning" not in done.stderr, done.stderr
    return done.stdout


def floats(symbol: str, values: np.ndarray, alignment: int = 64) -> WeightBlob:
    return WeightBlob(symbol, values.nbytes, alignment, lambda out: out.write(values.tobytes()))


@native
def test_exported_function_runs(tmp_path):
    library = load(link_file(tmp_path / "lib.so", ADD, exports=["add"]))
    assert library.add(40, 2) == 42


@native
def test_objects_call_each_other(tmp_path):
    library = load(link_file(tmp_path / "lib.so", CALLER, CALLEE, exports=["twice"]))
    assert library.twice(10) == 16


@native
def test_constants_and_jump_tables_are_relocated(tmp_path):
    names = ["look", "classify"]
    library = load(link_file(tmp_path / "lib.so", TABLES, exports=names))
    library.look.restype = ctypes.c_double
    assert [library.look(ctypes.c_int64(i)) for i in range(4)] == [0.5, 1.5, 2.5, 3.5]
    assert [library.classify(i) for i in range(6)] == [111, 41, 7, 222, -9, 0]


@native
def test_function_pointers_get_the_load_address(tmp_path):
    library = load(link_file(tmp_path / "lib.so", TABLES, exports=["dispatch"]))
    assert [library.dispatch(ctypes.c_int64(i)) for i in range(3)] == [111, 222, 333]


@native
def test_initialised_and_zero_data_is_writable(tmp_path):
    library = load(link_file(tmp_path / "lib.so", TABLES, exports=["count", "touch_zeros"]))
    assert [library.count(), library.count()] == [41, 42]
    assert [library.touch_zeros(ctypes.c_int64(4095), v) for v in (5, 6)] == [0, 5]


@native
def test_each_thread_has_its_own_thread_local_variables(tmp_path):
    names = ["count_own", "touch_own", "swap_own_shared", "count_in_a_thread"]
    library = load(link_file(tmp_path / "lib.so", OWN, exports=names))
    assert [library.count_own(), library.count_own()] == [41, 42]
    last = ctypes.c_int64(7)
    assert [library.touch_own(last, ctypes.c_int64(v)) for v in (5, 6)] == [0, 5]
    assert [library.swap_own_shared(v) for v in (8, 9)] == [7, 8]
    assert library.count_in_a_thread() == 41 + 7
    assert library.count_own() == 43


@native
def test_library_calls_reach_libc(tmp_path):
    names = ["in_a_thread", "pointer_to_malloc"]
    library = load(link_file(tmp_path / "lib.so", IMPORTER, exports=names))
    assert library.in_a_thread() == 4711
    library.pointer_to_malloc.restype = ctypes.c_void_p
    malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    assert library.pointer_to_malloc() == malloc


@native
def test_condition_variables_bind_to_their_current_version(tmp_path):
    libc = ctypes.CDLL("libc.so.6")
    if not hasattr(libc, "gnu_get_libc_version"):
        pytest.skip("symbol versions are glibc's")
    source = """
    declare i32 @pthread_cond_wait(ptr, ptr)
    declare i32 @pthread_cond_signal(ptr)
    declare ptr @realpath(ptr, ptr)
    @waits = internal global [3 x ptr] [ptr @pthread_cond_wait, ptr @pthread_cond_signal,
                                        ptr @realpath]
    define ptr @bound(i64 %i) {
      %p = getelementptr ptr, ptr @waits, i64 %i
      %f = load volatile ptr, ptr %p
      ret ptr %f
    }"""
    library = load(link_file(tmp_path / "lib.so", source, exports=["bound"]))
    library.bound.restype = ctypes.c_void_p
    libc.dlvsym.restype = ctypes.c_void_p
    wanted = [
        (b"pthread_cond_wait", b"GLIBC_2.3.2"),
        (b"pthread_cond_signal", b"GLIBC_2.3.2"),
        (b"realpath", b"GLIBC_2.3"),
    ]
    for index, (name, version) in enumerate(wanted):
        current = libc.dlvsym(ctypes.c_void_p(libc._handle), name, version)
        assert library.bound(ctypes.c_int64(index)) == current


@native
def test_unwinders_walk_through_linked_code(tmp_path):
    frames = """
    declare i32 @backtrace(ptr, i32)
    define i32 @depth_from(ptr %callback) #0 {
      %buffer = alloca [128 x ptr]
      %n = call i32 @backtrace(ptr %buffer, i32 128)
      %twice = add i32 %n, 0
      ret i32 %twice
    }
    define i32 @deeper(ptr %callback) #0 {
      %n = call i32 @depth_from(ptr %callback)
      %same = add i32 %n, 0
      ret i32 %same
    }
    attributes #0 = { noinline uwtable }"""
    path = link_file(tmp_path / "lib.so", ADD, frames, exports=["depth_from", "deeper"])
    library = load(path)
    shallow = library.depth_from(None)
    assert shallow > 3
    assert library.deeper(None) == shallow + 1


@native
def test_weights_are_found_through_the_offset_table_and_through_pointers(tmp_path):
    values = np.arange(1000, dtype=np.float32)
    blobs = [
        floats("weights", values),
        WeightBlob("more", 300, 1, lambda out: out.write(bytes(i % 251 for i in range(300)))),
    ]
    names = ["weight", "byte_through_pointer"]
    library = load(link_file(tmp_path / "lib.so", WEIGHTED, exports=names, weights=blobs))
    library.weight.restype = ctypes.c_float
    assert [library.weight(ctypes.c_int64(i)) for i in (0, 1, 999)] == [0, 1, 999]
    assert [library.byte_through_pointer(ctypes.c_int64(i)) for i in (0, 200)] == [5, 205]


@native
def test_weights_beyond_two_gigabytes_are_reached(tmp_path):
    gap = 5 << 29

    def skip(out):
        out.seek(gap, os.SEEK_CUR)

    blobs = [
        WeightBlob("weights", gap, 4096, skip),
        WeightBlob("more", 8, 64, lambda out: out.write(b"abcdefgh")),
    ]
    path = tmp_path / "lib.so"
    library = load(link_file(path, WEIGHTED, exports=["byte_through_pointer"], weights=blobs))
    assert chr(library.byte_through_pointer(ctypes.c_int64(1))) == "g"
    assert path.stat().st_size > 2 << 30
    assert path.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize(("count", "alignment"), [(1 << 20, "0x200000"), (1 << 8, "0x1000")])
def test_many_weights_may_be_mapped_by_large_pages(tmp_path, count, alignment):
    blobs = [floats("weights", np.ones(count, np.float32)), floats("more", np.ones(1, np.float32))]
    path = link_file(tmp_path / "lib.so", WEIGHTED, exports=["weight"], weights=blobs)
    load = [line.split() for line in readelf(path, "-lW").splitlines() if "LOAD" in line][-1]
    assert load[-1] == alignment
    assert (int(load[1], 16) - int(load[2], 16)) % int(alignment, 16) == 0


@native
def test_weights_are_not_writable(tmp_path):
    source = WEIGHTED + "define ptr @address() { ret ptr @weights }"
    values = np.ones(5000, dtype=np.float32)
    blobs = [floats("weights", values), floats("more", values)]
    library = load(link_file(tmp_path / "lib.so", source, exports=["address"], weights=blobs))
    library.address.restype = ctypes.c_void_p
    address = library.address()
    assert address % 64 == 0
    mappings = Path("/proc/self/maps").read_text().splitlines()
    ranges = [(line.split("-"), line.split()[1]) for line in mappings]
    rights = [r for (low, *_), r in ranges if int(low, 16) <= address]
    assert rights[-1] == "r--p"


def test_weights_of_another_size_than_announced_are_refused():
    blobs = [WeightBlob("weights", 8, 8, lambda out: out.write(b"1234567"))]
    with pytest.raises(ArtifactError, match="requires 8 bytes of weights 'weights', got 7"):
        linked_bytes(ADD, weights=blobs)


@native
def test_several_notes_and_sections_survive_strip(tmp_path):
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    weights = [floats("weights", np.ones(64, np.float32)), floats("more", np.ones(9, np.float32))]
    path = tmp_path / "lib.so"
    sources = (TABLES, WEIGHTED, IMPORTER)
    names = ["weight", "count", "in_a_thread"]
    link_file(path, *sources, exports=names, weights=weights, note=b'{"k": 1}')
    subprocess.run(["strip", path], check=True)
    assert ".symtab" not in readelf(path, "-SW")
    assert read_note(path) == b'{"k": 1}'
    check_image(path)
    library = load(path)
    library.weight.restype = ctypes.c_float
    assert (library.weight(ctypes.c_int64(63)), library.in_a_thread()) == (1.0, 4711)


def test_only_exports_are_dynamic_symbols(tmp_path):
    names = ["look", "count"]
    path = link_file(tmp_path / "lib.so", TABLES, IMPORTER, exports=names)
    table = readelf(path, "--dyn-syms", "-W")
    defined = [r.split() for r in table.splitlines() if " GLOBAL " in r and " UND " not in r]
    assert sorted(row[-1] for row in defined) == ["count", "look"]


@native
def test_hash_table_finds_each_of_many_exports(tmp_path):
    names = [f"function_{number}" for number in range(97)]
    lines = [f"define i32 @{name}() {{ ret i32 {i} }}" for i, name in enumerate(names)]
    library = load(link_file(tmp_path / "lib.so", "\n".join(lines), exports=names))
    assert [library[name]() for name in names] == list(range(97))
    assert not hasattr(library, "function_97")


@pytest.mark.parametrize("triple", [X86_64, AARCH64])
def test_no_segment_is_both_writable_and_executable(tmp_path, triple):
    path = link_file(tmp_path / "lib.so", TABLES, IMPORTER, triple=triple, exports=["look"])
    rows = [line.split() for line in readelf(path, "-lW").splitlines()]
    loads = [row[6:-1] for row in rows if row[:1] == ["LOAD"]]
    assert len(loads) == 4
    assert not any("W" in "".join(flags) and "E" in "".join(flags) for flags in loads)
    stack = next(row for row in rows if row[:1] == ["GNU_STACK"])
    assert stack[6] == "RW"


@pytest.mark.parametrize("triple", [X86_64, AARCH64])
def test_readelf_finds_names_libraries_and_binding(tmp_path, triple):
    needed = ["libc.so.6", "libother.so.1"]
    path = tmp_path / "lib.so"
    sources = (TABLES, IMPORTER)
    link_file(path, *sources, triple=triple, soname="libx.so.3", exports=["look"], needed=needed)
    text = readelf(path, "-dW")
    assert "Library soname: [libx.so.3]" in text
    assert all(f"Shared library: [{name}]" in text for name in needed)
    assert "BIND_NOW" in text
    everything = readelf(path, "-aW")
    assert "GNU_RELRO" in everything
    assert "<corrupt>" not in everything


def test_aarch64_segments_start_on_pages_of_64_kib(tmp_path):
    path = link_file(tmp_path / "lib.so", TABLES, triple=AARCH64, exports=["look"])
    rows = [line.split() for line in readelf(path, "-lW").splitlines()]
    loads = [row for row in rows if row[:1] == ["LOAD"]]
    assert {row[-1] for row in loads} == {"0x10000"}
    pages = [int(row[2], 16) >> 16 for row in loads]
    assert len(set(pages)) == len(pages)


def test_isa_level_is_named_in_the_property_note(tmp_path):
    path = link_file(tmp_path / "lib.so", ADD, exports=["add"], isa_level=3)
    assert "x86 ISA needed: x86-64-baseline, x86-64-v2, x86-64-v3" in readelf(path, "-nW")
    plain = link_file(tmp_path / "plain.so", ADD, exports=["add"])
    assert "ISA" not in readelf(plain, "-nW")


@native
def test_loader_refuses_a_processor_below_the_isa_level(tmp_path):
    library, version = platform.libc_ver()
    if library != "glibc" or tuple(map(int, version.split("."))) < (2, 33):
        pytest.skip("the ISA level is checked by glibc from 2.33 on")
    path = link_file(tmp_path / "lib.so", ADD, exports=["add"], isa_level=3)
    data = bytearray(path.read_bytes())
    at = data.index(elf.GNU_PROPERTY_X86_ISA_1_NEEDED.to_bytes(4, "little"))
    data[at + 8] |= 1 << 4  # a level that no processor has yet
    path.write_bytes(data)
    with pytest.raises(OSError, match="CPU ISA level is lower than required"):
        load(path)


def test_isa_level_of_another_architecture_is_refused():
    with pytest.raises(UnsupportedError, match="ISA level 1 to 4 of x86_64, got 3 of aarch64"):
        linked_bytes(ADD, triple=AARCH64, isa_level=3)


@pytest.mark.parametrize("triple", [X86_64, AARCH64])
def test_same_input_gives_identical_bytes(triple):
    def once() -> bytes:
        values = np.arange(100, dtype=np.float32)
        blobs = [floats("weights", values), floats("more", values)]
        sources = (TABLES, IMPORTER, WEIGHTED)
        exports = ["look", "weight"]
        return linked_bytes(*sources, triple=triple, exports=exports, weights=blobs, note=b"n")

    assert once() == once()


def test_order_of_exports_does_not_matter():
    forwards = linked_bytes(TABLES, exports=["look", "count"])
    assert forwards == linked_bytes(TABLES, exports=["count", "look", "count"])


def test_undefined_symbols_are_those_that_no_input_defines():
    objects = [emit(CALLER), emit(CALLEE), emit(IMPORTER), emit(WEIGHTED)]
    blobs = [WeightBlob("weights", 4, 4, lambda out: None)]
    libc = {"malloc", "free", "pthread_create", "pthread_join"}
    assert undefined_symbols(objects, blobs) == libc | {"more"}


def test_hidden_symbol_without_definition_is_refused():
    with pytest.raises(ArtifactError, match="every hidden symbol, got none of 'callee'"):
        linked_bytes(CALLER)


def test_two_definitions_are_refused():
    with pytest.raises(ArtifactError, match="one definition of 'add', got one in object 0 and"):
        linked_bytes(ADD, ADD + "\n")


@native
def test_strong_definition_replaces_weak_one(tmp_path):
    weak = ADD.replace("define", "define weak").replace("add i32", "sub i32")
    for number, sources in enumerate([(weak, ADD), (ADD, weak)]):
        library = load(link_file(tmp_path / f"lib{number}.so", *sources, exports=["add"]))
        assert library.add(3, 1) == 4
