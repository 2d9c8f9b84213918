"""The self-test of an artifact: `m_self_test` runs the model on golden inputs, which another object
has, and compares the outputs with golden ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
from llvmlite import ir
from msgspec import Struct

from weft.compiler.abi.constants import WORKSPACE_ALIGNMENT, Status
from weft.compiler.loop_to_llvm.runtime.code import (
    DOUBLE,
    I8,
    I16,
    I32,
    I64,
    NULL,
    POINTER,
    Code,
    compile_plainly,
    constant_integers,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.context import ALLOCATE, RELEASE
from weft.compiler.loop_to_llvm.runtime.entry import CHECK, RUN
from weft.compiler.loop_to_llvm.runtime.layout import CALL, CONTEXT, TENSOR, WORKSPACE
from weft.compiler.loop_to_llvm.runtime.metadata import Counts
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.runtime.status import Shown, Sizes, fail
from weft.compiler.loop_to_llvm.runtime.table import Table

_TEST: Final = ir.FunctionType(I32, [POINTER])
_COMPARE: Final = ir.FunctionType(I32, [POINTER] * 4 + [I64, POINTER, I64, DOUBLE])
_CHECK_MADE: Final = ir.FunctionType(I32, [POINTER] * 4 + [I64])
_FLOAT: Final = ir.FloatType()
_WIDE: Final = {"float64": DOUBLE, "float32": _FLOAT}
_HALVES: Final = ("float16", "bfloat16")


class GoldenTensor(Struct, frozen=True):
    """A tensor of the golden data: its offset in bytes, and how far an element may be off."""

    offset: int
    dtype: str
    shape: tuple[int, ...]
    margin: float


class Golden(Struct, frozen=True):
    """The values of the free sizes, and the tensors of a call."""

    sizes: Sequence[int]
    inputs: Sequence[GoldenTensor]
    outputs: Sequence[GoldenTensor]


def self_test_exports(prefix: str, golden: object) -> tuple[str, ...]:
    """What artifacts with golden data show to others beside what all do."""
    return () if golden is None else (f"{prefix}_self_test",)


class SelfTestFunction:
    """Emits `i32 m_self_test(context)`; the symbol `m.golden` has the data."""

    def __init__(self, pool: Pool, golden: Golden, table: Table, counts: Counts):
        self.pool = pool
        self.module: ir.Module = pool.module
        self.golden = golden
        self.table = table
        self.counts = counts
        self.data = ir.GlobalVariable(self.module, I8, f"{pool.prefix}.golden")
        self.data.global_constant = True
        self.data.type = POINTER

    def define(self) -> None:
        for dtype in dict.fromkeys(each.dtype for each in self.golden.outputs):
            self._define_compare(dtype)
        if self.counts.made:
            self.table.define_sizes()
            self._define_check_made()
        self._define_test()

    def _define_test(self) -> None:
        code = self.pool.define_exported("self_test", _TEST)
        compile_plainly(code.function)
        (context,) = code.arguments
        golden, room = self.golden, self.counts.dims + self.counts.found
        sizes = code.variable(ir.ArrayType(I64, 1 + room))
        inputs, outputs = (
            code.variable(ir.ArrayType(POINTER, 1 + len(each)))
            for each in (golden.inputs, golden.outputs)
        )
        call = code.variable(ir.ArrayType(I64, CALL.size // 8))
        status = code.variable(I32)
        code.return_if(code.is_null(context), i32(Status.NULL_POINTER))
        for position, size in enumerate(golden.sizes):
            code.store(i64(size), code.element(sizes, i64(position), I64))
        workspace = code.call(self.pool.declare("workspace", WORKSPACE), [sizes])
        memory = self._allocate(code, workspace)
        self._fill_tables(code, memory, inputs, outputs)
        self._fill_call(code, call, inputs, outputs, sizes)
        CALL.store(code, call, "workspace", code.at(memory, self._outputs_bytes))
        CALL.store(code, call, "workspace_size", workspace)
        code.store(code.call(self.pool.declare(RUN, CHECK), [context, call]), status)
        self._compare_all(code, outputs, sizes, status)
        for position in sorted(self.counts.made):
            made = code.element(outputs, i64(position), POINTER)
            self._release(code, code.load(made, typ=POINTER))
        self._release(code, memory)
        code.ret(code.load(status, typ=I32))

    @property
    def _outputs_bytes(self) -> int:
        """Room for the outputs, each on a cache line."""
        return self._starts()[-1]

    def _starts(self) -> list[int]:
        """Where each output is in that room, and where it ends."""
        starts = [0]
        for tensor in self.golden.outputs:
            size = prod(tensor.shape) * np.dtype(_dtype(tensor.dtype)).itemsize
            starts.append(starts[-1] + (size + 63) // 64 * 64)
        return starts

    def _allocate(self, code: Code, workspace: ir.Value) -> ir.Value:
        context = code.arguments[0]
        size = code.add(workspace, i64(self._outputs_bytes + WORKSPACE_ALIGNMENT))
        names = ("allocate", "allocator_user")
        function, user = (CONTEXT.load(code, context, name) for name in names)
        arguments = [user, size, i64(WORKSPACE_ALIGNMENT)]
        memory = code.call_pointer(function, ALLOCATE, arguments)
        with code.unlikely(code.is_null(memory)):
            text = "self_test requires {} bytes, got none"
            code.ret(fail(code, context, Status.OUT_OF_MEMORY, text, [size]))
        return memory

    def _release(self, code: Code, memory: ir.Value) -> None:
        context = code.arguments[0]
        with code.if_then(code.not_(code.is_null(memory))):
            names = ("release", "allocator_user")
            function, user = (CONTEXT.load(code, context, name) for name in names)
            code.call_pointer(function, RELEASE, [user, memory])

    def _fill_tables(
        self, code: Code, memory: ir.Value, inputs: ir.Value, outputs: ir.Value
    ) -> None:
        for position, tensor in enumerate(self.golden.inputs):
            address = code.element(inputs, i64(position), POINTER)
            code.store(code.at(self.data, tensor.offset), address)
        for position, start in enumerate(self._starts()[:-1]):
            address = code.element(outputs, i64(position), POINTER)
            made = position in self.counts.made
            code.store(NULL if made else code.at(memory, start), address)

    def _fill_call(self, code: Code, call: ir.Value, *tables: ir.Value) -> None:
        self.pool.platform.call(code, "memset", [call, i32(0), i64(CALL.size)])
        CALL.store(code, call, "size", i64(CALL.size))
        for name, table in zip(("inputs", "outputs", "dims"), tables, strict=True):
            CALL.store(code, call, name, table)

    def _compare_all(
        self, code: Code, outputs: ir.Value, sizes: ir.Value, status: ir.Value
    ) -> None:
        """Compares one output after the other, as long as all is well."""
        context = code.arguments[0]
        for position, tensor in enumerate(self.golden.outputs):
            entry = self.table.entry(code, "outputs", i64(position), TENSOR)
            name = f"{self.pool.prefix}.golden_shape"
            shape = constant_integers(self.module, name, I64, tensor.shape or (1,))
            rank = i64(len(tensor.shape))
            if position in self.counts.made:
                with code.if_then(self._is_well(code, status)):
                    arguments = [context, entry, sizes, shape, rank]
                    code.store(code.call(self._check_made, arguments), status)
            with code.if_then(self._is_well(code, status)):
                got = code.load(code.element(outputs, i64(position), POINTER), typ=POINTER)
                wanted = code.at(self.data, tensor.offset)
                count, margin = i64(prod(tensor.shape)), DOUBLE(tensor.margin)
                arguments = [context, entry, got, wanted, count, shape, rank, margin]
                code.store(code.call(self._compare(tensor.dtype), arguments), status)

    @staticmethod
    def _is_well(code: Code, status: ir.Value) -> ir.Value:
        return code.icmp_unsigned("==", code.load(status, typ=I32), i32(Status.OK))

    @property
    def _check_made(self) -> ir.Function:
        """`i32 (context, entry, sizes, shape, rank)`: whether an output that the call made has that
        shape.
        """
        return self.pool.declare("check_made", _CHECK_MADE)

    def _define_check_made(self) -> None:
        code = Code(self._check_made.append_basic_block("entry"))
        compile_plainly(code.function)
        context, entry, sizes, shape, rank = code.arguments
        got, number = code.array(I64, rank), code.variable(I64)
        code.call(self.table.expected_shape, [entry, sizes, got])
        name = self.table.address_of(code, entry, TENSOR, "shown_name")
        with code.repeat(rank, number) as axis:
            one, other = (code.load(code.element(e, axis, I64), typ=I64) for e in (got, shape))
            with code.unlikely(code.icmp_signed("!=", one, other)):
                text = "self_test requires shape {} of output '{}', got {}"
                shown: list[Shown] = [Sizes(shape, rank), name, Sizes(got, rank)]
                code.ret(fail(code, context, Status.BAD_RESULT, text, shown))
        code.ret(i32(Status.OK))

    def _compare(self, dtype: str) -> ir.Function:
        """`i32 (context, entry, got, golden, count, shape, rank, margin)`."""
        return self.pool.declare(f"compare_{dtype}", _COMPARE)

    def _define_compare(self, dtype: str) -> None:
        code = Code(self._compare(dtype).append_basic_block("entry"))
        compile_plainly(code.function)
        context, entry, got, wanted, count, shape, rank, margin = code.arguments
        number, rest = code.variable(I64), code.variable(I64)
        address, axes = code.array(I64, rank), code.variable(I64)
        with code.repeat(count, number) as position:
            ours, theirs = (_element(code, dtype, each, position) for each in (got, wanted))
            exact = not isinstance(ours.type, ir.DoubleType)
            with code.unlikely(code.not_(_agree(code, ours, theirs, margin))):
                _unravel(code, position, shape, rank, address, rest, axes)
                name = self.table.address_of(code, entry, TENSOR, "shown_name")
                within = "" if exact else " within {}"
                text = f"self_test requires {{}}{within} at {{}} of output '{{}}', got {{}}"
                margins = [] if exact else [margin]
                shown: list[Shown] = [theirs, *margins, Sizes(address, rank), name, ours]
                code.ret(fail(code, context, Status.BAD_RESULT, text, shown))
        code.ret(i32(Status.OK))


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def _agree(code: Code, ours: ir.Value, theirs: ir.Value, margin: ir.Value) -> ir.Value:
    """Whether two elements are the same, or floats that lie no further apart than the margin."""
    if not isinstance(ours.type, ir.DoubleType):
        return code.icmp_signed("==", ours, theirs)
    apart = code.fsub(ours, theirs)
    near = code.and_(
        code.fcmp_ordered("<=", apart, margin), code.fcmp_ordered(">=", apart, code.fneg(margin))
    )
    both_nan = code.and_(
        code.fcmp_unordered("uno", ours, ours), code.fcmp_unordered("uno", theirs, theirs)
    )
    same = code.fcmp_ordered("==", ours, theirs)
    return code.or_(same, code.or_(near, both_nan))


def _unravel(
    code: Code, position: ir.Value, shape: ir.Value, rank: ir.Value, address: ir.Value,
    rest: ir.Value, axes: ir.Value,
) -> None:  # fmt: skip
    """Writes the coordinates of an element."""
    code.store(position, rest)
    with code.repeat(rank, axes) as number:
        axis = code.sub(code.sub(rank, number), i64(1))
        size = code.load(code.element(shape, axis, I64), typ=I64)
        left = code.load(rest, typ=I64)
        code.store(code.urem(left, size), code.element(address, axis, I64))
        code.store(code.udiv(left, size), rest)


def _element(code: Code, dtype: str, base: ir.Value, position: ir.Value) -> ir.Value:
    """One element as a double, or, of integers and bool, as an i64."""
    if dtype in _WIDE:
        value = code.load(code.element(base, position, _WIDE[dtype]), typ=_WIDE[dtype])
        return value if dtype == "float64" else code.fpext(value, DOUBLE)
    if dtype in _HALVES:
        half = code.zext(code.load(code.element(base, position, I16), typ=I16), I32)
        return code.fpext(_widened(code, half, dtype), DOUBLE)
    if dtype == "bool" or "int" in dtype:
        llvm_type = ir.IntType(8 * _dtype(dtype).itemsize)
        value = code.load(code.element(base, position, llvm_type), typ=llvm_type)
        extend = code.zext if dtype[0] in "ub" else code.sext
        return value if llvm_type == I64 else extend(value, I64)
    byte = code.zext(code.load(code.element(base, position, I8), typ=I8), I64)
    known = np.arange(256, dtype=np.uint8).view(_dtype(dtype)).astype(np.float32)
    words = [int(word) for word in known.view(np.int32)]
    table = constant_integers(code.module, f"weft.{dtype}", I32, words)
    word = code.load(code.element(table, byte, I32), typ=I32)
    return code.fpext(code.bitcast(word, _FLOAT), DOUBLE)


def _widened(code: Code, half: ir.Value, dtype: str) -> ir.Value:
    """The 16 bits of a float as a float of 32."""
    if dtype == "bfloat16":
        return code.bitcast(code.shl(half, i32(16)), _FLOAT)
    magnitude = code.shl(code.and_(half, i32(0x7FFF)), i32(13))
    scaled = code.fmul(code.bitcast(magnitude, _FLOAT), _FLOAT(2.0**112))
    special = code.bitcast(code.or_(magnitude, i32(0x7F800000)), _FLOAT)
    finite = code.icmp_unsigned("<", magnitude, i32(0x7C00 << 13))
    sign = code.shl(code.and_(half, i32(0x8000)), i32(16))
    bits = code.bitcast(code.select(finite, scaled, special), I32)
    return code.bitcast(code.or_(bits, sign), _FLOAT)
