"""loop.program -> LLVM IR: the two hidden functions that the run time's entry points call.

    i32 <prefix>.program(ptr ctx, ptr inputs, ptr outputs, ptr dims, ptr workspace)
    i64 <prefix>.workspace(ptr dims)

The program calls kernels, which are in modules of their own, in order; the other gives its arena's
size in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from compiler.loop_to_llvm.body import BodyEmitter, Unit
from compiler.loop_to_llvm.elements import I8, I32, I64, POINTER, storage_bytes
from compiler.loop_to_llvm.frame import Frame
from compiler.loop_to_llvm.index import IndexEmitter
from compiler.loop_to_llvm.kernel import kernel_symbol, kernel_type
from compiler.loop_to_llvm.memory import Storage
from compiler.loop_to_llvm.runtime import PROGRAM, WORKSPACE, Runtime, Status
from compiler.target.target import Target
from dialects.expr import Expr, Extremum, maximum
from dialects.loop.ops import AllocOp
from dialects.loop.program import EQUAL_SIZES, WORKSPACE_BYTES, CallOp, ProgramOp, ViewOp, WeightOp
from dialects.loop.types import BufferType, ExprsAttr, buffer_type

WeightKey = tuple[str, BufferType]
"""The name of a tensor of the weight store, and the type whose layout it is prepared in."""


def program_weights(program: ProgramOp) -> tuple[WeightKey, ...]:
    """The weights that a program uses, each once, in the order of the run time's table."""
    weights = (op for op in program.walk() if isinstance(op, WeightOp))
    return tuple(dict.fromkeys((op.key.data, buffer_type(op.result)) for op in weights))


def emit_program(program: ProgramOp, target: Target, *, prefix: str = "weft") -> str:
    """The LLVM IR of a program as text; weights are numbered as `program_weights` lists them."""
    module = ir.Module(program.sym_name.data)
    module.triple = target.triple
    _emit_workspace(module, program, prefix)
    function = _hidden(module, PROGRAM, f"{prefix}.program")
    context, inputs, outputs, dims, workspace = function.args
    frame = Frame(function)
    unit = Unit(target, _sizes(frame, program, dims), context, prefix, contracts=False)
    emitter = ProgramEmitter(frame, unit, workspace)
    emitter.check_sizes(program)
    arguments = program.body.block.args
    read = program.inputs.data
    emitter.take(inputs, arguments[:read])
    emitter.take(outputs, arguments[read:])
    emitter.find_weights(program_weights(program))
    emitter.block(program.body.block)
    frame.builder.ret(ir.Constant(I32, 0))
    frame.finish()
    return str(module)


def workspace_bytes(program: ProgramOp) -> Expr:
    """The arena's size over the program's symbols: what the memory plan noted, or the last end."""
    planned = program.attributes.get(WORKSPACE_BYTES)
    if isinstance(planned, ExprsAttr):
        return planned.data[0]
    allocations = [op for op in program.walk() if isinstance(op, AllocOp) and _in_arena(op)]
    return maximum([Expr.of(0), *dict.fromkeys(_end(op) for op in allocations)])


def _in_arena(op: AllocOp) -> bool:
    return op.scope.data == "workspace"


def _offset(op: AllocOp) -> Expr:
    assert op.offset is not None, "the memory plan places every allocation of a program"
    return op.offset.data[0]


def _end(op: AllocOp) -> Expr:
    kind = buffer_type(op.result)
    return _offset(op) + kind.size * storage_bytes(kind.element)


def _hidden(module: ir.Module, kind: ir.FunctionType, name: str) -> ir.Function:
    function = ir.Function(module, kind, name)
    function.linkage = "hidden"
    function.attributes.add("nounwind")
    return function


def _sizes(frame: Frame, program: ProgramOp, dims: ir.Value) -> Mapping[str, ir.Value]:
    """The values of the symbols, out of the caller's array."""
    return {
        name: frame.builder.load(_element(frame.builder, dims, position, I64), typ=I64)
        for position, name in enumerate(program.symbol_names)
    }


def _element(builder: ir.IRBuilder, array: ir.Value, position: int, kind: ir.Type) -> ir.Value:
    return builder.gep(array, [ir.Constant(I64, position)], source_etype=kind)


def _emit_workspace(module: ir.Module, program: ProgramOp, prefix: str) -> None:
    function = _hidden(module, WORKSPACE, f"{prefix}.workspace")
    frame = Frame(function)
    index = IndexEmitter(frame, _sizes(frame, program, function.args[0]))
    frame.builder.ret(index.uniform(workspace_bytes(program)))
    frame.finish()


def _rule(first: Expr, second: Expr) -> tuple[str, list[Expr]]:
    """That two sizes are equal, in words, and the sizes to show where they are not;
    `min(512, n) = n` is a bound of `n`.
    """
    for bound, size in ((first, second), (second, first)):
        atom = next((atom for term in bound.terms for atom in term), None)
        if isinstance(atom, Extremum) and bound == Expr.of(atom) and size in atom.operands:
            others = " and ".join(str(expr) for expr in atom.operands if expr != size)
            kind = "most" if atom.kind == "min" else "least"
            return f"run requires {size} to be at {kind} {others}, got {{}}", [size]
    return f"run requires sizes {first} = {second}, got {{}} and {{}}", [first, second]


class ProgramEmitter(BodyEmitter):
    """Emits a program: besides the operations of a body, calls, weights, views and the arena."""

    def __init__(self, frame: Frame, unit: Unit, workspace: ir.Value):
        super().__init__(frame, unit, {})
        self.workspace = workspace
        self.weights: dict[WeightKey, Storage] = {}

    def take(self, array: ir.Value, arguments: Sequence[SSAValue]) -> None:
        """Binds arguments to the pointers of an array of the caller's."""
        builder = self.frame.builder
        for position, argument in enumerate(arguments):
            pointer = builder.load(_element(builder, array, position, POINTER), typ=POINTER)
            self.values[argument] = Storage(pointer, buffer_type(argument))

    def check_sizes(self, program: ProgramOp) -> None:
        """Returns with an error text where two sizes differ that the program takes to be equal."""
        pairs = program.attributes.get(EQUAL_SIZES)
        runtime = Runtime(self.frame.builder.module, self.unit.target, self.unit.prefix)
        for pair in pairs if isinstance(pairs, ArrayAttr) else ():
            assert isinstance(pair, ExprsAttr), "sizes come in pairs of expressions"
            text, shown = _rule(*pair.data)
            first, second = (self.index.uniform(size) for size in pair.data)
            values = [self.index.uniform(size) for size in shown]
            builder = self.frame.builder
            with builder.if_then(builder.icmp_signed("!=", first, second), likely=False):
                status = Status.BAD_DIMS
                builder.ret(runtime.fail(builder, self.unit.context, status, text, values))

    def find_weights(self, weights: Sequence[WeightKey]) -> None:
        """Loads the pointers of all weights from the context, in the order of its table."""
        builder, context = self.frame.builder, self.unit.context
        runtime = Runtime(builder.module, self.unit.target, self.unit.prefix)
        for number, key in enumerate(weights):
            pointer = runtime.weight_pointer(builder, context, number)
            # The run time writes with a builder of its own.
            builder.position_at_end(builder.block)
            self.weights[key] = Storage(pointer, key[1])

    def operation(self, op: Operation) -> None:
        """Emits one operation of the program."""
        match op:
            case CallOp():
                self._call(op)
            case WeightOp():
                self.values[op.result] = self.weights[op.key.data, buffer_type(op.result)]
            case ViewOp():
                source = self.storage(op.source)
                self.values[op.result] = Storage(source.pointer, buffer_type(op.result))
            case AllocOp() if _in_arena(op):
                self.values[op.result] = self._place(op)
            case _:
                super().operation(op)

    def _call(self, op: CallOp) -> None:
        name = kernel_symbol(self.unit.prefix, op.kernel)
        module = self.frame.builder.module
        callee = module.globals.get(name)
        if callee is None:
            callee = _hidden(module, kernel_type(len(op.sizes.data), len(op.arguments)), name)
        sizes = [self.index.uniform(size) for size in op.sizes.data]
        buffers = [self.frame.local(self.storage(each).pointer) for each in op.arguments]
        self.frame.builder.call(callee, [self.frame.local(self.unit.context), *sizes, *buffers])

    def _place(self, op: AllocOp) -> Storage:
        offset = self.index.uniform(_offset(op))
        with self.frame.hoisted(0) as builder:
            pointer = builder.gep(self.workspace, [offset], source_etype=I8)
        return Storage(pointer, buffer_type(op.result))
