"""The walk over a body: loops, branches, accesses and scalar operations become LLVM IR, vector
loops by widening.

Inside a vector loop a value is uniform, a scalar, or varying, a vector of one element a lane. Index
values are expressions (`weft.dialects.expr`) over counters of loops, lane numbers and sizes until
an access or an operation needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llvmlite import ir
from msgspec import Struct
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.loop_to_llvm.control import ControlEmitter, Iteration
from weft.compiler.loop_to_llvm.dot_product import DotProductEmitter
from weft.compiler.loop_to_llvm.frame import Frame, LaneNumber, LaneValues
from weft.compiler.loop_to_llvm.index import IndexEmitter, varies
from weft.compiler.loop_to_llvm.matrix_product import MatrixEmitter, TileRegisters
from weft.compiler.loop_to_llvm.memory.address_parts import AddressParts
from weft.compiler.loop_to_llvm.memory.emitter import MemoryEmitter
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage, is_row, padded
from weft.compiler.loop_to_llvm.parallel import BODY_TYPE, grain
from weft.compiler.loop_to_llvm.runtime.platform import Platform
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.scalar.arithmetic import Arithmetic, emit_constant
from weft.compiler.loop_to_llvm.scalar.elements import (
    I64,
    POINTER,
    intrinsic,
    lanes_of,
    read_clock,
    splat,
)
from weft.compiler.loop_to_llvm.scalar.fused_multiply_add import fused_product, is_fused
from weft.compiler.loop_to_llvm.stack import Stack
from weft.compiler.loop_to_llvm.stack_slots import StackSlots
from weft.compiler.loop_to_llvm.transpose import TransposeEmitter, block_of
from weft.compiler.target.target import Target
from weft.dialects.expr import Atom, Expr, maximum
from weft.dialects.expr_text import is_value
from weft.dialects.loop.arithmetic import ClockOp, IndexOp
from weft.dialects.loop.ops import (
    AccessOp,
    AllocOp,
    ConditionOp,
    ForOp,
    IfOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    SubscriptedOp,
    WhileOp,
)
from weft.dialects.loop.types import BufferType


class Unit(Struct, frozen=True, eq=False):
    """What all functions of a kernel share: sizes, the run time's context, and how to compile for
    which target.

    `contracts`: a product and a sum may become one operation. `widest` is the most lanes that any
    of the kernel's loops has. `guarded`: functions trap that write beside their buffers.
    `has_tiles`: some loop multiplies matrices in registers that hold tiles.
    """

    target: Target
    sizes: Mapping[str, ir.Value]
    context: ir.Value
    prefix: str
    contracts: bool
    widest: int = 1
    guarded: bool = False
    has_tiles: bool = False


class BodyEmitter:
    """Emits operations into one frame; an outlined loop body gets an emitter of its own."""

    def __init__(self, frame: Frame, unit: Unit, values: dict[SSAValue, ir.Value | Expr | Storage]):
        self.frame = frame
        self.unit = unit
        self.values = values
        self.index = IndexEmitter(frame, unit.sizes)
        self.memory = MemoryEmitter(self.index)
        self.control = ControlEmitter(self.index)
        self.arithmetic = Arithmetic(frame.builder, unit.target, unit.contracts)
        self.stack_slots = StackSlots()
        self.stack = Stack(frame, guarded=unit.guarded)
        self.tiles = MatrixEmitter(
            self.memory,
            unit.target,
            self.control,
            TileRegisters(frame, used=unit.has_tiles),
            self._locate_access,
            self._extent,
            self._start,
            self.operation,
        )
        self.addresses: dict[SubscriptedOp, AddressParts] = {}
        self.extents: dict[tuple[ForOp | Expr, ...], Expr] = {}
        self.chunks: dict[tuple[Expr, int], tuple[Expr, Expr]] = {}
        self.lanes: Lanes | None = None
        self.in_parallel = frame.outer is not None
        self.emitters: Mapping[type[Operation], Callable[[Any], None]] = {
            ForOp: self._for,
            LoadOp: self._load,
            StoreOp: self._store,
            PrefetchOp: self._prefetch,
            IndexOp: self._index,
            ClockOp: self._clock,
            AllocOp: self._alloc,
            IfOp: self._if,
            WhileOp: self._while,
            arith.ConstantOp: self._constant,
        }

    def block(self, block: Block) -> None:
        """Emits the operations of a block in order."""
        for op in block.ops:
            self.operation(op)

    def finish(self) -> None:
        """Ends the function."""
        self.memory.finish(self.unit.target)
        self.tiles.registers.release()
        self.stack.check()
        self.frame.builder.ret_void()
        self.frame.finish()

    def operation(self, op: Operation) -> None:
        """Emits one operation."""
        self.emitters.get(type(op), self._scalar)(op)

    def _load(self, op: LoadOp) -> None:
        storage = self.storage(op.buffer)
        self._define(op.result, self.memory.load(storage, self._address(op, storage), self.lanes))

    def _store(self, op: StoreOp) -> None:
        storage = self.storage(op.buffer)
        address, past = self._address(op, storage), op.nontemporal is not None
        self.memory.store(storage, address, self.value(op.value), self.lanes, nontemporal=past)

    def _prefetch(self, op: PrefetchOp) -> None:
        storage, locality = self.storage(op.buffer), op.locality or IntAttr(3)
        self.memory.prefetch(storage, self._address(op, storage), self.lanes, locality.data)

    # Values

    def _index(self, op: IndexOp) -> None:
        self.values[op.result] = self.bound(op.value)

    def _clock(self, op: ClockOp) -> None:
        self.values[op.result] = read_clock(self.frame.builder, self.unit.target)

    def value(self, ssa: SSAValue) -> ir.Value:
        """A value in a register: a scalar, or a vector where it varies."""
        value = self.values[ssa]
        assert not isinstance(value, Storage), f"{ssa} is a buffer and no value"
        if not isinstance(value, Expr):
            return self.frame.local(value)
        if varies(value):
            assert self.lanes is not None, "an index varies only inside a vector loop"
            return self.index.lanes(value, self.lanes.count)
        return self.index.uniform(value)

    def _define(self, result: SSAValue, value: ir.Value) -> None:
        if not isinstance(result.type, IndexType):
            self.values[result] = value
        elif lanes_of(value):
            self.values[result] = Expr.atom(LaneValues(value, self.frame.number()))
        else:
            self.values[result] = Expr.atom(self.frame.atom(value))

    def storage(self, buffer: SSAValue) -> Storage:
        storage = self.values[buffer]
        assert isinstance(storage, Storage), f"{buffer} is a value and no buffer"
        return storage

    def _index_value(self, ssa: SSAValue) -> Expr:
        value = self.values[ssa]
        assert isinstance(value, Expr), f"a subscript uses index values only, not {ssa}"
        return value

    def bound(self, expr: Expr) -> Expr:
        """An expression over SSA values as one over what is known here."""
        known: dict[Atom, Expr] = {
            atom: self._index_value(atom) for atom in expr.atoms() if is_value(atom)
        }
        return expr.substitute(known, self.frame.ranges)

    def _address(self, op: SubscriptedOp, storage: Storage) -> Expr:
        """The position in storage."""
        parts = self.addresses.get(op)
        if parts is None:
            address, values = storage.type.address(op.subscripts.data), list(op.operands_)
            parts = self.addresses[op] = AddressParts(address, values, self.frame.ranges)
        return parts.at(self.values)

    def _constant(self, op: arith.ConstantOp) -> None:
        if isinstance(op.result.type, IndexType):
            assert isinstance(op.value, IntegerAttr)
            self.values[op.result] = Expr.of(op.value.value.data)
        else:
            self.values[op.result] = emit_constant(op)

    def _scalar(self, op: Operation) -> None:
        if self.unit.contracts:
            if is_fused(op):
                return
            product = fused_product(op)
            if product is not None:
                self._define(op.results[0], self._contract(op, product))
                return
        operands = self._alike([self.value(operand) for operand in op.operands])
        self._define(op.results[0], self.arithmetic.emit(op, operands))

    def _alike(self, operands: list[ir.Value]) -> list[ir.Value]:
        """The operands, with scalars spread over lanes where another one is a vector."""
        lanes = max(map(lanes_of, operands), default=0)
        return [splat(self.frame.builder, operand, lanes) for operand in operands]

    def _contract(self, op: Operation, product: arith.MulfOp) -> ir.Value:
        first = op.operands[0] is product.result
        rest = op.operands[1 if first else 0]
        x, y, z = self._alike([self.value(v) for v in (product.lhs, product.rhs, rest)])
        if isinstance(op, arith.SubfOp):
            if first:
                z = self.frame.builder.fneg(z)
            else:
                x = self.frame.builder.fneg(x)
        return self.arithmetic.fma(x, y, z)

    # Allocations

    def _alloc(self, op: AllocOp) -> None:
        self.values[op.result] = self._allocate(op)

    def _allocate(self, op: AllocOp) -> Storage:
        assert op.scope.data != "workspace", "a kernel gets workspace as an argument"
        result_type = op.result.type
        assert isinstance(result_type, BufferType)
        registers = op.scope.data == "registers"
        if registers or is_row(result_type, self.unit.widest):
            result_type = padded(result_type, self.unit.widest)
        before = self.stack_slots.before(op)
        held = None if before is None else self.storage(before.result).pointer
        pointer = held or self.stack.allocate(result_type, self.unit.widest)
        return Storage(pointer, result_type, private=True, registers=registers)

    # Loops

    def _for(self, op: ForOp) -> None:
        if op.parallel is not None and not self.in_parallel and self._pays(op):
            self._parallel(op)
        elif op.vector is not None and op.vector.data > 1 and not self._is_single(op):
            self._vector(op)
        elif self._transposes(op) or self._is_dot(op) or self.tiles.emit(op):
            return
        elif op.unroll is not None:
            count = self._extent(op).constant
            assert count is not None, f"an unrolled loop has a constant extent, not {op.extent}"
            for number in range(count):
                self._iteration(op, Expr.of(number))
        else:
            self._count(op, partial(self.control.count, self._extent(op)))

    def _extent(self, op: ForOp) -> Expr:
        """The loop's iterations, which most of those of an unrolled loop around it have alike."""
        key = op, *(self._index_value(value) for value in op.operands_)
        if key not in self.extents:
            extent = (self.bound(op.upper) - self.bound(op.lower)).ceildiv(op.step.data)
            self.extents[key] = extent.simplify(self.frame.ranges)
        return self.extents[key]

    def _is_single(self, op: ForOp) -> bool:
        """Whether a vector would hold one iteration at most, which may store to one element."""
        most = self._extent(op).range(self.frame.ranges)[1]
        return op.unroll is None and most is not None and most <= 1

    def _start(self, op: ForOp, number: Expr) -> None:
        self.values[op.index] = self.bound(op.lower) + number * op.step.data

    def _iteration(self, op: ForOp, number: Expr) -> None:
        self._start(op, number)
        self.block(op.body.block)

    def _vector(self, op: ForOp) -> None:
        """Emits whole vectors, then the other iterations as the first lanes of a masked one."""
        full, rest = self._chunks(op)
        if op.unroll is None:
            self.control.count(full, lambda chunk: self._chunk(op, chunk, Lanes))
        elif full.constant is None or rest.constant is None:
            self._masked_chunks(op)
            return
        else:
            for number in range(full.constant):
                self._chunk(op, Expr.of(number), Lanes)
        self._rest(op, full, rest)

    def _masked_chunks(self, op: ForOp) -> None:
        """Emits the most vectors that a loop of varying length has, without a branch."""
        assert op.vector is not None
        extent, lanes = self._extent(op), op.vector.data
        most = extent.range(self.frame.ranges)[1]
        assert most is not None, f"an unrolled loop has a bounded extent, not {extent}"
        for chunk in range(-(-most // lanes)):
            left = extent - chunk * lanes
            self._chunk(op, Expr.of(chunk), partial(self.memory.first_lanes, active=left))

    def _transposes(self, op: ForOp) -> bool:
        """Emits a loop as a block that is turned in registers, if it is one."""
        block = block_of(op) if op.unroll is not None and self.lanes is None else None
        if block is None:
            return False
        extents = self._extent(block.outer), self._extent(block.inner)
        return TransposeEmitter(self.memory, block, extents, self._locate_access).emit()

    def _is_dot(self, op: ForOp) -> bool:
        """Emits a loop as one dot product in each lane, if it is one and lanes fill a register."""
        if op.dot is None or self.lanes is None:
            return False
        emitter = DotProductEmitter(self.memory, self.unit.target, self.lanes)
        return emitter.emit(op, self.bound(op.lower), self._locate_access)

    def _count(self, op: ForOp, emit: Callable[[Iteration], None]) -> None:
        """Emits a loop, which stores the tiles that registers hold an iteration later."""
        with self.tiles.stored_late(op):
            emit(lambda number: self._iteration(op, number))

    def _locate_access(
        self, op: AccessOp, indices: Mapping[SSAValue, Expr]
    ) -> tuple[Storage, Expr]:
        """Where an access is in the iterations of these indices."""
        self.values.update(indices)
        storage = self.storage(op.buffer)
        return storage, self._address(op, storage)

    def _chunks(self, op: ForOp) -> tuple[Expr, Expr]:
        """How many whole vectors a loop has, and how many iterations are left."""
        assert op.vector is not None
        extent, ranges = self._extent(op), self.frame.ranges
        key = extent, op.vector.data
        if key not in self.chunks:
            least, _ = extent.range(ranges)
            if least is None or least < 0:
                # Of a negative extent the remainder would be positive.
                extent = maximum([extent, 0])
            parts = extent // op.vector.data, extent % op.vector.data
            self.chunks[key] = parts[0].simplify(ranges), parts[1].simplify(ranges)
        return self.chunks[key]

    def _chunk(self, op: ForOp, chunk: Expr, lanes: Callable[[LaneNumber], Lanes]) -> None:
        """Emits one vector's worth of iterations."""
        assert self.lanes is None, "a vector loop holds no other one"
        assert op.vector is not None
        number = self.frame.lane_number(op.vector.data)
        self.lanes = lanes(number)
        self._iteration(op, chunk * number.lanes + Expr.atom(number))
        self.lanes = None

    def _rest(self, op: ForOp, full: Expr, rest: Expr) -> None:
        if rest.constant is None:
            with self.control.when(self.index.is_positive(rest), "rest"):
                self._chunk(op, full, partial(self.memory.first_lanes, active=rest))
        elif rest.constant:
            self._chunk(op, full, partial(self.memory.first_lanes, active=rest))

    # Branches

    def _if(self, op: IfOp) -> None:
        condition = self.value(op.condition)
        assert not lanes_of(condition), "a branch inside a vector loop takes one way for all lanes"
        with self.control.when(condition, "then"):
            self.block(op.then.block)
        if op.otherwise.block.ops:
            with self.control.when(self.frame.builder.not_(condition), "else"):
                self.block(op.otherwise.block)

    def _while(self, op: WhileOp) -> None:
        def condition() -> ir.Value:
            *operations, last = op.condition.block.ops
            assert isinstance(last, ConditionOp)
            for inner in operations:
                self.operation(inner)
            holds = self.value(last.condition)
            assert not lanes_of(holds), "a while inside a vector loop ends for all lanes at once"
            return holds

        self.control.repeat(condition, lambda: self.block(op.body.block))

    # Parallel loops

    def _pays(self, op: ForOp) -> bool:
        """Whether a parallel loop may have work for two threads."""
        _, most = self._tasks(op).range(self.frame.ranges)
        enough, _ = self.bound(grain(op)).range(self.frame.ranges)
        return most is None or enough is None or most > enough

    def _tasks(self, op: ForOp) -> Expr:
        extent = self._extent(op)
        return extent if op.vector is None else extent.ceildiv(op.vector.data)

    def _parallel(self, op: ForOp) -> None:
        """Outlines the body and hands it to the run time with a closure of what it uses."""
        module = self.frame.builder.module
        name = module.get_unique_name(f"{self.frame.function.name}.parallel")
        function = ir.Function(module, BODY_TYPE, name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        tasks = self._tasks(op)
        count, enough = self.index.uniform(tasks), self.index.uniform(self.bound(grain(op)))
        inner = BodyEmitter(Frame(function, self.frame), self.unit, self.values)
        inner.part(op, tasks)
        closure = self.frame.closure(inner.frame.captured)
        body = self.frame.builder.bitcast(function, POINTER)
        context = self.frame.local(self.unit.context)
        # Kernels know the pool alone: an object asks for each name that is declared in its module.
        pool = Pool(module, Platform(self.unit.target), self.unit.prefix)
        self.frame.builder.call(pool.parallel_for, [context, count, enough, body, closure])
        self.tiles.registers.forget()

    def part(self, op: ForOp, tasks: Expr) -> None:
        """Emits an outlined function: the tasks from its second argument to its third."""
        _, begin, end = self.frame.function.args
        _, high = tasks.range(self.frame.ranges)
        bounds = (0, None if high is None else high - 1)
        if op.vector is None:
            self._count(op, partial(self.control.loop, begin, end, bounds))
        else:
            self._vector_part(op, begin, end, bounds)
        self.finish()

    def _vector_part(
        self, op: ForOp, begin: ir.Value, end: ir.Value, bounds: tuple[int, int | None]
    ) -> None:
        full, rest = self._chunks(op)
        builder, last = self.frame.builder, self.index.uniform(full)
        whole = intrinsic(builder, "smin", I64, [end, last], I64)
        self.control.loop(begin, whole, bounds, lambda chunk: self._chunk(op, chunk, Lanes))
        if rest.constant != 0:
            with self.control.when(builder.icmp_signed(">", end, last), "part"):
                self._rest(op, full, rest)
