"""The table that `m_query` returns, and what the run time itself reads of it: names and shapes for
messages, and the sizes of dims.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I64, POINTER, VOID, Code, compile_plainly, i64
from weft.compiler.loop_to_llvm.runtime.layout import DIM, STEP, TABLE, TENSOR, Struct
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.dialects.steps import Step

_SIZE_OF: Final = ir.FunctionType(I64, [POINTER, POINTER])
_EXPECTED_SHAPE: Final = ir.FunctionType(VOID, [POINTER] * 3)


class Table:
    """The table, a constant of the artifact, and functions that read it."""

    def __init__(self, pool: Pool, address: ir.Value):
        self.pool = pool
        self.address = address

    def define(self) -> None:
        """Emits `ptr m_query()`."""
        code = self.pool.define_exported("query", ir.FunctionType(POINTER, []))
        code.ret(self.address)

    def define_sizes(self) -> None:
        """Emits `size_of` and `expected_shape`."""
        self._define_size_of()
        self._define_expected_shape()

    def entry(self, code: Code, array: str, number: ir.Value, struct: Struct) -> ir.Value:
        """The address of an entry of an array of the table: `inputs`, `symbols` and so on."""
        start = self.address_of(code, self.address, TABLE, array)
        return code.at(start, code.mul(number, i64(struct.size)))

    def address_of(self, code: Code, entry: ir.Value, struct: Struct, name: str) -> ir.Value:
        """The address of what a member of an entry says the place of, such as a text."""
        return code.at(self.address, code.zext(struct.load(code, entry, name), I64))

    def dim(self, code: Code, tensor: ir.Value, axis: ir.Value) -> ir.Value:
        """The entry of one dim of a tensor."""
        dims = self.address_of(code, tensor, TENSOR, "dims")
        return code.at(dims, code.mul(axis, i64(DIM.size)))

    @property
    def size_of(self) -> ir.Function:
        """`i64 (dim, sizes)`: the size of a dim for these values of the symbols; -1 where it
        divides by 0.
        """
        return self.pool.declare("size_of", _SIZE_OF)

    def _define_size_of(self) -> None:
        code = Code(self.size_of.append_basic_block("entry"))
        dim, sizes = code.arguments
        depth = code.zext(TABLE.load(code, self.address, "stack_depth"), I64)
        stack = code.array(I64, depth)
        top, step = code.variable(I64, i64(-1)), code.variable(POINTER)
        constant = DIM.load(code, dim, "size")
        code.return_if(code.icmp_signed(">=", constant, i64(0)), constant)
        code.store(self.address_of(code, dim, DIM, "steps"), step)
        with code.forever():
            here = code.load(step, typ=POINTER)
            operation = STEP.load(code, here, "operation")
            operand = STEP.load(code, here, "operand")
            code.store(code.at(here, STEP.size), step)
            result = code.load(stack, typ=I64)
            code.return_if(code.icmp_signed("==", operation, i64(Step.END)), result)
            _push(code, operation, operand, sizes, stack, top)
            with code.if_then(code.icmp_signed(">", operation, i64(Step.SYMBOL))):
                _combine(code, operation, stack, top)
        code.unreachable()
        compile_plainly(self.size_of)

    @property
    def expected_shape(self) -> ir.Function:
        """`void (entry, sizes, shape)`: writes the shape that a tensor has for these sizes."""
        return self.pool.declare("expected_shape", _EXPECTED_SHAPE)

    def _define_expected_shape(self) -> None:
        code = Code(self.expected_shape.append_basic_block("entry"))
        entry, sizes, shape = code.arguments
        number = code.variable(I64)
        rank = code.zext(TENSOR.load(code, entry, "rank"), I64)
        with code.repeat(rank, number) as axis:
            size = code.call(self.size_of, [self.dim(code, entry, axis), sizes])
            code.store(size, code.element(shape, axis, I64), align=8)
        code.ret_void()
        compile_plainly(self.expected_shape)


def _push(
    code: Code, operation: ir.Value, operand: ir.Value, sizes: ir.Value, stack: ir.Value,
    top: ir.Value,
) -> None:  # fmt: skip
    """Puts a number or the value of a symbol on the stack, for such a step."""
    for pushed in (Step.NUMBER, Step.SYMBOL):
        with code.if_then(code.icmp_signed("==", operation, i64(pushed))):
            value = operand
            if pushed is Step.SYMBOL:
                value = code.load(code.element(sizes, operand, I64), typ=I64)
            code.store(code.add(code.load(top, typ=I64), i64(1)), top)
            code.store(value, code.element(stack, code.load(top, typ=I64), I64))


def _combine(code: Code, operation: ir.Value, stack: ir.Value, top: ir.Value) -> None:
    """Replaces the two values on top of the stack by what the step makes of them; returns -1 from
    the function for a division by what is not above 0.
    """
    last = code.load(top, typ=I64)
    code.store(code.sub(last, i64(1)), top)
    rhs = code.load(code.element(stack, last, I64), typ=I64)
    address = code.element(stack, code.sub(last, i64(1)), I64)
    lhs = code.load(address, typ=I64)
    divides = code.icmp_signed(">=", operation, i64(Step.FLOORDIV))
    code.return_if(code.and_(divides, code.icmp_signed("<=", rhs, i64(0))), i64(-1))
    divisor = code.select(divides, rhs, i64(1))
    remainder = code.srem(lhs, divisor)
    below = code.icmp_signed("<", remainder, i64(0))
    quotient = code.sub(code.sdiv(lhs, divisor), code.zext(below, I64))
    results = {
        Step.ADD: code.add(lhs, rhs),
        Step.SUB: code.sub(lhs, rhs),
        Step.MUL: code.mul(lhs, rhs),
        Step.MIN: code.select(code.icmp_signed("<", lhs, rhs), lhs, rhs),
        Step.MAX: code.select(code.icmp_signed("<", lhs, rhs), rhs, lhs),
        Step.FLOORDIV: quotient,
        Step.MOD: code.select(below, code.add(remainder, divisor), remainder),
    }
    chosen: ir.Value = lhs
    for step, result in results.items():
        chosen = code.select(code.icmp_signed("==", operation, i64(step)), result, chosen)
    code.store(chosen, address)
