"""The run time of artifacts: contexts, calls and their errors, and the thread pool under stress."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import time
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

from compiler.loop_to_llvm.runtime import (
    ABI_VERSION,
    LIBC_NAMES,
    Counts,
    Runtime,
    Status,
    Weight,
    exported_symbols,
)
from compiler.loop_to_llvm.runtime.code import NULL, Code
from compiler.loop_to_llvm.runtime.layout import CALL, OPTIONS, Struct
from compiler.machine.header import header
from compiler.machine.host import host_target
from compiler.machine.jit import LoadedCode, load_objects
from compiler.machine.link import read_objects, undefined_symbols
from compiler.machine.object import compile_object
from compiler.machine.signature import Signature, TensorSpec
from dialects.errors import UnsupportedError

METADATA = json.dumps({"name": "sums", "unit": "µs"})
HOST_SOURCE = Path(__file__).with_name("runtime_host.c")
MILLISECOND = 1_000_000
I64, POINTER = ir.IntType(64), ir.PointerType()

pointer, integer = ctypes.c_void_p, ctypes.c_int64
threads_1_2_8 = pytest.mark.parametrize("threads", [1, 2, 8])


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("parallel_for", pointer),
        ("parallel_for_user", pointer),
        ("allocate", pointer),
        ("release", pointer),
        ("allocator_user", pointer),
        ("weights", pointer),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class Call(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("inputs", pointer),
        ("outputs", pointer),
        ("dims", pointer),
        ("workspace", pointer),
        ("workspace_size", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 2),
    ]


def runtime_object(counts: Counts, weights: list[Weight] | None = None, prefix: str = "m") -> bytes:
    target = host_target()
    module = ir.Module("runtime")
    Runtime(module, target, prefix).define(counts, METADATA, weights or [])
    return compile_object(str(module), target)


class Library:
    """An artifact's functions with their C types; `extra` are those of the test's host."""

    def __init__(self, function: Callable[[str, object, list[object]], Callable[..., object]]):
        self.abi_version = function("m_abi_version", ctypes.c_uint32, [])
        self.metadata = function("m_metadata", ctypes.c_char_p, [])
        self.create = function("m_create", pointer, [pointer])
        self.destroy = function("m_destroy", None, [pointer])
        self.workspace_size = function("m_workspace_size", ctypes.c_uint64, [pointer])
        self.run = function("m_run", ctypes.c_int32, [pointer, pointer])
        self.last_error = function("m_last_error", ctypes.c_char_p, [pointer])
        self.host = function

    @contextmanager
    def context(self, **options: object) -> Iterator[int]:
        settings = Options(size=ctypes.sizeof(Options), **options)
        context = self.create(ctypes.byref(settings))
        assert context, "these options are valid"
        yield context
        self.destroy(context)


def loaded_library(code: LoadedCode) -> Library:
    return Library(
        lambda name, result, operands: ctypes.CFUNCTYPE(result, *operands)(code.address(name))
    )


def emitted_program() -> bytes:
    """outputs[0][i] = 3 * inputs[0][i] over dims[0] i64 by a parallel loop; fails for 13."""
    target, module = host_target(), ir.Module("program")
    runtime = Runtime(module, target, "m")
    body = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, I64, I64]), "m.body")
    body.type = POINTER
    code = Code(body.append_basic_block("entry"))
    argument, begin, end = code.arguments
    number = code.variable(I64)
    source, sink = (code.load(code.at(argument, 8 * i), typ=POINTER) for i in range(2))
    with code.repeat(code.sub(end, begin), number) as offset:
        index = code.add(begin, offset)
        value = code.load(code.element(source, index, I64), typ=I64)
        code.store(code.mul(value, I64(3)), code.element(sink, index, I64))
    code.ret_void()
    _emit_triple_program(runtime, body)
    code = Code(runtime.workspace.append_basic_block("entry"))
    code.ret(I64(0))
    return compile_object(str(module), target)


def _emit_triple_program(runtime: Runtime, body: ir.Value) -> None:
    code = Code(runtime.program.append_basic_block("entry"))
    context, inputs, outputs, dims, _ = code.arguments
    closure = code.variable(ir.ArrayType(I64, 2))
    code.store(code.load(inputs, typ=POINTER), closure)
    code.store(code.load(outputs, typ=POINTER), code.at(closure, 8))
    count = code.load(dims, typ=I64)
    with code.if_then(code.icmp_unsigned("==", count, I64(13))):
        text = "sums require 100% luck, got {} and {}"
        code.ret(runtime.fail(code, context, Status.BAD_VALUE, text, [count, I64(-1)]))
    runtime.parallel_for(code, context, count, I64(8), body, closure)
    code.ret(ir.IntType(32)(0))


@pytest.fixture(scope="module")
def emitted() -> Library:
    """The run time with a program of LLVM IR, loaded into this process."""
    return loaded_library(load_objects([runtime_object(Counts(1, 1, 1)), emitted_program()]))


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The run time with a program and a host in C."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler as cc")
    folder = tmp_path_factory.mktemp("hosted")
    (folder / "runtime.o").write_bytes(runtime_object(Counts(2, 1, 1)))
    floats = TensorSpec("x", "float32", ("n",))
    signature = Signature((floats, replace(floats, name="y")), (floats,), ("n",))
    (folder / "m.h").write_text(header("m", signature))
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{folder}"]
    command += ["-o", str(folder / "m.so"), str(HOST_SOURCE), str(folder / "runtime.o"), "-pthread"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "m.so"))

    def function(name: str, result: object, operands: list[object]) -> Callable[..., object]:
        found = library[name]
        found.restype, found.argtypes = result, operands
        return found

    return Library(function)


def triple(library: Library, context: int, values: np.ndarray) -> tuple[int, np.ndarray]:
    result = np.zeros_like(values)
    dims = np.array([len(values)], np.int64)
    call = Call(
        size=ctypes.sizeof(Call),
        inputs=ctypes.cast((pointer * 1)(values.ctypes.data), pointer),
        outputs=ctypes.cast((pointer * 1)(result.ctypes.data), pointer),
        dims=dims.ctypes.data,
    )
    return library.run(context, ctypes.byref(call)), result


class Addition:
    """A good call of the hosted program, for tests to spoil."""

    def __init__(self, count: int = 1000):
        self.lhs = np.arange(count, dtype=np.float32)
        self.rhs = np.full(count, 0.5, np.float32)
        self.sums = np.zeros(count, np.float32)
        self.dims = np.array([count], np.int64)
        self.memory = np.zeros(4 * count + 64, np.uint8)
        self.inputs = (pointer * 2)(self.lhs.ctypes.data, self.rhs.ctypes.data)
        self.outputs = (pointer * 1)(self.sums.ctypes.data)
        self.call = Call(
            size=ctypes.sizeof(Call),
            inputs=ctypes.cast(self.inputs, pointer),
            outputs=ctypes.cast(self.outputs, pointer),
            dims=self.dims.ctypes.data,
            workspace=-(-self.memory.ctypes.data // 64) * 64,
            workspace_size=4 * count,
        )

    def run(self, library: Library, context: int | None) -> int:
        return library.run(context, ctypes.byref(self.call))


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 88},
        {"size": 104},
        {"threads": 1025},
        {"flags": 1},
        {"reserved": (ctypes.c_uint64 * 4)(0, 0, 0, 1)},
        {"allocate": 4096},
        {"release": 4096},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_create_refuses_wrong_options(emitted: Library, wrong: dict[str, object]):
    before = thread_count()
    options = Options(**{"size": ctypes.sizeof(Options), "threads": 2} | wrong)
    assert emitted.create(ctypes.byref(options)) is None
    assert thread_count() == before


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


# Weights


def weights_library(weights: list[Weight], used: int) -> Library:
    """outputs[0][0] = the first i64 of a weight; the blob `w` holds 10, 11, 12."""
    target, module = host_target(), ir.Module("program")
    runtime = Runtime(module, target, "m")
    blob = ir.GlobalVariable(module, ir.ArrayType(I64, 3), "w")
    blob.initializer = ir.Constant(blob.value_type, [10, 11, 12])
    blob.global_constant = True
    code = Code(runtime.program.append_basic_block("entry"))
    context, _, outputs, _, _ = code.arguments
    value = code.load(runtime.weight_pointer(code, context, used), typ=I64)
    code.store(value, code.load(outputs, typ=POINTER))
    code.ret(ir.IntType(32)(0))
    Code(runtime.workspace.append_basic_block("entry")).ret(I64(0))
    program = compile_object(str(module), target)
    return loaded_library(load_objects([runtime_object(Counts(0, 1, 0), weights), program]))


def first_of_weight(library: Library, context: int) -> int:
    result = integer(0)
    outputs = (pointer * 1)(ctypes.addressof(result))
    call = Call(size=ctypes.sizeof(Call), outputs=ctypes.cast(outputs, pointer))
    assert library.run(context, ctypes.byref(call)) == Status.OK
    return result.value


def test_weights_are_read_from_the_blob_at_their_offset():
    library = weights_library([("w", 0), ("w", 16)], used=1)
    with library.context(threads=1) as context:
        assert first_of_weight(library, context) == 12


def test_weights_of_the_caller_replace_embedded_ones():
    library = weights_library([("w", 0), ("w", 8)], used=1)
    own = integer(77)
    table = (pointer * 2)(None, ctypes.addressof(own))
    with library.context(threads=1, weights=ctypes.cast(table, pointer)) as context:
        assert first_of_weight(library, context) == 77


def test_null_in_the_callers_table_means_the_embedded_weight():
    library = weights_library([("w", 0), ("w", 8)], used=0)
    table = (pointer * 2)(None, None)
    with library.context(threads=1, weights=ctypes.cast(table, pointer)) as context:
        assert first_of_weight(library, context) == 10


def test_create_requires_the_weights_that_the_artifact_lacks():
    library = weights_library([("w", 0), (None, 0)], used=1)
    assert library.create(None) is None
    own = integer(5)
    table = (pointer * 2)(None, ctypes.addressof(own))
    with library.context(threads=1, weights=ctypes.cast(table, pointer)) as context:
        assert first_of_weight(library, context) == 5


# Calls


@threads_1_2_8
def test_emitted_program_runs_over_every_element(emitted: Library, threads: int):
    with emitted.context(threads=threads) as context:
        for count in (0, 1, 8, 9, 64, 100_001):
            values = np.arange(count)
            status, result = triple(emitted, context, values)
            assert status == Status.OK
            np.testing.assert_array_equal(result, 3 * values)


def test_failing_program_tells_status_and_numbers(emitted: Library):
    with emitted.context(threads=1) as context:
        assert emitted.last_error(context) == b""
        status, _ = triple(emitted, context, np.arange(13))
        assert status == Status.BAD_VALUE
        assert emitted.last_error(context) == b"sums require 100% luck, got 13 and -1"


@threads_1_2_8
def test_run_adds(hosted: Library, threads: int):
    with hosted.context(threads=threads) as context:
        addition = Addition()
        assert addition.run(hosted, context) == Status.OK
        np.testing.assert_array_equal(addition.sums, addition.lhs + addition.rhs)


def test_run_without_context_fails(hosted: Library):
    assert Addition().run(hosted, None) == Status.NULL_POINTER
    assert hosted.last_error(None).startswith(b"weft requires a context, got NULL")


def test_run_without_call_fails(hosted: Library):
    with hosted.context(threads=1) as context:
        assert hosted.run(context, None) == Status.NULL_POINTER
        assert hosted.last_error(context) == b"run requires a weft_call, got NULL"


SPOILED_CALLS: dict[str, tuple[dict[str, object], Status, bytes]] = {
    "size": ({"size": 56}, Status.BAD_CALL, b"run requires a weft_call of 64 bytes, got 56"),
    "reserved": (
        {"reserved": (ctypes.c_uint64 * 2)(0, 9)},
        Status.BAD_CALL,
        b"run requires reserved[1] to be 0, got 9",
    ),
    "inputs": (
        {"inputs": None},
        Status.NULL_POINTER,
        b"run requires a table of 2 inputs, got NULL",
    ),
    "outputs": (
        {"outputs": None},
        Status.NULL_POINTER,
        b"run requires a table of 1 outputs, got NULL",
    ),
    "dims": ({"dims": None}, Status.NULL_POINTER, b"run requires a table of 1 dims, got NULL"),
    "workspace": (
        {"workspace": None},
        Status.NULL_POINTER,
        b"run requires a workspace of 4000 bytes, got NULL",
    ),
    "workspace_size": (
        {"workspace_size": 3999},
        Status.BAD_WORKSPACE,
        b"run requires a workspace of 4000 bytes, got 3999",
    ),
}


@pytest.mark.parametrize("spoiled", SPOILED_CALLS)
def test_run_refuses_wrong_calls(hosted: Library, spoiled: str):
    fields, status, text = SPOILED_CALLS[spoiled]
    addition = Addition()
    for name, value in fields.items():
        setattr(addition.call, name, value)
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == status
        assert hosted.last_error(context) == text
    assert not addition.sums.any()


def test_run_refuses_null_buffers(hosted: Library):
    with hosted.context(threads=1) as context:
        addition = Addition()
        addition.inputs[1] = None
        assert addition.run(hosted, context) == Status.NULL_POINTER
        assert hosted.last_error(context) == b"run requires a buffer in inputs[1], got NULL"
        addition = Addition()
        addition.outputs[0] = None
        assert addition.run(hosted, context) == Status.NULL_POINTER
        assert hosted.last_error(context) == b"run requires a buffer in outputs[0], got NULL"


def test_run_refuses_negative_dims(hosted: Library):
    addition = Addition()
    addition.dims[0] = -4
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == Status.BAD_DIMS
        assert hosted.last_error(context) == b"run requires dims[0] to be at least 0, got -4"


def test_run_refuses_a_workspace_off_its_alignment(hosted: Library):
    addition = Addition()
    addition.call.workspace += 32
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == Status.BAD_WORKSPACE
        expected = b"run requires a workspace aligned to 64 bytes, got one 32 bytes beyond"
        assert hosted.last_error(context) == expected


def test_no_workspace_is_needed_for_nothing(hosted: Library):
    addition = Addition()
    addition.dims[0] = 0
    addition.call.workspace, addition.call.workspace_size = None, 0
    with hosted.context(threads=1) as context:
        assert addition.run(hosted, context) == Status.OK


def test_workspace_size_is_a_function_of_the_dims(hosted: Library):
    assert hosted.workspace_size((integer * 1)(250)) == 1000
    assert hosted.workspace_size((integer * 1)(-1)) == 2**64 - 1
    assert hosted.workspace_size(None) == 2**64 - 1


# The pool


def parts_of_loop(
    library: Library, context: int | None, count: int, grain: int
) -> list[tuple[int, int]]:
    recorded = (integer * 200)()
    function = library.host("record_parts", ctypes.c_int32, [pointer, integer, integer, pointer])
    parts = function(context, count, grain, recorded)
    return sorted((recorded[2 * i], recorded[2 * i + 1]) for i in range(parts))


@threads_1_2_8
def test_parts_cover_the_loop_once(hosted: Library, threads: int):
    with hosted.context(threads=threads) as context:
        for count, grain in ((2, 1), (7, 2), (100, 1), (1001, 10), (1 << 60, 1)):
            parts = parts_of_loop(hosted, context, count, grain)
            assert parts[0][0] == 0
            assert parts[-1][1] == count
            assert [begin for begin, _ in parts[1:]] == [end for _, end in parts[:-1]]
            assert len(parts) == min(-(-count // grain), 4 * threads if threads > 1 else 1)


@pytest.mark.parametrize(
    ("count", "grain", "parts"),
    [
        (10, 10, [(0, 10)]),
        (10, 100, [(0, 10)]),
        (0, 1, []),
        (-5, 1, []),
        (3, 0, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_small_loops_are_one_call(
    hosted: Library, count: int, grain: int, parts: list[tuple[int, int]]
):
    with hosted.context(threads=2) as context:
        assert parts_of_loop(hosted, context, count, grain) == parts


def test_loop_without_context_is_one_call(hosted: Library):
    assert parts_of_loop(hosted, None, 1000, 1) == [(0, 1000)]


def test_two_threads_run_at_once(hosted: Library):
    with hosted.context(threads=2) as context:
        runs_at_once = hosted.host("runs_at_once", ctypes.c_int32, [pointer, integer])
        assert runs_at_once(context, 2000 * MILLISECOND) == 1


@pytest.mark.parametrize(("threads", "budget"), [(1, 100), (2, 1500), (8, 1000)])
def test_hundred_thousand_loops_run_every_iteration_once(
    hosted: Library, threads: int, budget: int
):
    rounds = integer(0)
    stress = hosted.host("stress", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=threads) as context:
        errors = stress(context, 200_000, budget * MILLISECOND, ctypes.byref(rounds))
    assert errors == 0
    assert rounds.value > 100


def test_sleeping_workers_wake_up(hosted: Library):
    runs_at_once = hosted.host("runs_at_once", ctypes.c_int32, [pointer, integer])
    with hosted.context(threads=2) as context:
        for _ in range(3):
            time.sleep(0.02)  # far longer than workers spin
            assert runs_at_once(context, 2000 * MILLISECOND) == 1


def test_loops_are_whole_while_workers_fall_asleep(hosted: Library):
    stress = hosted.host("stress_asleep", integer, [pointer, integer, integer])
    with hosted.context(threads=4) as context:
        assert stress(context, 200, MILLISECOND) == 0


def test_two_callers_share_a_context(hosted: Library):
    stress = hosted.host("stress_twice", integer, [pointer, integer, integer])
    with hosted.context(threads=3) as context:
        assert stress(context, 100_000, 500 * MILLISECOND) == 0


def test_nested_loops_run_in_their_thread(hosted: Library):
    stress = hosted.host("stress_nested", integer, [pointer, integer])
    with hosted.context(threads=4) as context:
        assert stress(context, 10_000) == 0


def test_host_runs_the_loops_where_it_offers_to(hosted: Library):
    calls, before = integer(0), thread_count()
    create = hosted.host("create_with_host_loop", pointer, [ctypes.c_uint32, pointer])
    context = create(4, ctypes.byref(calls))
    assert thread_count() == before
    addition = Addition()
    assert addition.run(hosted, context) == Status.OK
    np.testing.assert_array_equal(addition.sums, addition.lhs + addition.rhs)
    rounds = integer(0)
    stress = hosted.host("stress", integer, [pointer, integer, integer, pointer])
    assert stress(context, 100, 1000 * MILLISECOND, ctypes.byref(rounds)) == 0
    assert calls.value > 90
    hosted.destroy(context)


def test_loop_without_contention_is_cheap(hosted: Library):
    """A bound far above what was measured, to notice a fork that sleeps or waits for the system."""
    latency = hosted.host("fork_join_latency", ctypes.c_double, [pointer, integer])
    with hosted.context(threads=2) as context:
        assert min(latency(context, 2000) for _ in range(10)) < 20_000


# The ABI on other machines


@pytest.mark.parametrize("triple_text", ["x86_64-pc-windows-msvc", "wasm32-unknown-unknown"])
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
    Runtime(module, target, "m").define(Counts(1, 1, 0), METADATA)
    assert compile_object(str(module), target)


def test_kernels_may_have_any_name_but_one():
    (defined,) = read_objects([runtime_object(Counts(1, 1, 0))])
    shared = {each.name for each in defined.symbols if each.is_defined and not each.is_local}
    assert shared == {*exported_symbols("m"), "m.parallel_for"}


def test_two_models_link_into_one_library():
    objects = [runtime_object(Counts(1, 1, 0), prefix=prefix) for prefix in ("a", "b")]
    for prefix in ("a", "b"):
        module = ir.Module("program")
        runtime = Runtime(module, host_target(), prefix)
        Code(runtime.program.append_basic_block("entry")).ret(ir.IntType(32)(0))
        Code(runtime.workspace.append_basic_block("entry")).ret(I64(0))
        objects.append(compile_object(str(module), host_target()))
    code = load_objects(objects)
    assert all(code.address(name) for p in ("a", "b") for name in exported_symbols(p))


# A struct's layout is written down twice, for C and for LLVM


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
    Code(runtime.workspace.append_basic_block("entry")).ret(I64(0))
    program = compile_object(str(module), target)
    library = loaded_library(load_objects([runtime_object(Counts(0, 1, 0)), program]))
    with library.context(threads=1) as context:
        address = first_of_weight(library, context)
    assert address
    assert address % 64 == 0
