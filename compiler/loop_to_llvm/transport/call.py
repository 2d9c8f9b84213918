"""What the functions of collectives know of a call: `(endpoint, what, source, target, members,
group, own)`, where `own` is the rank's index in its group.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I32, I64, POINTER, Code, i32, i64
from weft.compiler.loop_to_llvm.runtime.layout import COLLECTIVE
from weft.compiler.loop_to_llvm.transport.arrive import Arrival
from weft.compiler.loop_to_llvm.transport.segment import ENDPOINT, RANK, Endpoint

CALL: Final = ir.FunctionType(I32, [POINTER] * 5 + [I64, I64])
_BYTES: Final = i32(4)
_SHARE: Final = 16
"""Elements of which shares are multiples: then they begin at cache lines where buffers do."""


class Call:
    """The values that such a function starts with, in its code."""

    def __init__(self, function: ir.Function, arrival: Arrival, combine: ir.Function):
        self.code = code = Code(function.append_basic_block("entry"))
        self.arrival, self.combine = arrival, combine
        self.address, self.what, self.source, self.target, self.members, self.group, self.own = (
            code.arguments
        )
        self.number, self.other = code.variable(I64), code.variable(I64)
        self.endpoint = Endpoint(code, self.address)
        self.dtype = COLLECTIVE.load(code, self.what, "dtype")
        self.reduction = COLLECTIVE.load(code, self.what, "reduction")
        self.count = COLLECTIVE.load(code, self.what, "count")
        self.bytes = width(code, self.dtype)
        area = ENDPOINT.load(code, self.address, "area")
        self.room = code.udiv(area, self.bytes)  # elements of an area

    def rank(self, position: ir.Value) -> ir.Value:
        """The rank of a member of the group."""
        return self.code.load(self.code.element(self.members, position, I32), typ=I32)

    def at(self, base: ir.Value, element: ir.Value) -> ir.Value:
        """The address of an element."""
        return self.code.at(base, self.code.mul(element, self.bytes))

    def share(self, count: ir.Value, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first of so many elements that a member reduces, and how many they are."""
        code = self.code
        next_one = code.add(index, i64(1))
        whole = code.and_(code.udiv(code.mul(count, index), self.group), i64(-_SHARE))
        behind = code.and_(code.udiv(code.mul(count, next_one), self.group), i64(-_SHARE))
        end = code.select(code.icmp_unsigned("==", next_one, self.group), count, behind)
        return whole, code.sub(end, whole)

    @contextmanager
    def chunks(self, most: ir.Value) -> Generator[tuple[ir.Value, ir.Value]]:
        """A loop over chunks of at most so many elements, and at least one of none: where each
        begins, and how many it has.
        """
        code = self.code
        start = code.variable_at_entry(I64)
        code.store(i64(0), start)
        with code.forever() as after:
            offset = code.load(start, typ=I64)
            count = code.least(code.sub(self.count, offset), most)
            yield offset, count
            end = code.add(offset, count)
            code.store(end, start)
            code.jump_if(code.icmp_unsigned(">=", end, self.count), after)

    def copy(self, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Copies so many elements."""
        size = self.code.mul(count, self.bytes)
        self.arrival.platform.call(self.code, "memcpy", [target, source, size])

    def arrive(self) -> None:
        """Ends the function where a rank is lost."""
        code = self.code
        status = code.call(self.arrival.arrive, [self.address, self.members, self.group])
        code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)

    def check_tags(self) -> None:
        """Ends the function where a rank of the group does something else."""
        code, endpoint = self.code, self.endpoint
        own = COLLECTIVE.load(code, self.what, "tag")
        with code.repeat(self.group, self.other) as position:
            rank = self.rank(position)
            tag = RANK.load(code, endpoint.line(rank), "tag")
            with code.unlikely(code.icmp_unsigned("!=", tag, own)):
                code.call(self.arrival.blame, [self.address, rank])
                code.ret(code.xor(rank, i32(-1)))

    def reduce(self, result: ir.Value, start: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Combines so many elements of all parts from an element on, in the order of ranks; the
        rank's own are in the source.
        """
        code, how = self.code, [count, self.dtype, self.reduction]
        first, second = (self._operand(i64(number), start, source) for number in (0, 1))
        code.call(self.combine, [result, first, second, *how])
        with code.repeat(code.sub(self.group, i64(2)), self.other) as rest:
            part = self._operand(code.add(rest, i64(2)), start, source)
            code.call(self.combine, [result, result, part, *how])

    def _operand(self, position: ir.Value, start: ir.Value, source: ir.Value) -> ir.Value:
        """Where the elements of a member are."""
        part = self.at(self.endpoint.part(self.rank(position)), start)
        is_own = self.code.icmp_unsigned("==", position, self.own)
        return self.code.select(is_own, source, part)


def width(code: Code, dtype: ir.Value) -> ir.Value:
    """The bytes of an element."""
    wide = code.or_(*(code.icmp_unsigned("==", dtype, i32(each)) for each in (1, 3)))
    single = code.icmp_unsigned("==", dtype, _BYTES)
    return code.select(single, i64(1), code.select(wide, i64(8), i64(4)))
