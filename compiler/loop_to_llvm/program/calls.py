"""Calls of kernels in a program -> LLVM IR; of long programs, in functions of their own.

What LLVM takes for a function grows faster than its calls do. So a long run of calls becomes
functions `void (closure)` of PART calls each, which find the pointers of their buffers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from llvmlite import ir
from msgspec import Struct
from msgspec.structs import replace
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from weft.compiler.loop_to_llvm.body import BodyEmitter, Unit
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.kernel import kernel_symbol, kernel_type
from weft.compiler.loop_to_llvm.memory.storage import Storage
from weft.compiler.loop_to_llvm.program.concurrent import KernelCall, emit_branches, leave_kernels
from weft.compiler.loop_to_llvm.runtime import Runtime
from weft.compiler.loop_to_llvm.scalar.elements import I8, I64, POINTER, VOID
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import CallOp, ViewOp, WeightOp
from weft.dialects.loop.types import BufferType, buffer_type_of

LONGEST: Final = 256
"""Calls in a row that stay in the program's function: most networks have fewer. A function of 800
takes LLVM 1.7 times as long as parts do, one of 1,600 2.7 times.
"""

PART: Final = 128

WeightKey = tuple[str, BufferType]
"""The name of a tensor of the weight store, and the type whose layout it is prepared in."""

_PART_TYPE = ir.FunctionType(VOID, [POINTER])


class Arrays(Struct, frozen=True):
    """Where a program finds its buffers: the caller's arrays of inputs' and outputs' pointers, so
    many inputs, the arena, and the place of each weight in the context's table.
    """

    inputs: ir.Value
    outputs: ir.Value
    count: int
    workspace: ir.Value
    weights: Mapping[WeightKey, int]


class CallEmitter(BodyEmitter):
    """Emits calls of kernels. Buffers that it has no pointer of are looked up where they are used
    first: arguments, weights, those in the arena, and views; `others` knows all else. The run time
    is told of calls with `numbers`, and of what the program itself does between them.
    """

    def __init__(
        self,
        frame: Frame,
        unit: Unit,
        arrays: Arrays,
        numbers: Mapping[CallOp, int],
        others: Callable[[SSAValue], Storage] | None = None,
    ):
        super().__init__(frame, unit, {})
        self.arrays = arrays
        self.numbers = numbers
        self.runtime = Runtime(frame.builder.module, unit.target, unit.prefix)
        self.others = others

    # Buffers

    def storage(self, buffer: SSAValue) -> Storage:
        if buffer not in self.values:
            self.values[buffer] = self._look_up(buffer)
        return super().storage(buffer)

    def _look_up(self, buffer: SSAValue) -> Storage:
        match buffer.owner:
            case WeightOp() as weight:
                return self.weight((weight.key.data, buffer_type_of(buffer)))
            case ViewOp() as view:
                return Storage(self.storage(view.source).pointer, buffer_type_of(buffer))
            case AllocOp() as alloc if is_in_arena(alloc):
                return self.address_of(alloc)
            case Block():
                assert isinstance(buffer, BlockArgument), "only blocks' arguments are theirs"
                return self.argument(buffer)
            case _:
                assert self.others is not None, "a buffer is looked up where it is known"
                return self.others(buffer)

    def weight(self, key: WeightKey) -> Storage:
        """A weight, out of the context's table."""
        builder, context = self.frame.builder, self.frame.local(self.unit.context)
        pointer = self.runtime.weight_pointer(builder, context, self.arrays.weights[key])
        # The run time writes with a builder of its own.
        builder.position_at_end(builder.block)
        return Storage(pointer, key[1])

    def argument(self, argument: BlockArgument) -> Storage:
        """An argument of the program."""
        pointer = self.frame.builder.load(self.entry(argument), typ=POINTER)
        return Storage(pointer, buffer_type_of(argument))

    def entry(self, argument: BlockArgument) -> ir.Value:
        """Where the caller's arrays have the pointer of an argument."""
        arrays, position = self.arrays, argument.index
        is_input = position < arrays.count
        array = arrays.inputs if is_input else arrays.outputs
        entry = ir.Constant(I64, position if is_input else position - arrays.count)
        return self.frame.builder.gep(self.frame.local(array), [entry], source_etype=POINTER)

    def address_of(self, op: AllocOp) -> Storage:
        """A buffer in the arena."""
        assert op.offset is not None, "the memory plan places every allocation of a program"
        offset = self.index.uniform(op.offset.data[0])
        workspace = self.frame.local(self.arrays.workspace)
        with self.frame.hoisted(0) as builder:
            pointer = builder.gep(workspace, [offset], source_etype=I8)
        return Storage(pointer, buffer_type_of(op.result))

    # Calls

    def call(self, op: CallOp | ConcurrentOp) -> None:
        """Calls a kernel, or several side by side."""
        if isinstance(op, ConcurrentOp):
            self._concurrent(op)
            return
        self._prepared(op).emit(self.frame, self.runtime, self.unit.context)
        if op in self.numbers and not isinstance(_next_work(op), CallOp):
            leave_kernels(self.frame, self.runtime, self.unit.context)

    def _prepared(self, op: CallOp) -> KernelCall:
        name = kernel_symbol(self.unit.prefix, op.kernel)
        module = self.frame.builder.module
        callee = module.globals.get(name)
        if callee is None:
            callee = hidden(module, kernel_type(len(op.sizes.data), len(op.arguments)), name)
        sizes = [self.index.uniform(size) for size in op.sizes.data]
        buffers = [self.frame.local(self.storage(each).pointer) for each in op.arguments]
        return KernelCall(callee, [*sizes, *buffers], op.kernel, self.numbers.get(op))

    def _concurrent(self, op: ConcurrentOp) -> None:
        """Finds the buffers and sizes of all branches, then runs these."""
        branches: list[list[KernelCall]] = []
        for branch in op.branches:
            branches.append([])
            for inner in branch.block.ops:
                if isinstance(inner, CallOp):
                    branches[-1].append(self._prepared(inner))
                else:
                    self.define(inner)
        threads = op.least.data, op.most.data
        emit_branches(self.frame, self.runtime, self.unit.context, branches, threads)

    def define(self, op: Operation) -> None:
        """Says where a buffer is stored; by default that is looked up later."""

    # Parts

    def in_parts(self, block: Block) -> None:
        """Emits a program's block, its long runs of calls in functions of their own."""
        for run in runs(block):
            calls = [op for op in run if isinstance(op, CallOp | ConcurrentOp)]
            if sum(map(_calls, calls)) > LONGEST:
                for start in range(0, len(calls), PART):
                    self._part(calls[start : start + PART])
            elif is_plain(run[0]):
                for call in calls:
                    self.call(call)
            else:
                self._find_outside(run[0])
                self.operation(run[0])

    def _part(self, calls: Sequence[CallOp | ConcurrentOp]) -> None:
        """Emits calls into a function, and calls that."""
        module = self.frame.builder.module
        name = module.get_unique_name(f"{self.frame.function.name}.part")
        function = ir.Function(module, _PART_TYPE, name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        frame = Frame(function, self.frame)
        unit = replace(self.unit, sizes=self.index.sizes)
        part = CallEmitter(frame, unit, self.arrays, self.numbers, self.storage)
        for call in calls:
            part.call(call)
        frame.builder.ret_void()
        frame.finish()
        self.frame.builder.call(function, [self.frame.closure(frame.captured)])

    def _find_outside(self, op: Operation) -> None:
        """Finds the buffers that an operation takes from around it, where all of it sees them."""
        inside = {value for inner in op.walk() for value in inner.results}
        for inner in op.walk():
            for value in inner.operands:
                known = value in inside or (isinstance(value.owner, Block) and _is_in(value, op))
                if not known and isinstance(value.type, BufferType):
                    self.storage(value)


def _is_in(argument: SSAValue, op: Operation) -> bool:
    """Whether a block in an operation has the argument."""
    outer = argument.owner.parent_op()
    while outer is not None and outer is not op:
        outer = outer.parent_op()
    return outer is op


def is_long(block: Block) -> bool:
    """Whether a program has so many calls in a row that they are emitted in parts."""
    return any(sum(map(_calls, run)) > LONGEST for run in runs(block))


def runs(block: Block) -> Iterator[list[Operation]]:
    """The operations of a block: those that call kernels or say where buffers are stored come
    together, each other one by itself.
    """
    run: list[Operation] = []
    for op in block.ops:
        if is_plain(op):
            run.append(op)
            continue
        if run:
            yield run
            run = []
        yield [op]
    if run:
        yield run


def is_plain(op: Operation) -> bool:
    """Whether an operation calls kernels, or says where a buffer is stored."""
    if isinstance(op, AllocOp):
        return is_in_arena(op)
    return isinstance(op, CallOp | ConcurrentOp | ViewOp | WeightOp)


def _next_work(op: Operation) -> Operation | None:
    """The next operation of the block that does something when it is run."""
    following = op.next_op
    while following is not None and is_plain(following) and not _calls(following):
        following = following.next_op
    return following


def _calls(op: Operation) -> int:
    if isinstance(op, ConcurrentOp):
        return sum(isinstance(inner, CallOp) for inner in op.walk())
    return int(isinstance(op, CallOp))


def is_in_arena(op: AllocOp) -> bool:
    """Whether the memory plan has given a buffer a place in the workspace."""
    return op.scope.data == "workspace"


def hidden(module: ir.Module, function_type: ir.FunctionType, name: str) -> ir.Function:
    """A function that only the artifact sees."""
    function = ir.Function(module, function_type, name)
    function.linkage = "hidden"
    function.attributes.add("nounwind")
    return function
