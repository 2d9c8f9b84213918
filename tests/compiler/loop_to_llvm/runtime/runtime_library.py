"""The run time of a model named `m`, compiled, loaded and called from Python."""

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

from weft.compiler.abi.constants import ABI_VERSION, Status
from weft.compiler.abi.structs import CALL, OPTIONS
from weft.compiler.loop_to_llvm.runtime import Counts, Runtime, metadata_of
from weft.compiler.loop_to_llvm.runtime.code import Code
from weft.compiler.machine.artifact.model_table import model_table
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import LoadedCode
from weft.compiler.machine.codegen.object_code import compile_object

METADATA = json.dumps({"name": "sums", "unit": "µs"})
HOST_SOURCE = Path(__file__).with_name("runtime_host.c")
MILLISECOND = 1_000_000
I64, POINTER = ir.IntType(64), ir.PointerType()

pointer, integer = ctypes.c_void_p, ctypes.c_int64
threads_1_2_8 = pytest.mark.parametrize("threads", [1, 2, 8])


class Options(ctypes.Structure):
    _fields_ = OPTIONS.ctypes_fields


class Call(ctypes.Structure):
    _fields_ = CALL.ctypes_fields


def table_of(counts: Counts) -> bytes:
    """The table of a model of vectors `x0`, `x1`, `y0` of size `n0`."""
    dims = ("n0",) if counts.dims else ()
    inputs = tuple(TensorSpec(f"x{n}", "float32", dims) for n in range(counts.inputs))
    outputs = tuple(TensorSpec(f"y{n}", "float32", dims) for n in range(counts.outputs))
    signature = Signature(inputs, outputs, tuple(f"n{n}" for n in range(counts.dims)))
    facts = {"prefix": "m", "weft": "", "triple": "", "cpu": "", "features": [], "abi": ABI_VERSION}
    facts |= {"weights_in": "embedded", "weights": [], "workspace_bytes": "n0", "bounds": {}}
    return model_table(facts | signature.to_json())


def runtime_object(counts: Counts, weights: Sequence[int | None] = (), prefix: str = "m") -> bytes:
    target = host_target()
    module = ir.Module("runtime")
    define_run_time(Runtime(module, target, prefix), counts, weights)
    return compile_object(str(module), target)


def define_run_time(runtime: Runtime, counts: Counts, weights: Sequence[int | None] = ()) -> None:
    """Its code and its facts, in one module."""
    runtime.define()
    runtime.define_levels()
    table = table_of(counts)
    runtime.metadata.define(metadata_of(runtime.pool.prefix, METADATA, table, counts, weights))


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
    allow_all_sizes(runtime)
    return compile_object(str(module), target)


def allow_all_sizes(runtime: Runtime) -> None:
    """Emits what a program says of sizes: all are allowed, and need no workspace."""
    Code(runtime.check_sizes.append_basic_block("entry")).ret(ir.IntType(32)(Status.OK))
    Code(runtime.workspace.append_basic_block("entry")).ret(I64(0))


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
    """The threads of this process, once that stays so: a joined one is listed for a moment more."""
    before, count = -1, len(os.listdir("/proc/self/task"))
    while count != before:
        time.sleep(0.02)
        before, count = count, len(os.listdir("/proc/self/task"))
    return count


def first_of_weight(library: Library, context: int) -> int:
    result = integer(0)
    outputs = (pointer * 1)(ctypes.addressof(result))
    call = Call(size=ctypes.sizeof(Call), outputs=ctypes.cast(outputs, pointer))
    assert library.run(context, ctypes.byref(call)) == Status.OK
    return result.value
