"""The oracle of the loop level: runs kernels and programs on NumPy arrays, an operation at a time.

A kernel becomes Python source with one line per operation, so it runs in the order that it is
written in. Arrays are logical: they are brought into the storage that the buffer's layout describes
and back. Storage that nobody wrote holds NaN or a conspicuous number, and subscripts out of bounds
raise.

With `scramble`, loops that are marked parallel run backwards: what the mark promises not to matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from tests.compiler.loop.scalar_functions import (
    FUNCTIONS,
    compare_floats,
    compare_integers,
    float_to_integer,
)
from weft.dialects.expr import Atom, Expr, Extremum, Monomial, Operand, Quotient, Remainder, Symbol
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import FLOATS, NARROW_FLOATS
from weft.dialects.loop.arithmetic import FieldOp, IndexOp
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dynamic import (
    BindSymbolOp,
    CopyOp,
    CurrentViewOp,
    ReallocOp,
    RequireEqualOp,
    SubviewOp,
    TransferOwnershipOp,
    is_given,
)
from weft.dialects.loop.ops import (
    AccessOp,
    AllocOp,
    ConditionOp,
    ForOp,
    IfOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    WhileOp,
)
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, ViewOp, WeightOp
from weft.dialects.loop.types import BufferType, LayoutAttr, buffer, buffer_type_of, is_integer
from weft.dialects.weights import WeightStore

Array = np.ndarray[Any, Any]

_FLOATS: dict[Attribute, np.dtype[Any]] = {
    element: numpy_dtype(element) for element in FLOATS + NARROW_FLOATS
}


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """NumPy's type of an element type."""
    if element in _FLOATS:
        return _FLOATS[element]
    assert is_integer(element), f"no arrays of {element}"
    if element.width.data == 1:
        return np.dtype(bool)
    if element.width.data < 8:
        return numpy_dtype(element)
    sign = "u" if element.signedness.data == Signedness.UNSIGNED else "i"
    return np.dtype(f"{sign}{element.width.data // 8}")


def register_dtype(element: Attribute) -> np.dtype[Any]:
    """NumPy's type of such a value in a register: integers are signless there, here signed.

    Those of 2 and 4 bits are bytes, with the sign in all upper bits.
    """
    if _is_short(element):
        return np.dtype(np.int8)
    dtype = dtype_of(element)
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" else dtype


def run_kernel(
    kernel: KernelOp, *arrays: Array, scramble: bool = False, **sizes: int
) -> tuple[Array, ...]:
    """Runs the kernel on copies of the logical arrays and returns them."""
    types = [buffer_type_of(argument) for argument in kernel.body.block.args]
    storages = [_pack(array, type, sizes) for array, type in zip(arrays, types, strict=True)]
    translate(kernel, scramble)(*storages, **sizes)
    return tuple(_unpack(s, type, sizes) for s, type in zip(storages, types, strict=True))


def run_program(
    module: ModuleOp, *inputs: Array, weights: WeightStore | None = None, **sizes: int
) -> tuple[Array, ...]:
    """Runs the module's program on its inputs and returns its outputs."""
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    functions = {
        op.sym_name.data: translate(op, False) for op in module.ops if isinstance(op, KernelOp)
    }
    types = [buffer_type_of(argument) for argument in program.body.block.args]
    storages = [_pack(array, type, sizes) for array, type in zip(inputs, types, strict=False)]
    made = [is_given(program, argument) for argument in program.body.block.args]
    storages += [
        np.empty(0) if made[position] else allocate(types[position], sizes)
        for position in range(len(inputs), len(types))
    ]
    given: dict[int, Array] = {}
    translate(program, False, functions, weights, given)(*storages, **sizes)
    return tuple(
        given[position].view(dtype_of(types[position].element))
        if made[position]
        else _unpack(storages[position], types[position], sizes)
        for position in range(program.inputs.data, len(types))
    )


def _sizes_of(exprs: Sequence[Expr], sizes: Mapping[str, int]) -> tuple[int, ...]:
    values: dict[Atom, int] = {Symbol(name): value for name, value in sizes.items()}
    return tuple(expr.evaluate(values) for expr in exprs)


def allocate(type: BufferType, sizes: Mapping[str, int]) -> Array:
    """Storage that nobody has written yet, as registers see its elements."""
    dtype = register_dtype(type.element)
    garbage = np.nan if type.element in _FLOATS else (1 if dtype.kind == "b" else 99)
    return np.full(_sizes_of(type.storage, sizes), garbage, dtype)


def _pack(array: Array, type: BufferType, sizes: Mapping[str, int]) -> Array:
    shape = _sizes_of(type.shape, sizes)
    assert array.shape == shape, f"a buffer of {shape} needs that shape, not {array.shape}"
    assert array.dtype == dtype_of(type.element), (
        f"{type.element} needs another type than {array.dtype}"
    )
    storage = allocate(type, sizes)
    for index, position in _positions(type, shape, sizes):
        stored = array[index].view(storage.dtype)
        storage[position] = _converter(type.element)(stored) if _is_short(type.element) else stored
    return storage


def _is_short(element: Attribute) -> TypeGuard[IntegerType]:
    return is_integer(element) and 1 < element.width.data < 8


def _unpack(storage: Array, type: BufferType, sizes: Mapping[str, int]) -> Array:
    shape = _sizes_of(type.shape, sizes)
    array = np.empty(shape, dtype_of(type.element))
    for index, position in _positions(type, shape, sizes):
        stored = storage[position]
        if _is_short(element := type.element):
            stored = np.uint8(int(stored) & ((1 << element.width.data) - 1))
        array[index] = stored.view(array.dtype)
    return array


def _positions(type: BufferType, shape: tuple[int, ...], sizes: Mapping[str, int]):
    """Each logical index with the position in storage that its layout gives."""
    logical = itertools.product(*(range(dim) for dim in shape))
    if type.storage == type.shape:
        return ((index, index) for index in logical)
    symbols: dict[Atom, int] = {Symbol(name): value for name, value in sizes.items()}
    return (
        (index, tuple(e.evaluate(symbols | _operands(index)) for e in _subscripts(type)))
        for index in logical
    )


def _subscripts(type: BufferType) -> Sequence[Expr]:
    assert isinstance(type.layout, LayoutAttr), "storage of other dims has a layout"
    return type.layout.subscripts.data


def _operands(index: tuple[int, ...]) -> dict[Atom, int]:
    return {Operand(position): value for position, value in enumerate(index)}


def translate(
    function: KernelOp | ProgramOp,
    scramble: bool,
    callees: Mapping[str, Callable[..., None]] | None = None,
    weights: WeightStore | None = None,
    given: dict[int, Array] | None = None,
) -> Callable[..., None]:
    """The Python function that does what the kernel or program says; `given` gets the outputs that
    a program makes, by position.
    """
    given = {} if given is None else given
    return _Translation(scramble, callees or {}, weights or WeightStore(), given).of(function)


class _Translation:
    """Source text under construction: a name for each value, a constant pool, and lines."""

    def __init__(
        self,
        scramble: bool,
        callees: Mapping[str, Callable[..., None]],
        weights: WeightStore,
        given: dict[int, Array],
    ):
        self.scramble = scramble
        self.callees = callees
        self.weights = weights
        self.given = given
        self.names: dict[SSAValue, str] = {}
        self.pool: dict[str, Any] = {}
        self.lines: list[str] = []

    def of(self, function: KernelOp | ProgramOp) -> Callable[..., None]:
        arguments = [self.name(argument) for argument in function.body.block.args]
        symbols = [f"s_{name}" for name in function.symbol_names]
        self.block(function.body.block, 1)
        source = f"def run({', '.join(arguments + symbols)}):\n" + "\n".join(self.lines) + "\n pass"
        exec(compile(source, f"<{function.sym_name.data}>", "exec"), self.pool)
        run = self.pool["run"]

        def call(*storages: Array, **sizes: int) -> None:
            with np.errstate(all="ignore"):
                run(*storages, **{f"s_{name}": size for name, size in sizes.items()})

        return call

    def name(self, value: SSAValue) -> str:
        return self.names.setdefault(value, f"v{len(self.names)}")

    def shared(self, value: Any) -> str:
        key = f"c{len(self.pool)}"
        self.pool[key] = value
        return key

    def line(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.operation(op, depth)

    def operation(self, op: Operation, depth: int) -> None:
        match op:
            case ForOp():
                self.loop(op, depth)
            case LoadOp():
                self.line(depth, f"{self.name(op.result)} = {self.access(op)}")
            case StoreOp():
                self.line(depth, f"{self.access(op)} = {self.name(op.value)}")
            case PrefetchOp():
                pass
            case IndexOp():
                self.line(depth, f"{self.name(op.result)} = {self.expr(op.value)}")
            case AllocOp():
                dims = ", ".join(self.expr(dim) for dim in buffer_type_of(op.result).storage)
                empty = self.shared(allocate(_scalar_of(buffer_type_of(op.result)), {}))
                numpy = self.shared(np)
                name = self.name(op.result)
                self.line(depth, f"{name} = {numpy}.full([{dims}], {empty})")
                if op.scope.data == "growable":
                    self.line(depth, f"grown_{name} = {name}")
            case IfOp():
                self.line(depth, f"if {self.name(op.condition)}:")
                self.block(op.then.block, depth + 1)
                self.line(depth + 1, "pass")
                self.line(depth, "else:")
                self.block(op.otherwise.block, depth + 1)
                self.line(depth + 1, "pass")
            case ConcurrentOp():
                for branch in reversed(op.branches):  # the order does not matter
                    self.block(branch.block, depth)
            case WhileOp():
                self.line(depth, "while True:")
                self.block(op.condition.block, depth + 1)
                self.block(op.body.block, depth + 1)
            case ConditionOp():
                self.line(depth, f"if not {self.name(op.condition)}: break")
            case CallOp() | WeightOp() | ViewOp() | SubviewOp() | CopyOp() | BindSymbolOp():
                self.program_operation(op, depth)
            case CurrentViewOp() | ReallocOp() | TransferOwnershipOp() | RequireEqualOp():
                self.program_operation(op, depth)
            case _:
                self.arithmetic(op, depth)

    def loop(self, op: ForOp, depth: int) -> None:
        steps = f"range({self.expr(op.lower)}, {self.expr(op.upper)}, {op.step.data})"
        if self.scramble and op.parallel is not None:
            steps = f"reversed({steps})"
        self.line(depth, f"for {self.name(op.index)} in {steps}:")
        self.block(op.body.block, depth + 1)
        self.line(depth + 1, "pass")

    def access(self, op: AccessOp) -> str:
        type = op.buffer_type
        checked = [
            f"{self.shared(_within)}({self.expr(expr)}, {self.expr(dim)})"
            for expr, dim in zip(op.index, type.shape, strict=True)
        ]
        if type.storage != type.shape:
            names: dict[Atom, str] = {Operand(p): f"({text})" for p, text in enumerate(checked)}
            checked = [self.expr(expr, names) for expr in _subscripts(type)]
        return f"{self.name(op.buffer)}[{', '.join(checked) or '()'}]"

    def program_operation(self, op: Operation, depth: int) -> None:
        match op:
            case CallOp():
                callee = self.shared(self.callees[op.kernel])
                sizes = self.shared_sizes(op)
                arguments = ", ".join(self.name(value) for value in op.arguments)
                self.line(depth, f"{callee}({arguments}{sizes})")
            case WeightOp():
                storage = _pack(self.weights[op.key.data], buffer_type_of(op.result), {})
                self.line(depth, f"{self.name(op.result)} = {self.shared(storage)}")
            case ViewOp():
                dims = ", ".join(self.expr(dim) for dim in buffer_type_of(op.result).storage)
                source = self.name(op.source)
                self.line(depth, f"{self.name(op.result)} = {source}.reshape([{dims}])")
            case SubviewOp():
                dims = ", ".join(self.expr(dim) for dim in buffer_type_of(op.result).storage)
                source, row = self.name(op.source), self.expr(op.value)
                position = f"{self.shared(_within)}({row}, len({source}))"
                part = f"{source}[{position}:][:1].reshape([{dims}])"
                self.line(depth, f"{self.name(op.result)} = {part}")
            case CopyOp():
                self.line(depth, f"{self.name(op.target)}[...] = {self.name(op.source)}")
            case BindSymbolOp():
                size = self.shared(_size)
                self.line(depth, f"s_{op.size.data} = {size}({self.expr(op.value)})")
            case RequireEqualOp():
                first, second = (self.expr(size) for size in op.sizes.data)
                self.line(depth, f"assert {first} == {second}")
            case CurrentViewOp():
                dims = ", ".join(self.expr(dim) for dim in buffer_type_of(op.result).storage)
                grown = f"grown_{self.name(op.source)}.reshape([{dims}])"
                self.line(depth, f"{self.name(op.result)} = {grown}")
            case ReallocOp():
                self.regrow(op, depth)
            case TransferOwnershipOp():
                given = self.shared(self.given)
                self.line(depth, f"{given}[{self.position(op.output)}] = {self.name(op.source)}")
            case _:
                raise AssertionError(f"{op.name} is no operation of a program")

    def position(self, value: SSAValue) -> int:
        assert isinstance(value, BlockArgument), "an output is an argument of the program"
        return value.index

    def regrow(self, op: ReallocOp, depth: int) -> None:
        """A new array, with the elements of the old one where these are kept."""
        dims = ", ".join(self.expr(dim) for dim in buffer_type_of(op.result).storage)
        empty, numpy = self.shared(allocate(_scalar_of(buffer_type_of(op.result)), {})), np
        new, old = self.name(op.result), f"grown_{self.name(op.source)}"
        self.line(depth, f"{new} = {self.shared(numpy)}.full([{dims}], {empty})")
        if op.keep is not None:
            self.line(depth, f"{new}.reshape(-1)[:{old}.size] = {old}.reshape(-1)")
        self.line(depth, f"{old} = {new}")

    def shared_sizes(self, op: CallOp) -> str:
        module: Operation | None = op
        while not isinstance(module, ModuleOp):
            assert module is not None, "a call stands in a module"
            module = module.parent_op()
        (kernel,) = (
            k for k in module.ops if isinstance(k, KernelOp) and k.sym_name.data == op.kernel
        )
        values = zip(kernel.symbol_names, op.sizes.data, strict=True)
        return "".join(f", {name}={self.expr(value)}" for name, value in values)

    def arithmetic(self, op: Operation, depth: int) -> None:
        operands = ", ".join(self.name(operand) for operand in op.operands)
        target = self.name(op.results[0])
        match op:
            case arith.ConstantOp():
                self.line(depth, f"{target} = {self.shared(_constant(op.value))}")
            case arith.CmpfOp():
                function = self.shared(compare_floats(op.predicate.value.data))
                self.line(depth, f"{target} = {function}({operands})")
            case arith.CmpiOp():
                function = self.shared(compare_integers(op.predicate.value.data))
                self.line(depth, f"{target} = {function}({operands})")
            case _:
                function = self.shared(typed_function(op))
                convert = self.shared(_converter(op.results[0].type))
                self.line(depth, f"{target} = {convert}({function}({operands}))")

    def expr(self, expr: Expr, names: Mapping[Atom, str] | None = None) -> str:
        """An integer expression as Python text."""
        terms = [
            self.term(monomial, factor, names or {}) for monomial, factor in expr.terms.items()
        ]
        return " + ".join(terms) or "0"

    def term(self, monomial: Monomial, factor: int, names: Mapping[Atom, str]) -> str:
        parts = [str(factor)] if factor != 1 or not monomial else []
        return " * ".join([*parts, *(self.atom(atom, names) for atom in monomial)])

    def atom(self, atom: Atom, names: Mapping[Atom, str]) -> str:
        match atom:
            case Symbol(name):
                return f"s_{name}"
            case Quotient(dividend, divisor):
                return f"(({self.expr(dividend, names)}) // ({self.expr(divisor, names)}))"
            case Remainder(dividend, divisor):
                return f"(({self.expr(dividend, names)}) % ({self.expr(divisor, names)}))"
            case Extremum(kind, operands):
                return f"{kind}({', '.join(self.expr(operand, names) for operand in operands)})"
            case SSAValue():
                return self.name(atom)
            case _:
                return names[atom]


def _within(subscript: int, dim: int) -> int:
    if not 0 <= subscript < dim:
        raise IndexError(f"an access requires a subscript below {dim}, got {subscript}")
    return subscript


def _size(value: int) -> int:
    if value < 0:
        raise ValueError(f"a size requires a value of at least 0, got {value}")
    return int(value)


def _scalar_of(type: BufferType) -> BufferType:
    return buffer([], type.element)


def _constant(attribute: Attribute) -> Any:
    if isa(attribute, FloatAttr[AnyFloat]):
        return register_dtype(attribute.type).type(attribute.value.data)
    assert isa(attribute, IntegerAttr[IntegerType | IndexType])
    return _converter(attribute.type)(attribute.value.data)


def typed_function(op: Operation) -> Callable[..., Any]:
    """What an arith or math operation computes, before rounding or wrapping into its type."""
    match op:
        case arith.FPToSIOp() | arith.FPToUIOp():
            return float_to_integer(_bits(op.results[0]), isinstance(op, arith.FPToSIOp))
        case arith.ExtUIOp() | arith.UIToFPOp() if _is_short(op.operands[0].type):
            low = (1 << _bits(op.operands[0])) - 1

            def keep_bits(value: Any) -> int:
                return int(value) & low

            return keep_bits
        case FieldOp():
            low, width = op.low.data, op.bits.data
            middle = 1 << (width - 1) if op.centred.value.data else 0
            return lambda word: (int(word) >> low & ((1 << width) - 1)) - middle
        case arith.BitcastOp():
            dtype = register_dtype(op.results[0].type)

            def reinterpret(value: Any) -> Any:
                return value.view(dtype)

            return reinterpret
        case _:
            assert op.name in FUNCTIONS, f"the interpreter lacks {op.name}"
            return FUNCTIONS[op.name]


def _bits(value: SSAValue) -> int:
    assert is_integer(value.type), "an integer has a width"
    return value.type.width.data


def _converter(type: Attribute) -> Callable[[Any], Any]:
    """Rounds or wraps a result into its register type."""
    if isinstance(type, IndexType):
        return int
    dtype = register_dtype(type)
    if type in _FLOATS:
        return dtype.type
    if dtype.kind == "b":
        return lambda value: np.bool_(int(value) & 1)
    bits, unsigned = dtype.itemsize * 8, np.dtype(f"u{dtype.itemsize}").type
    if _is_short(type):
        half = 1 << (type.width.data - 1)
        return lambda value: dtype.type(((int(value) + half) & (2 * half - 1)) - half)
    return lambda value: unsigned(int(value) & ((1 << bits) - 1)).view(dtype)
