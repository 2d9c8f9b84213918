"""The operations inside kernels: loops, accesses, allocations and branches over buffers.

Subscripts, bounds and sizes are integer expressions whose operands are index values. They print
inline, `loop.load %A[6 * %io + %ii, %k]`, and stay logical: where an element is stored is up to the
layout in the buffer's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, cast

from xdsl.dialects.builtin import IndexType, IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from weft.dialects.expr import Expr, ExprLike
from weft.dialects.expr_text import INDEX, bound_exprs, parse_value_expr, unbind
from weft.dialects.expr_text import print_value_expr as _print_expr
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of, register_type

REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "xor")
SCOPES = ("workspace", "growable", "scratch", "registers")


@irdl_op_definition
class ForOp(IRDLOperation):
    """Runs its body for each index from `lower` up to but not including `upper`, `step` apart.

        loop.for %i = 0 to n step 6 parallel { ... }

    Marks are the schedule made visible. `parallel`: iterations may run at the same time. `unroll`:
    the emitter unrolls the loop. `vector(16)`: 16 iterations are the lanes of one vector, with a
    masked or exact remainder. `reduction(add)`: iterations only combine into the same elements with
    this operator, and may be reassociated. `dot`: all are terms of one instruction in each lane.
    `matrix`: the loops inside are those of products of registers that hold tiles of matrices.
    """

    name = "loop.for"
    operands_: Sequence[SSAValue] = var_operand_def(IndexType)
    bounds: ExprsAttr = prop_def(ExprsAttr)
    step: IntAttr = prop_def(IntAttr)
    parallel: UnitAttr | None = opt_prop_def(UnitAttr)
    unroll: UnitAttr | None = opt_prop_def(UnitAttr)
    vector: IntAttr | None = opt_prop_def(IntAttr)
    dot: UnitAttr | None = opt_prop_def(UnitAttr)
    matrix: UnitAttr | None = opt_prop_def(UnitAttr)
    reduction: StringAttr | None = opt_prop_def(StringAttr)
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    @staticmethod
    def of(
        lower: ExprLike,
        upper: ExprLike,
        body: Region | None = None,
        *,
        step: int = 1,
        reduction: str | None = None,
    ) -> ForOp:
        """A loop with bounds over SSA values and symbols; without a body it gets an empty one."""
        bounds, values = unbind([Expr.of(lower), Expr.of(upper)])
        return ForOp.build(
            operands=[values],
            properties={
                "bounds": ExprsAttr(tuple(bounds)),
                "step": IntAttr(step),
                "reduction": None if reduction is None else StringAttr(reduction),
            },
            regions=[body or Region(Block(arg_types=[INDEX]))],
        )

    @property
    def index(self) -> SSAValue:
        """The loop's index."""
        return self.regions[0].block.args[0]  # quicker than by the region's name

    @property
    def lower(self) -> Expr:
        """The first index, over SSA values."""
        return bound_exprs(self, self.bounds.data)[0]

    @property
    def upper(self) -> Expr:
        """The end of the indices, over SSA values."""
        return bound_exprs(self, self.bounds.data)[1]

    @property
    def extent(self) -> Expr:
        """How many iterations the loop has."""
        return _extent(*bound_exprs(self, self.bounds.data), self.step.data)

    def verify_(self) -> None:
        if self.reduction is not None and self.reduction.data not in REDUCTIONS:
            raise VerifyException(
                f"loop.for requires a reduction out of {REDUCTIONS}, got {self.reduction.data}"
            )
        if self.step.data < 1:
            raise VerifyException(f"loop.for requires a positive step, got {self.step.data}")
        if [arg.type for arg in self.body.block.args] != [INDEX]:
            raise VerifyException("loop.for requires a body with one index argument")

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        index = parser.parse_argument(expect_type=False).resolve(INDEX)
        values: list[SSAValue] = []
        parser.parse_punctuation("=")
        lower = parse_value_expr(parser, values)
        parser.parse_keyword("to")
        upper = parse_value_expr(parser, values)
        properties: dict[str, Attribute] = {"bounds": ExprsAttr((lower, upper)), "step": IntAttr(1)}
        if parser.parse_optional_keyword("step"):
            properties["step"] = IntAttr(parser.parse_integer())
        for mark in ("parallel", "unroll", "vector", "dot", "matrix"):
            if parser.parse_optional_keyword(mark):
                properties[mark] = UnitAttr()
            if mark == "vector" and mark in properties:
                with parser.in_parens():
                    properties[mark] = IntAttr(parser.parse_integer())
        if parser.parse_optional_keyword("reduction"):
            with parser.in_parens():
                properties["reduction"] = StringAttr(parser.parse_identifier())
        body = parser.parse_region([index])
        return cls.create(operands=values, properties=properties, regions=[body])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.index)
        printer.print_string(" = ")
        _print_expr(printer, self.bounds.data[0], self.operands_)
        printer.print_string(" to ")
        _print_expr(printer, self.bounds.data[1], self.operands_)
        if self.step.data != 1:
            printer.print_string(f" step {self.step.data}")
        printer.print_string("".join(f" {mark}" for mark in self.hints()))
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def hints(self) -> list[str]:
        """The marks as they print."""
        hints = [name for name in ("parallel", "unroll") if name in self.properties]
        if self.vector is not None:
            hints.append(f"vector({self.vector.data})")
        hints += [name for name in ("dot", "matrix") if name in self.properties]
        if self.reduction is not None:
            hints.append(f"reduction({self.reduction.data})")
        return hints


@lru_cache(maxsize=1 << 12)
def _extent(lower: Expr, upper: Expr, step: int) -> Expr:
    extent = (upper - lower).ceildiv(step)
    return extent if (extent.constant or 0) >= 0 else Expr.of(0)


class SubscriptedOp(IRDLOperation):
    """Names an element by a buffer and an expression for each of its logical dimensions."""

    BUFFER: ClassVar[int] = 0  # its position among the operands
    buffer: SSAValue = operand_def(BufferType)
    operands_: Sequence[SSAValue] = var_operand_def(IndexType)
    subscripts: ExprsAttr = prop_def(ExprsAttr)

    @property
    def index(self) -> tuple[Expr, ...]:
        """The logical subscripts over SSA values."""
        return bound_exprs(self, self.subscripts.data, self.BUFFER + 1)

    @property
    def buffer_type(self) -> BufferType:
        """The type of the accessed buffer."""
        return buffer_type_of(self._operands[self.BUFFER])

    def verify_(self) -> None:
        rank, count = self.buffer_type.rank, len(self.subscripts.data)
        if count != rank:
            raise VerifyException(f"{self.name} requires {rank} subscripts, got {count}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_access(printer)

    def _print_access(self, printer: Printer) -> None:
        printer.print_ssa_value(self.buffer)
        printer.print_string("[")
        for position, expr in enumerate(self.subscripts.data):
            printer.print_string(", " if position else "")
            _print_expr(printer, expr, self.operands_)
        printer.print_string("] nontemporal" if "nontemporal" in self.properties else "]")
        if locality := self.properties.get("locality"):
            printer.print_string(f" locality({cast(IntAttr, locality).data})")
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)


class AccessOp(SubscriptedOp):
    """A load or a store."""


def _parse_access(parser: Parser) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """The operands, the buffer first, and the properties: subscripts and hints."""
    unresolved = parser.parse_unresolved_operand()
    values: list[SSAValue] = []
    exprs = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_value_expr(parser, values)
    )
    properties: dict[str, Attribute] = {"subscripts": ExprsAttr(tuple(exprs))}
    if parser.parse_optional_keyword("nontemporal"):
        properties["nontemporal"] = UnitAttr()
    if parser.parse_optional_keyword("locality"):
        with parser.in_parens():
            properties["locality"] = IntAttr(parser.parse_integer())
    parser.parse_punctuation(":")
    buffer = parser.resolve_operand(unresolved, parser.parse_type())
    return [buffer, *values], properties


@irdl_op_definition
class LoadOp(AccessOp):
    """Reads an element: `%x = loop.load %A[%i, %k] : !loop.buffer<[4, 4], f32>`."""

    name = "loop.load"
    result: SSAValue = result_def()
    traits = traits_def(MemoryReadEffect())

    @staticmethod
    def of(buffer: SSAValue, index: Sequence[Expr]) -> LoadOp:
        """A load with subscripts over SSA values."""
        exprs, values = unbind(index)
        return LoadOp.create(
            operands=[buffer, *values],
            properties={"subscripts": ExprsAttr(tuple(exprs))},
            result_types=[register_type(buffer_type_of(buffer).element)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        operands, properties = _parse_access(parser)
        result = register_type(buffer_type_of(operands[0]).element)
        return cls.create(operands=operands, properties=properties, result_types=[result])


@irdl_op_definition
class StoreOp(AccessOp):
    """Writes an element:
    `loop.store %x, %C[%i, %j] : !loop.buffer<[4, 4], f32>`.

    With `nontemporal`, vectors that fill whole lines are stored without going through the caches.
    """

    name = "loop.store"
    BUFFER: ClassVar[int] = 1
    nontemporal: UnitAttr | None = opt_prop_def(UnitAttr)
    value: SSAValue = operand_def()
    traits = traits_def(MemoryWriteEffect())

    @staticmethod
    def of(value: SSAValue, buffer: SSAValue, index: Sequence[Expr]) -> StoreOp:
        """A store with subscripts over SSA values."""
        exprs, values = unbind(index)
        return StoreOp.create(
            operands=[value, buffer, *values], properties={"subscripts": ExprsAttr(tuple(exprs))}
        )

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        operands, properties = _parse_access(parser)
        element = buffer_type_of(operands[0]).element
        value = parser.resolve_operand(unresolved, register_type(element))
        return cls.create(operands=[value, *operands], properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        self._print_access(printer)


@irdl_op_definition
class PrefetchOp(SubscriptedOp):
    """Prefetches an element's cache line, where there is such an element:
    `loop.prefetch %A[%i + 1, %k] locality(2) : !loop.buffer<[4, 4], f32>`.

    The locality is LLVM's: 2 stands for L2; without it, it is 3, which stands for L1.
    """

    name = "loop.prefetch"
    locality: IntAttr | None = opt_prop_def(IntAttr)

    @staticmethod
    def of(buffer: SSAValue, index: Sequence[Expr]) -> PrefetchOp:
        """A prefetch with subscripts over SSA values."""
        exprs, values = unbind(index)
        return PrefetchOp.create(
            operands=[buffer, *values], properties={"subscripts": ExprsAttr(tuple(exprs))}
        )

    @classmethod
    def parse(cls, parser: Parser) -> PrefetchOp:
        operands, properties = _parse_access(parser)
        return cls.create(operands=operands, properties=properties)


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer of its own: `%t = loop.alloc scratch : !loop.buffer<[6, 16], f32>`.

    Scopes: `workspace` lives in the caller's arena, is shared by all threads and gets its `offset`
    (bytes) from the memory plan; `growable` is memory of the context's allocator, as its size is
    dynamic, and its `offset` is the number of the block that it shares with others; `scratch` is on
    the stack of one thread; `registers` is a small array whose accesses are all unrolled, so that
    it becomes values.
    """

    name = "loop.alloc"
    scope: StringAttr = prop_def(StringAttr)
    offset: ExprsAttr | None = opt_prop_def(ExprsAttr)
    result: SSAValue = result_def(BufferType)

    @staticmethod
    def of(type: BufferType, scope: str = "workspace") -> AllocOp:
        """An allocation in the given scope, not yet placed."""
        return AllocOp.create(properties={"scope": StringAttr(scope)}, result_types=[type])

    def verify_(self) -> None:
        if self.scope.data not in SCOPES:
            raise VerifyException(
                f"loop.alloc requires a scope out of {SCOPES}, got {self.scope.data}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        properties: dict[str, Attribute] = {"scope": StringAttr(parser.parse_identifier())}
        if parser.parse_optional_keyword("at"):
            properties["offset"] = ExprsAttr((parse_value_expr(parser, []),))
        parser.parse_punctuation(":")
        return cls.create(properties=properties, result_types=[parser.parse_type()])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.scope.data}")
        if self.offset is not None:
            printer.print_string(f" at {self.offset.data[0]}")
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class IfOp(IRDLOperation):
    """Runs its first region where the condition holds, else the second:
    `loop.if %c { ... } else { ... }`.
    """

    name = "loop.if"
    condition: SSAValue = operand_def(IntegerType(1))
    then: Region = region_def("single_block")
    otherwise: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), IntegerType(1))
        then = parser.parse_region()
        otherwise = (
            parser.parse_region() if parser.parse_optional_keyword("else") else Region(Block())
        )
        return cls.create(operands=[condition], regions=[then, otherwise])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        printer.print_string(" ")
        printer.print_region(self.then)
        if self.otherwise.block.ops:
            printer.print_string(" else ")
            printer.print_region(self.otherwise)


@irdl_op_definition
class ConditionOp(IRDLOperation):
    """Ends the first region of `loop.while`: another round runs while the operand holds."""

    name = "loop.condition"
    condition: SSAValue = operand_def(IntegerType(1))
    traits = traits_def(IsTerminator())
    assembly_format = "$condition attr-dict"


@irdl_op_definition
class WhileOp(IRDLOperation):
    """Repeats `body` while `condition` holds; state lives in buffers:
    `loop.while { ... loop.condition %c } do { ... }`.
    """

    name = "loop.while"
    condition: Region = region_def("single_block")
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def verify_(self) -> None:
        last = self.condition.block.last_op
        if not isinstance(last, ConditionOp):
            raise VerifyException("loop.while requires a first region that ends in loop.condition")

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        condition = parser.parse_region()
        parser.parse_keyword("do")
        return cls.create(regions=[condition, parser.parse_region()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.condition)
        printer.print_string(" do ")
        printer.print_region(self.body)


def enclosing_loops(op: Operation) -> list[ForOp]:
    """The loops around an operation, the outermost first."""
    loops: list[ForOp] = []
    block = op.parent
    while block is not None and (region := block.parent) is not None:
        parent = region.parent
        if type(parent) is ForOp:  # several times as fast as isinstance
            loops.append(parent)
        block = None if parent is None else parent.parent
    return loops[::-1]
