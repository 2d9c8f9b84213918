"""loop.program -> LLVM IR: the three hidden functions that the run time's entry points call.

    i32 <prefix>.check_sizes(ptr ctx, ptr dims)
    i64 <prefix>.workspace(ptr dims)
    i32 <prefix>.program(ptr ctx, ptr inputs, ptr outputs, ptr dims, ptr workspace)

The first says whether the sizes of a call are allowed, which the others take for granted, the
second the size of the arena in bytes. The program calls kernels, which are in modules of their own,
in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from llvmlite import ir
from xdsl.ir import BlockArgument, Operation, SSAValue

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.body import Unit
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.index import IndexEmitter
from weft.compiler.loop_to_llvm.memory.storage import Storage
from weft.compiler.loop_to_llvm.module_text import module_text
from weft.compiler.loop_to_llvm.program.calls import (
    Arrays,
    CallEmitter,
    WeightKey,
    hidden,
    is_in_arena,
    is_long,
)
from weft.compiler.loop_to_llvm.program.check_sizes import SizeChecks
from weft.compiler.loop_to_llvm.program.communicate import Communication, is_counted_in_bytes
from weft.compiler.loop_to_llvm.program.growable_buffers import GrowableMemory, copy_bytes
from weft.compiler.loop_to_llvm.program.host import Host
from weft.compiler.loop_to_llvm.program.polling import Polling
from weft.compiler.loop_to_llvm.program.size_rules import origin
from weft.compiler.loop_to_llvm.runtime import CHECK_SIZES, PROGRAM, WORKSPACE, Runtime, clipped
from weft.compiler.loop_to_llvm.runtime.message import define_message_writer
from weft.compiler.loop_to_llvm.scalar.elements import I8, I32, I64, storage_bytes
from weft.compiler.target.features import baseline
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr, maximum
from weft.dialects.extent import MOST
from weft.dialects.loop.communication import MessageOp, RankOp, StartOp, WaitOp
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dispatch import CallProgramOp
from weft.dialects.loop.dynamic import (
    BindSymbolOp,
    CopyOp,
    CurrentViewOp,
    ReallocOp,
    RequireEqualOp,
    SubviewOp,
    TransferOwnershipOp,
    output_sizes,
    root,
)
from weft.dialects.loop.effects import AssertOp, HostCallOp, NativeCallOp, PollOp, PrintOp
from weft.dialects.loop.extents import RequireExtentsOp, size_limits
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import (
    WORKSPACE_BYTES,
    CallOp,
    ProgramOp,
    ViewOp,
    WeightOp,
    nodes_of,
    size_ranges,
)
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of


def program_weights(program: ProgramOp) -> tuple[WeightKey, ...]:
    """The weights that a program uses, each once, in the order of the run time's table."""
    weights = (op for op in program.walk() if isinstance(op, WeightOp))
    return tuple(dict.fromkeys((op.key.data, buffer_type_of(op.result)) for op in weights))


def emit_program(
    program: ProgramOp,
    target: Target,
    *,
    prefix: str = "weft",
    weights: Sequence[WeightKey] | None = None,
    name: str | None = None,
    alone: bool = False,
    numbers: Mapping[CallOp, int] = MappingProxyType({}),
) -> str:
    """The LLVM IR of a program as text; weights are numbered as `weights` lists them, which may be
    more than this program's, or else as `program_weights` does. `name` starts the names of the
    functions, by default the prefix. One without a run time of its prefix stands `alone`. Calls
    with `numbers` tell the run time when they begin.
    """
    module = ir.Module(program.sym_name.data)
    module.triple = target.triple
    runtime = Runtime(module, target, prefix)
    if alone:
        define_message_writer(runtime.writer)
    _emit_check_sizes(module, program, runtime, target, name or prefix)
    _emit_workspace(module, program, target, name or prefix)
    function = hidden(module, PROGRAM, f"{name or prefix}.program")
    context, inputs, outputs, dims, workspace = function.args
    frame = _frame(function, program)
    unit = Unit(target, _sizes(frame, program, dims), context, prefix, contracts=False)
    own = program_weights(program)
    places = {key: number for number, key in enumerate(own if weights is None else weights)}
    arrays = Arrays(inputs, outputs, program.inputs.data, workspace, places)
    emitter = ProgramEmitter(frame, unit, arrays, program, numbers)
    emitter.communication.require_ranks()
    if is_long(program.body.block):
        emitter.in_parts(program.body.block)
    else:
        emitter.take_arguments()
        emitter.find_weights(own)
        emitter.block(program.body.block)
    emitter.tell_sizes(dims, len(program.symbol_names), output_sizes(program))
    emitter.finish()
    return module_text(module)


def workspace_bytes(program: ProgramOp) -> Expr:
    """The arena's size over the program's symbols: what the memory plan noted, or the last end."""
    planned = program.attributes.get(WORKSPACE_BYTES)
    if isinstance(planned, ExprsAttr):
        return planned.data[0]
    allocations = [op for op in program.walk() if isinstance(op, AllocOp) and is_in_arena(op)]
    return maximum([Expr.of(0), *dict.fromkeys(_end(op) for op in allocations)])


def _blocks(program: ProgramOp) -> int:
    """How many blocks of growable memory the memory plan made."""
    allocations = (op for op in program.walk() if isinstance(op, AllocOp))
    numbers = [_block_of(op) for op in allocations if op.scope.data == "growable"]
    return max(numbers, default=-1) + 1


def _block_of(op: AllocOp) -> int:
    number = _offset(op).constant
    assert number is not None, "a growable buffer has the number of its block"
    return number


def _offset(op: AllocOp) -> Expr:
    assert op.offset is not None, "the memory plan places every allocation of a program"
    return op.offset.data[0]


def _end(op: AllocOp) -> Expr:
    buffer_type = buffer_type_of(op.result)
    return _offset(op) + buffer_type.size * storage_bytes(buffer_type.element)


def _frame(function: ir.Function, program: ProgramOp) -> Frame:
    """A frame that knows what has been checked of the sizes of a call."""
    frame = Frame(function)
    frame.ranges |= size_limits(program.symbol_names, size_ranges(program))
    return frame


def _sizes(frame: Frame, program: ProgramOp, dims: ir.Value) -> Mapping[str, ir.Value]:
    """The values of the symbols, out of the caller's array."""
    return {
        name: frame.builder.load(_element(frame.builder, dims, position, I64), typ=I64)
        for position, name in enumerate(program.symbol_names)
    }


def _element(builder: ir.IRBuilder, array: ir.Value, position: int, llvm_type: ir.Type) -> ir.Value:
    return builder.gep(array, [ir.Constant(I64, position)], source_etype=llvm_type)


class _PlainFunction(ir.Function):
    """A function that every processor of the architecture runs."""

    def __init__(
        self, module: ir.Module, function_type: ir.FunctionType, name: str, target: Target
    ):
        super().__init__(module, function_type, name)
        self.linkage = "hidden"
        self.attributes.add("nounwind")
        self._least = baseline(target)

    def descr_prototype(self, buf: list[str]) -> None:
        super().descr_prototype(buf)
        cpu, features = self._least.cpu, self._least.feature_string
        attributes = f'"target-cpu"="{cpu}" "target-features"="{features}"'
        buf[-1] = f"{buf[-1].rstrip()} {attributes}\n"


def _emit_check_sizes(
    module: ir.Module, program: ProgramOp, runtime: Runtime, target: Target, prefix: str
) -> None:
    function = _PlainFunction(module, CHECK_SIZES, f"{prefix}.check_sizes", target)
    context, dims = function.args
    frame = Frame(function)

    def fail(status: Status, text: str, values: Sequence[ir.Value]) -> None:
        frame.builder.ret(runtime.fail(frame.builder, context, status, text, values))

    index = IndexEmitter(frame, _sizes(frame, program, dims))
    SizeChecks(program, index, fail).all_of_call()
    frame.builder.ret(ir.Constant(I32, Status.OK))
    frame.finish()


def _emit_workspace(module: ir.Module, program: ProgramOp, target: Target, prefix: str) -> None:
    function = _PlainFunction(module, WORKSPACE, f"{prefix}.workspace", target)
    frame = _frame(function, program)
    index = IndexEmitter(frame, _sizes(frame, program, function.args[0]))
    frame.builder.ret(index.uniform(workspace_bytes(program)))
    frame.finish()


class ProgramEmitter(CallEmitter):
    """Emits a program: besides the operations of a body, calls, weights, views, the arena, growable
    memory and the sizes that are found on the way.
    """

    def __init__(
        self,
        frame: Frame,
        unit: Unit,
        arrays: Arrays,
        program: ProgramOp,
        numbers: Mapping[CallOp, int],
    ):
        super().__init__(frame, unit, arrays, numbers)
        self.program = program
        self.weights: dict[WeightKey, Storage] = {}
        blocks = _blocks(program)
        self.checks = SizeChecks(program, self.index, self.fail)
        self.memory_blocks = GrowableMemory(frame, self.runtime, unit.context, self.fail, blocks)
        self.entries: dict[BlockArgument, ir.Value] = {}
        self.communication = Communication(frame, self.runtime, unit.context, program, self.fail)
        self.host = Host(frame, self.runtime, unit.context, self.fail)
        self.polling = Polling(frame, self.runtime, unit.context, self.leave)
        self._exit: ir.Block | None = None
        self._status: ir.Value | None = None

    def leave(self, status: ir.Value) -> None:
        """Ends the program, by way of the block that releases its memory if there is any."""
        builder = self.frame.builder
        if not self.memory_blocks.pointers:
            builder.ret(status)
            return
        if self._exit is None:
            self._exit = self.frame.block("exit")
            self._status = self.frame.alloca(I32, 1, 4)
        builder.store(status, self._status)
        builder.branch(self._exit)

    def fail(self, status: Status, text: str, values: Sequence[ir.Value]) -> None:
        """Ends the program with a status and its reason."""
        builder = self.frame.builder
        failure = self.runtime.fail(builder, self.unit.context, status, text, values)
        builder.position_at_end(builder.block)
        self.leave(failure)

    def finish(self) -> None:
        """Ends the program well, and the function."""
        self.leave(ir.Constant(I32, Status.OK))
        if self._exit is not None:
            self.frame.builder.position_at_end(self._exit)
            self.memory_blocks.release_all()
            self.frame.builder.ret(self.frame.builder.load(self._status, typ=I32))
        self.frame.finish()

    def tell_sizes(self, dims: ir.Value, first: int, names: Sequence[str]) -> None:
        """Writes the sizes of outputs that were found on the way to the caller's array."""
        for position, name in enumerate(names, first):
            address = _element(self.frame.builder, dims, position, I64)
            self.frame.builder.store(self.index.uniform(Expr.of(name)), address)

    def take_arguments(self) -> None:
        """Loads the pointers of all arguments out of the caller's arrays."""
        for argument in self.program.body.block.args:
            self.values[argument] = self.argument(argument)

    def entry(self, argument: BlockArgument) -> ir.Value:
        if argument not in self.entries:
            self.entries[argument] = super().entry(argument)
        return self.entries[argument]

    def find_weights(self, own: Sequence[WeightKey]) -> None:
        """Loads the pointers of the program's weights out of the context's table."""
        for key in own:
            self.weights[key] = self.weight(key)

    def define(self, op: Operation) -> None:
        self.operation(op)

    def operation(self, op: Operation) -> None:
        """Emits one operation of the program."""
        match op:
            case CallOp() | ConcurrentOp():
                self.call(op)
            case WeightOp():
                key = op.key.data, buffer_type_of(op.result)
                self.values[op.result] = self.weights.get(key) or self.weight(key)
            case ViewOp():
                source = self.storage(op.source)
                self.values[op.result] = Storage(source.pointer, buffer_type_of(op.result))
            case AllocOp() if is_in_arena(op):
                self.values[op.result] = self.address_of(op)
            case AllocOp() if op.scope.data == "growable":
                self._reserve(op, op.result)
            case _:
                self._dynamic(op)

    def _dynamic(self, op: Operation) -> None:
        match op:
            case BindSymbolOp():
                self._bind(op)
            case RequireEqualOp():
                self.checks.require_equal(op.sizes.data, Status.BAD_VALUE, _origin(op))
            case RequireExtentsOp():
                self.checks.require_extents(op, _origin(op))
            case CopyOp():
                self._copy(op)
            case StartOp() | WaitOp():
                self._communicate(op)
            case MessageOp():
                buffer, size = self.storage(op.buffer).pointer, buffer_type_of(op.buffer)
                pointer = self.frame.local(buffer)
                self.communication.message(op, pointer, self._bytes(size), _origin(op))
            case RankOp():
                self.values[op.result] = self.communication.rank(op)
            case PrintOp():
                values, sizes = self._tables(op.values)
                self.host.print(op.text.data, values, sizes)
            case HostCallOp():
                values, sizes = self._tables(op.operands)
                self.host.call(op.text.data, values, sizes, _origin(op))
            case NativeCallOp():
                pointers = [self.frame.local(self.storage(each).pointer) for each in op.operands]
                sizes = [self.index.uniform(size) for size in op.sizes.data]
                self.host.native(self.unit.prefix, op.callee, [*pointers, *sizes])
            case AssertOp():
                self._assert(op)
            case PollOp():
                self.polling.poll(self.index.uniform(op.work.data[0]))
            case SubviewOp():
                self._row(op)
            case ReallocOp():
                self._reserve(_allocation(op), op.result, keep=op.keep is not None)
            case CurrentViewOp():
                pointer = self.memory_blocks.pointer(_block_of(_allocation(op)))
                self.values[op.result] = Storage(pointer, buffer_type_of(op.result))
            case CallProgramOp():
                self._run(op)
            case TransferOwnershipOp():
                memory = self.memory_blocks.transfer_ownership(_block_of(_allocation(op)))
                assert isinstance(op.output, BlockArgument), "an output is the program's own"
                self.frame.builder.store(memory, self.entry(op.output))
            case _:
                super().operation(op)

    def _bind(self, op: BindSymbolOp) -> None:
        """Gives a size its value; what was computed from an older one is forgotten."""
        name, expr = op.size.data, self.bound(op.value)
        value = self.index.uniform(expr)
        text = f"run requires a size of 0 to {MOST} for {clipped(name)}, got {{}}"
        self.checks.require_size(value, expr, text + _origin(op))
        self.index.bind(name, value)

    def _bytes(self, buffer_type: BufferType) -> ir.Value:
        return self.index.uniform(buffer_type.size * storage_bytes(buffer_type.element))

    def _reserve(self, alloc: AllocOp, result: SSAValue, *, keep: bool = False) -> None:
        """Makes a growable buffer large enough for the result's type."""
        buffer_type = buffer_type_of(result)
        pointer = self.memory_blocks.reserve(_block_of(alloc), self._bytes(buffer_type), keep=keep)
        self.values[result] = Storage(pointer, buffer_type)

    def _copy(self, op: CopyOp) -> None:
        source, target = (self.frame.local(self.storage(b).pointer) for b in op.operands)
        builder, size = self.frame.builder, self._bytes(buffer_type_of(op.source))
        if not all(isinstance(each, BlockArgument) for each in op.operands):
            copy_bytes(builder, target, source, size)
            return
        # A donated input's memory may be the output's own.
        with builder.if_then(builder.icmp_unsigned("!=", source, target)):
            copy_bytes(builder, target, source, size)

    def _communicate(self, op: StartOp | WaitOp) -> None:
        source, target = (self.frame.local(self.storage(b).pointer) for b in (op.source, op.target))
        part = op.target if op.operation.data == "reduce_scatter" else op.source
        buffer_type = buffer_type_of(part)
        in_bytes = is_counted_in_bytes(buffer_type)
        count = self._bytes(buffer_type) if in_bytes else self.index.uniform(buffer_type.size)
        self.communication.communicate(op, source, target, count, _origin(op))

    def _tables(self, buffers: Sequence[SSAValue]) -> tuple[ir.Value, ir.Value]:
        """Where buffers lie, and the dims of all."""
        pointers = [self.storage(each).pointer for each in buffers]
        dims = [self.index.uniform(dim) for each in buffers for dim in buffer_type_of(each).shape]
        return self.frame.closure(pointers), self.frame.closure(dims)

    def _assert(self, op: AssertOp) -> None:
        """Fails where the condition does not hold."""
        builder = self.frame.builder
        held, *values = (self.value(each) for each in op.operands)
        with builder.if_then(builder.not_(held), likely=False):
            self.fail(Status.BAD_VALUE, op.text.data + _origin(op), values)

    def _row(self, op: SubviewOp) -> None:
        row = buffer_type_of(op.result)
        offset = self.index.uniform(self.bound(op.value) * row.size * storage_bytes(row.element))
        base = self.storage(op.source).pointer
        pointer = self.frame.builder.gep(base, [offset], source_etype=I8)
        self.values[op.result] = Storage(pointer, row)

    def _run(self, op: CallProgramOp) -> None:
        """Calls another program of the artifact; its failure is this one's."""
        name = f"{self.unit.prefix}.{op.program}.program"
        callee = hidden(self.frame.builder.module, PROGRAM, name)
        buffers = [self.storage(each).pointer for each in op.arguments]
        sizes = [self.index.uniform(size) for size in op.sizes.data]
        inputs = self.frame.closure(buffers[: op.inputs.data])
        outputs = self.frame.closure(buffers[op.inputs.data :])
        dims = self.frame.closure(sizes)
        arena = self.storage(op.workspace).pointer
        context = self.frame.local(self.unit.context)
        builder = self.frame.builder
        status = builder.call(callee, [context, inputs, outputs, dims, arena])
        failed = builder.icmp_signed("!=", status, ir.Constant(I32, Status.OK))
        with builder.if_then(failed, likely=False):
            self.leave(status)


def _origin(op: Operation) -> str:
    """The nodes or lines that an operation comes from, for the end of an error's text."""
    return origin(nodes_of(op))


def _allocation(op: ReallocOp | CurrentViewOp | TransferOwnershipOp) -> AllocOp:
    """The allocation whose block an operation is about."""
    alloc = root(op.source).owner
    assert isinstance(alloc, AllocOp), "growable memory comes from an allocation"
    return alloc
