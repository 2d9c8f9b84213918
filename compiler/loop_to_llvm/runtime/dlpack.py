"""The call by DLPack's tensors: `m_run_dlpack` takes sizes out of the inputs' shapes, checks every
tensor against the table, and continues to what `m_run` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from weft.compiler.abi.constants import WORKSPACE_ALIGNMENT, Status
from weft.compiler.loop_to_llvm.runtime.code import (
    I1,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    compile_plainly,
    constant_bytes,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.context import ALLOCATE, RELEASE
from weft.compiler.loop_to_llvm.runtime.entry import CHECK, RUN, is_missing
from weft.compiler.loop_to_llvm.runtime.layout import (
    CALL,
    CONTEXT,
    DLTENSOR,
    SYMBOL,
    TENSOR,
    WORKSPACE,
)
from weft.compiler.loop_to_llvm.runtime.metadata import Metadata
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.runtime.status import Shown, Sizes, fail
from weft.compiler.loop_to_llvm.runtime.table import Table

CPU: Final = 1
"""DLPack's device type of memory that this processor reaches."""

_TAKE: Final = ir.FunctionType(I32, [POINTER] * 4)
_MOST_RANK: Final = 64
_MADE: Final = 1
_FUNCTIONS: Final = (
    ".check_tensor", ".check_shape", ".is_compact", ".bind_sizes", ".take_tensor",
    ".describe_tensor", "_run_dlpack",
)  # fmt: skip


class DlpackCall:
    """Emits `m_run_dlpack`. Every check is a function of (context, kind, entry, tensor, ...), a
    status, where the kind is the text `input` or `output`.
    """

    def __init__(self, pool: Pool, metadata: Metadata, table: Table):
        self.pool = pool
        self.module: ir.Module = pool.module
        self.metadata = metadata
        self.table = table

    def define(self) -> None:
        """Defines the function, which fails where the model says nothing of itself."""
        self._define_check_tensor()
        self._define_check_shape()
        self._define_is_compact()
        self._define_bind()
        self._define_take()
        self._define_describe()
        self._define_run()
        for name in _FUNCTIONS:
            compile_plainly(self.module.globals[f"{self.pool.prefix}{name}"])

    def _fail(
        self, code: Code, status: Status, rule: str, got: str, shown: Sequence[Shown] = ()
    ) -> None:
        """Ends a check: the rule is of the tensor that it is about."""
        context, llvm_type, entry = code.arguments[:3]
        name = self.table.address_of(code, entry, TENSOR, "shown_name")
        texts = rule.count("{}")
        text = f"run_dlpack requires {rule} for {{}} '{{}}', got {got}"
        values = [*shown[:texts], llvm_type, name, *shown[texts:]]
        code.ret(fail(code, context, status, text, values))

    @property
    def _check_tensor(self) -> ir.Function:
        return self.pool.declare("check_tensor", _TAKE)

    def _define_check_tensor(self) -> None:
        """All but the shape: that it is there, on the processor, of the dtype and rank."""
        code = Code(self._check_tensor.append_basic_block("entry"))
        _, _, entry, tensor = code.arguments
        dtype = self.table.address_of(code, entry, TENSOR, "dtype")
        with code.unlikely(code.is_null(tensor)):
            self._fail(code, Status.NULL_POINTER, "a DLTensor", "NULL")
        device = DLTENSOR.load(code, tensor, "device_type")
        with code.unlikely(code.icmp_unsigned("!=", device, i32(CPU))):
            got = code.sext(device, I64)
            rule = f"memory of the CPU (device {CPU})"
            self._fail(code, Status.BAD_TENSOR, rule, "device {}", [got])
        names = ("code", "bits", "lanes")
        given = [code.zext(DLTENSOR.load(code, tensor, name), I64) for name in names]
        wanted = [code.zext(TENSOR.load(code, entry, name), I64) for name in names]
        differ: ir.Value = I1(0)
        for one, other in zip(given, wanted, strict=True):
            differ = code.or_(differ, code.icmp_unsigned("!=", one, other))
        with code.unlikely(differ):
            rule, got = "{} (code {}, {} bits, {} lanes)", "code {}, {} bits, {} lanes"
            self._fail(code, Status.BAD_TENSOR, rule, got, [dtype, *wanted, *given])
        self._check_rank(code)
        code.ret(i32(Status.OK))

    def _check_rank(self, code: Code) -> None:
        _, _, entry, tensor = code.arguments
        shape = self.table.address_of(code, entry, TENSOR, "shape")
        given, rank = DLTENSOR.load(code, tensor, "ndim"), TENSOR.load(code, entry, "rank")
        sizes = DLTENSOR.load(code, tensor, "shape")
        scalar = code.icmp_unsigned("==", given, i32(0))
        with code.unlikely(code.not_(code.or_(scalar, code.not_(code.is_null(sizes))))):
            self._fail(code, Status.NULL_POINTER, "shape {}", "NULL", [shape])
        with code.unlikely(code.icmp_unsigned("!=", given, rank)):
            known = code.icmp_unsigned("<=", given, i32(_MOST_RANK))
            with code.if_then(known):
                got = Sizes(sizes, code.zext(given, I64))
                self._fail(code, Status.BAD_DIMS, "shape {}", "{}", [shape, got])
            number = code.sext(given, I64)
            self._fail(code, Status.BAD_DIMS, "shape {}", "{} dims", [shape, number])

    @property
    def _check_shape(self) -> ir.Function:
        """`i32 (context, kind, entry, tensor, sizes)`."""
        return self.pool.declare("check_shape", ir.FunctionType(I32, [POINTER] * 5))

    def _define_check_shape(self) -> None:
        """That shape, strides, address and alignment are those that the program reads."""
        code = Code(self._check_shape.append_basic_block("entry"))
        _, _, entry, tensor, sizes = code.arguments
        number, empty = code.variable(I64), code.variable(I64, i64(0))
        rank = code.zext(TENSOR.load(code, entry, "rank"), I64)
        wanted = code.array(I64, rank)
        code.call(self.table.expected_shape, [entry, sizes, wanted])
        given = DLTENSOR.load(code, tensor, "shape")
        with code.repeat(rank, number) as axis:
            size = code.load(code.element(given, axis, I64), typ=I64)
            due = code.load(code.element(wanted, axis, I64), typ=I64)
            with code.unlikely(code.icmp_signed("!=", size, due)):
                self._refuse_shape(code, Sizes(wanted, rank), Sizes(given, rank))
            with code.if_then(code.icmp_signed("==", size, i64(0))):
                code.store(i64(1), empty)
        self._check_memory(code, code.icmp_signed("==", code.load(empty, typ=I64), i64(0)))
        code.ret(i32(Status.OK))

    def _check_memory(self, code: Code, has_elements: ir.Value) -> None:
        """Strides, address and alignment of a tensor that has its shape."""
        _, _, entry, tensor, _ = code.arguments
        rank = code.zext(TENSOR.load(code, entry, "rank"), I64)
        given = DLTENSOR.load(code, tensor, "shape")
        strides = DLTENSOR.load(code, tensor, "strides")
        compact = code.call(self._is_compact, [given, strides, rank])
        with code.unlikely(code.and_(has_elements, code.not_(compact))):
            rule = "elements one after the other in row-major order"
            values = [Sizes(given, rank), Sizes(strides, rank)]
            self._fail(code, Status.BAD_TENSOR, rule, "shape {} with strides {}", values)
        data = DLTENSOR.load(code, tensor, "data")
        with code.unlikely(code.and_(has_elements, code.is_null(data))):
            self._fail(code, Status.NULL_POINTER, "data", "NULL")
        offset = DLTENSOR.load(code, tensor, "byte_offset")
        alignment = code.zext(TENSOR.load(code, entry, "alignment"), I64)
        address = code.add(code.ptrtoint(data, I64), offset)
        beyond = code.and_(address, code.sub(alignment, i64(1)))
        off = code.icmp_unsigned("!=", beyond, i64(0))
        with code.unlikely(code.and_(has_elements, off)):
            rule, got = "data aligned to {} bytes", "data {} bytes beyond"
            self._fail(code, Status.BAD_TENSOR, rule, got, [alignment, beyond])

    def _refuse_shape(self, code: Code, wanted: Sizes, given: Sizes) -> None:
        """Shows the shape with the names of sizes and, where it has some, with their values."""
        entry = code.arguments[2]
        shape = self.table.address_of(code, entry, TENSOR, "shape")
        size = TENSOR.load(code, entry, "bytes")
        with code.if_then(code.icmp_signed("==", size, i64(-1))):
            rule = "shape {}, here {},"
            self._fail(code, Status.BAD_DIMS, rule, "{}", [shape, wanted, given])
        self._fail(code, Status.BAD_DIMS, "shape {}", "{}", [shape, given])

    @property
    def _is_compact(self) -> ir.Function:
        """`i1 (shape, strides, rank)`: whether elements are contiguous."""
        return self.pool.declare("is_compact", ir.FunctionType(I1, [POINTER, POINTER, I64]))

    def _define_is_compact(self) -> None:
        code = Code(self._is_compact.append_basic_block("entry"))
        shape, strides, rank = code.arguments
        number, stride = code.variable(I64), code.variable(I64, i64(1))
        code.return_if(code.is_null(strides), I1(1))
        with code.repeat(rank, number) as count:
            axis = code.sub(code.sub(rank, count), i64(1))
            size = code.load(code.element(shape, axis, I64), typ=I64)
            given = code.load(code.element(strides, axis, I64), typ=I64)
            due = code.load(stride, typ=I64)
            differs = code.icmp_signed("!=", given, due)
            code.return_if(code.and_(differs, code.icmp_signed("!=", size, i64(1))), I1(0))
            code.store(code.mul(due, size), stride)
        code.ret(I1(1))

    @property
    def _bind(self) -> ir.Function:
        """`i32 (context, tensors, dims, sizes)`: takes the free sizes out of the inputs' shapes,
        and those that no dim is alone, out of `dims`.
        """
        return self.pool.declare("bind_sizes", _TAKE)

    def _define_bind(self) -> None:
        code = Code(self._bind.append_basic_block("entry"))
        context, tensors, dims, sizes = code.arguments
        number = code.variable(I64)
        with code.repeat(self.metadata.count(code, "dims"), number) as position:
            symbol = self.table.entry(code, "symbols", position, SYMBOL)
            address = code.element(sizes, position, I64)
            given = SYMBOL.load(code, symbol, "input")
            with code.if_else(code.icmp_signed("==", given, i32(-1))) as (alone, shaped):
                with alone:
                    with code.unlikely(code.is_null(dims)):
                        name = self.table.address_of(code, symbol, SYMBOL, "name")
                        text = "run_dlpack requires dims for size {}, got NULL"
                        code.ret(
                            fail(code, context, Status.NULL_POINTER, text,
                                 [name])
                        )  # fmt: skip
                    code.store(code.load(code.element(dims, position, I64), typ=I64), address)
                with shaped:
                    tensor = code.element(tensors, code.zext(given, I64), POINTER)
                    shape = DLTENSOR.load(code, code.load(tensor, typ=POINTER), "shape")
                    axis = code.zext(SYMBOL.load(code, symbol, "axis"), I64)
                    code.store(code.load(code.element(shape, axis, I64), typ=I64), address)
        code.ret(i32(Status.OK))

    @property
    def _take(self) -> ir.Function:
        """`i32 (context, kind, entry, tensor, sizes, place)`: checks a tensor, and writes where its
        elements lie; NULL for one that the call makes.
        """
        return self.pool.declare("take_tensor", ir.FunctionType(I32, [POINTER] * 6))

    def _define_take(self) -> None:
        code = Code(self._take.append_basic_block("entry"))
        context, llvm_type, entry, tensor, sizes, address = code.arguments
        code.store(NULL, address)
        flags = TENSOR.load(code, entry, "flags")
        made = code.icmp_unsigned("!=", code.and_(flags, i32(_MADE)), i32(0))
        code.return_if(made, i32(Status.OK))
        status = code.call(self._check_shape, [context, llvm_type, entry, tensor, sizes])
        with code.unlikely(code.icmp_unsigned("!=", status, i32(Status.OK))):
            code.ret(status)
        data = DLTENSOR.load(code, tensor, "data")
        elements = code.at(data, DLTENSOR.load(code, tensor, "byte_offset"))
        # Where there are no elements there may be no address, which a program wants all the same.
        code.store(code.select(code.is_null(data), address, elements), address)
        code.ret(i32(Status.OK))

    @property
    def _describe(self) -> ir.Function:
        """`void (entry, tensor, sizes, elements)`: fills the tensor of an output that was made."""
        return self.pool.declare("describe_tensor", ir.FunctionType(VOID, [POINTER] * 4))

    def _define_describe(self) -> None:
        code = Code(self._describe.append_basic_block("entry"))
        entry, tensor, sizes, elements = code.arguments
        DLTENSOR.store(code, tensor, "data", elements)
        DLTENSOR.store(code, tensor, "strides", NULL)
        DLTENSOR.store(code, tensor, "byte_offset", i64(0))
        shape = DLTENSOR.load(code, tensor, "shape")
        code.call(self.table.expected_shape, [entry, sizes, shape])
        code.ret_void()

    def _define_run(self) -> None:
        code = self.pool.define_exported("run_dlpack", CHECK)
        context, call = code.arguments
        local = code.variable(ir.ArrayType(I64, CALL.size // 8))
        inputs, outputs, free, found = (
            self.metadata.count(code, name) for name in ("inputs", "outputs", "dims", "found")
        )
        tables = [code.array(POINTER, count) for count in (inputs, outputs)]
        all_sizes = code.add(free, found)
        sizes = code.array(I64, all_sizes)
        number = code.variable(I64)
        memory = code.variable(POINTER, NULL)
        code.return_if(code.is_null(context), i32(Status.NULL_POINTER))
        with code.if_then(code.not_(self.metadata.is_described(code))):
            text = "run_dlpack requires a model that says what it takes, got one that does not"
            code.ret(fail(code, context, Status.BAD_CALL, text))
        self._continue(code, code.call(self.pool.declare("check_head", CHECK), [context, call]))
        for side in ("input", "output"):
            self._each(code, call, side, number, None, None)
        given, dims = CALL.load(code, call, "inputs"), CALL.load(code, call, "dims")
        self._continue(code, code.call(self._bind, [context, given, dims, sizes]))
        with code.if_then(code.not_(code.is_null(dims))):
            self._copy(code, dims, sizes, free)
        self.pool.platform.call(code, "memcpy", [local, call, i64(CALL.size)])
        for field, value in zip(("inputs", "outputs", "dims"), (*tables, sizes), strict=True):
            CALL.store(code, local, field, value)
        self._continue(code, code.call(self.pool.declare("check_dims", CHECK), [context, local]))
        # Only then shapes are computed from sizes.
        for side, table in zip(("input", "output"), tables, strict=True):
            self._each(code, call, side, number, sizes, table)
        self._lend_workspace(code, local, memory)
        status = code.call(self.pool.declare(RUN, CHECK), [context, local])
        self._release(code, context, memory)
        self._continue(code, status)
        self._transfer_outputs(code, call, tables[1], sizes, number)
        with code.if_then(code.not_(code.is_null(dims))):
            self._copy(code, dims, sizes, all_sizes)
        code.ret(status)

    def _copy(self, code: Code, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        self.pool.platform.call(code, "memcpy", [target, source, code.mul(count, i64(8))])

    def _continue(self, code: Code, status: ir.Value) -> None:
        """Returns a status that is not good."""
        with code.unlikely(code.icmp_unsigned("!=", status, i32(Status.OK))):
            code.ret(status)

    def _each(
        self, code: Code, call: ir.Value, side: str, number: ir.Value, sizes: ir.Value | None,
        table: ir.Value | None,
    ) -> None:  # fmt: skip
        """Checks all tensors of a side; with sizes also their shapes, which fills the table."""
        count = self.metadata.count(code, f"{side}s")
        side_text = constant_bytes(self.module, f"{self.pool.prefix}.{side}", f"{side}\0".encode())
        context = code.arguments[0]
        tensors = CALL.load(code, call, f"{side}s")
        if sizes is None:
            with code.unlikely(is_missing(code, tensors, count)):
                text = f"run_dlpack requires a table of {{}} {side}s, got NULL"
                code.ret(fail(code, context, Status.NULL_POINTER, text, [count]))
        with code.repeat(count, number) as position:
            entry = self.table.entry(code, f"{side}s", position, TENSOR)
            tensor = code.load(code.element(tensors, position, POINTER), typ=POINTER)
            if sizes is None:
                status = code.call(self._check_tensor, [context, side_text, entry, tensor])
            else:
                address = code.element(table, position, POINTER)
                status = code.call(self._take, [context, side_text, entry, tensor, sizes, address])
            self._continue(code, status)

    def _lend_workspace(self, code: Code, call: ir.Value, memory: ir.Value) -> None:
        """Takes a workspace from the allocator where the caller has none."""
        context = code.arguments[0]
        dims = CALL.load(code, call, "dims")
        needed = code.call(self.pool.declare("workspace", WORKSPACE), [dims])
        given = CALL.load(code, call, "workspace_size")
        absent = code.and_(
            code.is_null(CALL.load(code, call, "workspace")),
            code.icmp_unsigned("==", given, i64(0)),
        )
        lacking = code.and_(absent, code.icmp_unsigned("!=", needed, i64(0)))
        with code.if_then(lacking):
            function, user = (CONTEXT.load(code, context, n)
                              for n in ("allocate", "allocator_user"))  # fmt: skip
            arguments = [user, needed, i64(WORKSPACE_ALIGNMENT)]
            taken = code.call_pointer(function, ALLOCATE, arguments)
            with code.unlikely(code.is_null(taken)):
                text = "run_dlpack requires {} bytes for its workspace, got none"
                status = Status.OUT_OF_MEMORY
                code.ret(fail(code, context, status, text, [needed]))
            code.store(taken, memory)
            CALL.store(code, call, "workspace", taken)
            CALL.store(code, call, "workspace_size", needed)

    def _release(self, code: Code, context: ir.Value, memory: ir.Value) -> None:
        taken = code.load(memory, typ=POINTER)
        with code.if_then(code.not_(code.is_null(taken))):
            function, user = (CONTEXT.load(code, context, n)
                              for n in ("release", "allocator_user"))  # fmt: skip
            code.call_pointer(function, RELEASE, [user, taken])

    def _transfer_outputs(
        self, code: Code, call: ir.Value, table: ir.Value, sizes: ir.Value, number: ir.Value
    ) -> None:
        """Fills the tensors of the outputs that the call has made."""
        tensors = CALL.load(code, call, "outputs")
        with code.repeat(self.metadata.count(code, "outputs"), number) as position:
            entry = self.table.entry(code, "outputs", position, TENSOR)
            tensor = code.load(code.element(tensors, position, POINTER), typ=POINTER)
            elements = code.load(code.element(table, position, POINTER), typ=POINTER)
            with code.if_then(self.metadata.is_made(code, position)):
                code.call(self._describe, [entry, tensor, sizes, elements])
