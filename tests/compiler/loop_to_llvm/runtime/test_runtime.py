"""The run time of artifacts: contexts, weights, and objects for every machine."""

import ctypes
import json
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir
from msgspec.structs import replace

from tests.compiler.loop_to_llvm.runtime.runtime_library import (
    I64,
    POINTER,
    Addition,
    Call,
    Library,
    Options,
    allow_all_sizes,
    define_run_time,
    emitted_program,
    first_of_weight,
    integer,
    loaded_library,
    pointer,
    runtime_object,
    thread_count,
    threads_1_2_8,
    triple,
)
from weft.compiler.abi.constants import ABI_VERSION, THREADS_VARIABLE, Status
from weft.compiler.loop_to_llvm.runtime import (
    LIBC_NAMES,
    Counts,
    Runtime,
    exported_symbols,
    usable_threads,
)
from weft.compiler.loop_to_llvm.runtime.code import NULL, Code
from weft.compiler.loop_to_llvm.runtime.layout import CALL, OPTIONS, Struct
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import load_objects
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.link import read_objects, undefined_symbols
from weft.compiler.target import usable_cores
from weft.dialects.errors import UnsupportedError

# Contexts and options


def test_every_function_of_the_abi_is_exported(emitted: Library):
    assert emitted.abi_version() == ABI_VERSION
    assert json.loads(emitted.metadata()) == {"name": "sums", "unit": "µs"}
    assert exported_symbols("m")[0] == "m_abi_version"


def test_runtime_needs_libc_alone():
    program = emitted_program()
    assert undefined_symbols([runtime_object(Counts(1, 1, 1)), program]) <= LIBC_NAMES


def test_default_options_are_null(emitted: Library):
    context = emitted.create(None)
    assert context
    status, result = triple(emitted, context, np.arange(100))
    emitted.destroy(context)
    assert status == Status.OK
    assert result.tolist() == list(range(0, 300, 3))


def test_default_is_a_thread_for_each_processor(emitted: Library):
    before = thread_count()
    with emitted.context(threads=0):
        assert thread_count() - before == len(os.sched_getaffinity(0)) - 1
    assert thread_count() == before


def test_the_environment_says_how_many_threads_there_are_by_default(
    emitted: Library, monkeypatch: pytest.MonkeyPatch
):
    before = thread_count()
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    with emitted.context(threads=0):
        assert thread_count() - before == 2
    with emitted.context(threads=2):
        assert thread_count() - before == 1


@pytest.mark.parametrize("text", ["", "0", "-2", "three", "4x", "1025", "99999999999999999999"])
def test_create_refuses_other_numbers_of_the_environment(
    emitted: Library, monkeypatch: pytest.MonkeyPatch, text: str
):
    monkeypatch.setenv(THREADS_VARIABLE, text)
    assert emitted.create(None) is None
    reason = b"WEFT_NUM_THREADS of the environment to be a number of threads, at most 1024"
    assert emitted.last_error(None) == b"create requires " + reason


@pytest.mark.parametrize(
    ("quota", "threads"),
    [
        ("max 100000", None),
        ("250000 100000", 3),
        ("200000 100000", 2),
        ("1000 100000", 1),
        ("-1", None),
        ("150000", 2),
    ],
)
def test_a_control_group_grants_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, threads: int | None
):
    """A file of the second version has two numbers, one of the first version one."""
    older = tmp_path / "quota", tmp_path / "period"
    older[1].write_text("100000")
    (older[0] if " " not in quota else tmp_path / "max").write_text(quota)
    monkeypatch.setattr(usable_threads, "QUOTA", str(tmp_path / "max"))
    monkeypatch.setattr(usable_threads, "OLDER_QUOTA", tuple(map(str, older)))
    monkeypatch.setattr(usable_cores, "QUOTA", tmp_path / "max")
    monkeypatch.setattr(usable_cores, "OLDER_QUOTA", older)
    expected = min(threads or 1024, len(os.sched_getaffinity(0)))
    assert usable_cores.usable_cores() == expected
    library = loaded_library(load_objects([runtime_object(Counts(1, 1, 1)), emitted_program()]))
    before = thread_count()
    with library.context(threads=0):
        assert thread_count() - before == expected - 1


WRONG = [
    ({"size": 88}, b"create requires weft_options of 96 bytes, got 88"),
    ({"size": 104}, b"create requires weft_options of 96 bytes, got 104"),
    ({"threads": 1025}, b"create requires at most 1024 threads, got 1025"),
    ({"flags": 2}, b"create requires flags of 0, or of a level, at most 1, got 2"),
    ({"allocate": 4096}, b"create requires allocate and release, or neither, got allocate alone"),
    ({"release": 4096}, b"create requires allocate and release, or neither, got release alone"),
]


@pytest.mark.parametrize(("wrong", "reason"), WRONG, ids=[next(iter(wrong)) for wrong, _ in WRONG])
def test_create_refuses_wrong_options_and_tells_why(
    emitted: Library, wrong: dict[str, object], reason: bytes
):
    """C side: the true cause of a failed create."""
    before = thread_count()
    options = Options(**{"size": ctypes.sizeof(Options), "threads": 2} | wrong)
    assert emitted.create(ctypes.byref(options)) is None
    assert thread_count() == before
    assert emitted.last_error(None) == reason


def test_each_thread_is_told_why_its_own_create_failed(emitted: Library):
    """C side: the true cause, with several threads that create at once."""
    together = threading.Barrier(len(WRONG))

    def told(wrong: dict[str, object]) -> bytes:
        options = Options(**{"size": ctypes.sizeof(Options), "threads": 2} | wrong)
        together.wait()
        assert emitted.create(ctypes.byref(options)) is None
        together.wait()
        return emitted.last_error(None)

    with ThreadPoolExecutor(len(WRONG)) as pool:
        assert list(pool.map(told, [wrong for wrong, _ in WRONG])) == [each for _, each in WRONG]


def test_reason_of_a_failed_create_goes_with_the_next_that_succeeds(emitted: Library):
    assert emitted.create(ctypes.byref(Options(size=1))) is None
    with emitted.context(threads=1):
        assert emitted.last_error(None) == b"weft requires a context, got NULL"


@threads_1_2_8
def test_destroy_ends_all_workers(emitted: Library, threads: int):
    before = thread_count()
    for _ in range(5):
        with emitted.context(threads=threads):
            assert thread_count() == before + threads - 1
        assert thread_count() == before


def test_context_works_in_a_forked_process(emitted: Library):
    with emitted.context(threads=3) as context:
        child = os.fork()
        if child == 0:
            try:
                status, result = triple(emitted, context, np.arange(10_000))
                emitted.destroy(context)
                os._exit(0 if status == Status.OK and result[-1] == 29_997 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(wait_at_most(child, seconds=10)) == 0


def wait_at_most(child: int, seconds: float) -> int:
    """The child's wait status; one that hangs is killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def test_destroy_takes_null(emitted: Library):
    emitted.destroy(None)


def test_workers_block_signals(emitted: Library):
    with emitted.context(threads=2):
        tasks = [p for p in Path("/proc/self/task").iterdir() if int(p.name) != os.getpid()]
        blocked = [int(_status_field(task, "SigBlk"), 16) for task in tasks]
    # SIGKILL, SIGSTOP and the two that libc keeps for itself cannot be blocked.
    assert any(mask & 0x7FFBFEFF == 0x7FFBFEFF for mask in blocked)


def _status_field(task: Path, name: str) -> str:
    lines = (task / "status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name))


def test_context_lives_in_the_callers_memory(hosted: Library):
    blocks = integer(0)
    context = hosted.host("create_with_allocator", pointer, [pointer])(ctypes.byref(blocks))
    assert blocks.value == 1
    assert Addition().run(hosted, context) == Status.OK
    hosted.destroy(context)
    assert blocks.value == 0


def test_create_gives_null_without_memory(hosted: Library):
    assert hosted.host("create_without_memory", pointer, [])() is None
    reason = hosted.last_error(None)
    assert re.fullmatch(rb"create requires \d+ bytes of memory, got none", reason)


# Weights


def weights_library(weights: list[int | None], used: int) -> Library:
    """outputs[0][0] = the first i64 of a weight; the blob holds 10, 11, 12."""
    target, module = host_target(), ir.Module("program")
    runtime = Runtime(module, target, "m")
    blob = ir.GlobalVariable(module, ir.ArrayType(I64, 3), "m.weights")
    blob.initializer = ir.Constant(blob.value_type, [10, 11, 12])
    blob.global_constant = True
    code = Code(runtime.program.append_basic_block("entry"))
    context, _, outputs, _, _ = code.arguments
    value = code.load(runtime.weight_pointer(code, context, used), typ=I64)
    code.store(value, code.load(outputs, typ=POINTER))
    code.ret(ir.IntType(32)(0))
    allow_all_sizes(runtime)
    program = compile_object(str(module), target)
    return loaded_library(load_objects([runtime_object(Counts(0, 1, 0), weights), program]))


def test_weights_are_read_from_the_blob_at_their_offset():
    library = weights_library([0, 16], used=1)
    with library.context(threads=1) as context:
        assert first_of_weight(library, context) == 12


def test_weights_of_the_caller_replace_embedded_ones():
    library = weights_library([0, 8], used=1)
    own = integer(77)
    table = (pointer * 2)(None, ctypes.addressof(own))
    with library.context(threads=1, weights=ctypes.cast(table, pointer)) as context:
        assert first_of_weight(library, context) == 77


def test_null_in_the_callers_table_means_the_embedded_weight():
    library = weights_library([0, 8], used=0)
    table = (pointer * 2)(None, None)
    with library.context(threads=1, weights=ctypes.cast(table, pointer)) as context:
        assert first_of_weight(library, context) == 10


def test_create_requires_the_weights_that_the_artifact_lacks():
    library = weights_library([0, None], used=1)
    assert library.create(None) is None
    reason = b"create requires a pointer for weight 1 (counted from 0), got NULL"
    assert library.last_error(None) == reason
    own = integer(5)
    table = (pointer * 2)(None, ctypes.addressof(own))
    with library.context(threads=1, weights=ctypes.cast(table, pointer)) as context:
        assert first_of_weight(library, context) == 5


# The ABI on other machines


@pytest.mark.parametrize("triple_text", ["x86_64-pc-windows-msvc", "powerpc64-unknown-linux-gnu"])
def test_pool_refuses_systems_without_futexes(triple_text: str):
    target = replace(host_target(), triple=triple_text)
    with pytest.raises(UnsupportedError, match=f"requires Linux on one of .*, got {triple_text}"):
        Runtime(ir.Module("runtime"), target, "m")


@pytest.mark.parametrize(("cpu", "arch"), [("generic", "aarch64"), ("generic-rv64", "riscv64")])
def test_runtime_compiles_for_other_machines(cpu: str, arch: str):
    target = replace(host_target(), triple=f"{arch}-unknown-linux-gnu", cpu=cpu, features=())
    if arch == "riscv64":
        target = replace(target, features=("+m", "+a", "+f", "+d", "+c"))
    module = ir.Module("runtime")
    define_run_time(Runtime(module, target, "m"), Counts(1, 1, 0))
    assert compile_object(str(module), target)


def test_kernels_may_have_any_name_but_a_few():
    (defined,) = read_objects([runtime_object(Counts(1, 1, 0))])
    shared = {each.name for each in defined.symbols if each.is_defined and not each.is_local}
    own = {"m.parallel_for", "m.call.run", "m.message.write", "m.profile.enter"}
    own |= {"m.choose_level", "m.refusal"}
    assert shared == {*exported_symbols("m"), *own}


def test_two_models_link_into_one_library():
    objects = [runtime_object(Counts(1, 1, 0), prefix=prefix) for prefix in ("a", "b")]
    for prefix in ("a", "b"):
        module = ir.Module("program")
        runtime = Runtime(module, host_target(), prefix)
        Code(runtime.program.append_basic_block("entry")).ret(ir.IntType(32)(0))
        allow_all_sizes(runtime)
        objects.append(compile_object(str(module), host_target()))
    code = load_objects(objects)
    assert all(code.address(name) for p in ("a", "b") for name in exported_symbols(p))


# Offsets for LLVM follow from declarations in C; ctypes lays members out by its own rules


@pytest.mark.parametrize(
    ("struct", "mirror"), [(OPTIONS, Options), (CALL, Call)], ids=["options", "call"]
)
def test_structs_have_the_layout_of_c(struct: Struct, mirror: type[ctypes.Structure]):
    assert ctypes.sizeof(mirror) == struct.size
    offsets = {name: getattr(mirror, name).offset for name, *_ in mirror._fields_}
    assert offsets == {name: field.offset for name, field in struct.fields.items()}


def test_runtime_allocates_through_the_context():
    target, module = host_target(), ir.Module("program")
    runtime = Runtime(module, target, "m")
    code = Code(runtime.program.append_basic_block("entry"))
    context, _, outputs, _, _ = code.arguments
    memory = runtime.allocate(code, context, I64(100), 64)
    code.store(code.ptrtoint(memory, I64), code.load(outputs, typ=POINTER))
    runtime.release(code, context, memory)
    code.ret(code.zext(code.icmp_unsigned("==", memory, NULL), ir.IntType(32)))
    allow_all_sizes(runtime)
    program = compile_object(str(module), target)
    library = loaded_library(load_objects([runtime_object(Counts(0, 1, 0)), program]))
    with library.context(threads=1) as context:
        address = first_of_weight(library, context)
    assert address
    assert address % 64 == 0
