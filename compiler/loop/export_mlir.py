"""Prints kernels as upstream MLIR (func, affine, scf, memref, arith, math) for a real mlir-opt.

Loops and accesses that are affine in loop indices and sizes become affine.for, affine.load and
affine.store; others become scf.for, memref.load and memref.store with index arithmetic. Layouts
are applied: a memref has the shape of the storage. Marks become attributes of the loops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from io import StringIO

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.printer import Printer

from weft.compiler.loop.nest import expand, is_pure, value_of, values_in
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Atom, Expr, Extremum, Monomial, Operand, Quotient, Remainder, Symbol
from weft.dialects.loop.arithmetic import GeluOp, IndexOp
from weft.dialects.loop.ops import (
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
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import buffer_type_of, register_type

_NAME = re.compile(r"(%[\w.$-]+)")


def export_kernel(kernel: KernelOp) -> str:
    """A kernel as a func.func over its sizes and memrefs.

    Raises UnsupportedError for an operation that has no counterpart upstream.
    """
    export = _Export()
    export.function(kernel)
    return export.stream.getvalue()


class _Export:
    """The text under construction; xDSL's printer names the values and prints arith and math."""

    def __init__(self) -> None:
        self.stream = StringIO()
        self.printer = Printer(stream=self.stream, print_generic_format=True)
        self.dims: set[Atom] = set()
        self.computed = 0

    def line(self, text: str) -> None:
        self.stream.write(f"{text}\n")

    def name(self, value: SSAValue) -> str:
        """The name that the printer gives a value."""
        self.printer.stream = captured = StringIO()
        self.printer.print_ssa_value(value)
        self.printer.stream = self.stream
        return captured.getvalue()

    def function(self, kernel: KernelOp) -> None:
        sizes = [f"%size_{name}: index" for name in kernel.symbol_names]
        block = kernel.body.block
        buffers = [f"{self.name(value)}: {memref_type(value)}" for value in block.args]
        self.line(f"func.func @{kernel.sym_name.data}({', '.join([*sizes, *buffers])}) {{")
        self.block(block)
        self.line("func.return\n}")

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        match op:
            case ForOp():
                self.loop(op)
            case LoadOp() | StoreOp() | PrefetchOp():
                self.access(op)
            case IndexOp():
                value = self.index(expand(op.value))
                self.line(
                    f"{self.name(op.result)} = arith.addi {value}, {self.index(Expr.of(0))} : index"
                )
            case AllocOp():
                sizes = [
                    self.index(d) for d in buffer_type_of(op.result).storage if d.constant is None
                ]
                target = f"memref.alloc({', '.join(sizes)}) : {memref_type(op.result)}"
                self.line(f"{self.name(op.result)} = {target}")
            case IfOp() | WhileOp() | ConditionOp():
                self.control(op)
            case GeluOp():
                self.gelu(op)
            case _ if is_pure(op) and op.dialect_name() != "loop":
                self.printer.print_op(op)
                self.line("")
            case _:
                got = op.name
                raise UnsupportedError(f"export requires an operation known upstream, got {got}")

    def gelu(self, op: GeluOp) -> None:
        """The formula of GELU, for which upstream has no operation."""
        result_type, x, y = op.result.type, self.name(op.operand), self.name(op.result)
        part = f"%gelu_{y[1:]}"
        self.line(f"{part}_root = arith.constant {math.sqrt(0.5)} : {result_type}")
        self.line(f"{part}_scaled = arith.mulf {x}, {part}_root : {result_type}")
        self.line(f"{part}_error = math.erf {part}_scaled : {result_type}")
        self.line(f"{part}_factor = arith.constant 0.5 : {result_type}")
        self.line(f"{part}_half = arith.mulf {x}, {part}_factor : {result_type}")
        self.line(f"{part}_product = arith.mulf {part}_half, {part}_error : {result_type}")
        self.line(f"{y} = arith.addf {part}_product, {part}_half : {result_type}")

    def loop(self, op: ForOp) -> None:
        index = self.name(op.index)
        lower, upper = (self.affine_map(expand(bound)) for bound in (op.lower, op.upper))
        if lower is None or upper is None:
            self.plain_loop(op, index)
            return
        step = f" step {op.step.data}" if op.step.data != 1 else ""
        self.line(f"affine.for {index} = {lower} to {upper}{step} {{")
        self.dims.add(op.index)
        self.block(op.body.block)
        self.line(f"}}{_hints(op)}")

    def plain_loop(self, op: ForOp, index: str) -> None:
        bounds = [self.index(expand(bound)) for bound in (op.lower, op.upper)]
        step = self.index(Expr.of(op.step.data))
        self.line(f"scf.for {index} = {bounds[0]} to {bounds[1]} step {step} {{")
        self.block(op.body.block)
        self.line(f"}}{_hints(op)}")

    def access(self, op: LoadOp | StoreOp | PrefetchOp) -> None:
        positions = [self.affine(expr, "symbol({})") for expr in storage_index(op)]
        dialect = "memref" if None in positions else "affine"
        if dialect == "memref":
            positions = [self.index(expr) for expr in storage_index(op)]
        element = f"{self.name(op.buffer)}[{', '.join(map(str, positions))}]"
        typed = f"{element} : {memref_type(op.buffer)}"
        if isinstance(op, PrefetchOp):
            locality = 3 if op.locality is None else op.locality.data
            hint = f"read, locality<{locality}>, data : {memref_type(op.buffer)}"
            self.line(f"{dialect}.prefetch {element}, {hint}")
        elif isinstance(op, LoadOp):
            self.line(f"{self.name(op.result)} = {dialect}.load {typed}")
        else:
            self.line(f"{dialect}.store {self.name(op.value)}, {typed}")

    def control(self, op: IfOp | WhileOp | ConditionOp) -> None:
        match op:
            case IfOp():
                self.line(f"scf.if {self.name(op.condition)} {{")
                self.block(op.then.block)
                self.line("} else {")
                self.block(op.otherwise.block)
                self.line("}")
            case WhileOp():
                self.line("scf.while : () -> () {")
                self.block(op.condition.block)
                self.line("} do {")
                self.block(op.body.block)
                self.line("scf.yield\n}")
            case ConditionOp():
                self.line(f"scf.condition({self.name(op.condition)})")

    def affine(self, expr: Expr, size: str) -> str | None:
        """An affine expression as text, sizes in the format `size`; None where not affine."""
        terms = [
            self.affine_term(monomial, factor, size) for monomial, factor in expr.terms.items()
        ]
        return None if None in terms else " + ".join(map(str, terms)) or "0"

    def affine_term(self, monomial: Monomial, factor: int, size: str) -> str | None:
        if not monomial:
            return str(factor)
        atom = monomial[0] if len(monomial) == 1 else None
        text: str | None = None
        if isinstance(atom, Symbol):
            text = size.format(f"%size_{atom.name}")
        elif isinstance(atom, (Quotient, Remainder)) and (atom.divisor.constant or 0) > 0:
            dividend = self.affine(atom.dividend, size)
            operator = "floordiv" if isinstance(atom, Quotient) else "mod"
            text = None if dividend is None else f"(({dividend}) {operator} {atom.divisor})"
        elif atom in self.dims:
            text = self.name(value_of(atom))
        return text if text is None or factor == 1 else f"{text} * {factor}"

    def affine_map(self, expr: Expr) -> str | None:
        """A loop's bound: a number, or a map over sizes and the indices of affine loops."""
        if expr.constant is not None:
            return str(expr.constant)
        if self.affine(expr, "{}") is None:
            return None
        atoms = list(dict.fromkeys(expr.atoms()))
        dims = values_in(expr)
        symbols = [atom for atom in atoms if isinstance(atom, Symbol)]
        text = self.affine(expr, "{}") or ""
        for position, value in enumerate(dims):
            text = _renamed(text, self.name(value), f"d{position}")
        for position, symbol in enumerate(symbols):
            text = _renamed(text, f"%size_{symbol.name}", f"s{position}")
        formals = f"({_numbered('d', dims)})[{_numbered('s', symbols)}]"
        values = ", ".join(self.name(value) for value in dims)
        sizes = ", ".join(f"%size_{symbol.name}" for symbol in symbols)
        return f"affine_map<{formals} -> ({text})>({values})[{sizes}]"

    def index(self, expr: Expr) -> str:
        """Computes an expression with index arithmetic; returns the name of its value."""
        terms = [self.index_term(monomial, factor) for monomial, factor in expr.terms.items()]
        if not terms:
            return self.compute("constant", "0")
        total, *others = terms
        for term in others:
            total = self.compute("addi", total, term)
        return total

    def index_term(self, monomial: Monomial, factor: int) -> str:
        values = [self.index_atom(atom) for atom in monomial]
        if factor != 1 or not values:
            values.append(self.compute("constant", str(factor)))
        total, *others = values
        for value in others:
            total = self.compute("muli", total, value)
        return total

    def index_atom(self, atom: Atom) -> str:
        match atom:
            case Symbol(name):
                return f"%size_{name}"
            case Quotient(dividend, divisor):
                return self.compute("floordivsi", self.index(dividend), self.index(divisor))
            case Remainder(dividend, divisor):
                whole = Expr.of(Quotient(dividend, divisor))
                return self.compute("subi", self.index(dividend), self.index(whole * divisor))
            case Extremum(operator, operands):
                total, *others = [self.index(operand) for operand in operands]
                for other in others:
                    total = self.compute(f"{operator}si", total, other)
                return total
            case _:
                return self.name(value_of(atom))

    def compute(self, operation: str, *operands: str) -> str:
        result = f"%index_{self.computed}"
        self.computed += 1
        self.line(f"{result} = arith.{operation} {', '.join(operands)} : index")
        return result


def memref_type(buffer: SSAValue) -> str:
    """The upstream type of a buffer: its storage, row-major."""
    type = buffer_type_of(buffer)
    dims = "".join(f"{'?' if dim.constant is None else dim.constant}x" for dim in type.storage)
    return f"memref<{dims}{register_type(type.element)}>"


def storage_index(access: SubscriptedOp) -> list[Expr]:
    """The subscripts of the storage that an access reaches, over loop indices and sizes."""
    layout = access.buffer_type.layout
    logical = [expand(expr) for expr in access.index]
    if isinstance(layout, NoneAttr):
        return logical
    values: dict[Atom, Expr] = {Operand(position): expr for position, expr in enumerate(logical)}
    return [expr.substitute(values) for expr in layout.subscripts.data]


def _hints(loop: ForOp) -> str:
    """The marks as attributes behind a loop."""
    hints = [
        f"{name}" for name in ("parallel", "unroll", "dot", "matrix") if name in loop.properties
    ]
    if loop.vector is not None:
        hints.append(f"vector = {loop.vector.data} : index")
    if loop.reduction is not None:
        hints.append(f'reduction = "{loop.reduction.data}"')
    return f" {{{', '.join(hints)}}}" if hints else ""


def _numbered(letter: str, values: Sequence[object]) -> str:
    return ", ".join(f"{letter}{position}" for position in range(len(values)))


def _renamed(text: str, old: str, new: str) -> str:
    """The text with a whole name replaced, not the start of a longer one."""
    return "".join(new if part == old else part for part in _NAME.split(text))
