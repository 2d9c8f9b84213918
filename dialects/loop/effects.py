"""What programs do beside computing: texts that they print, functions of the host that they call,
and conditions that end them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from weft.dialects.expr import Expr
from weft.dialects.expr_text import parse_expr
from weft.dialects.loop.types import BufferType, ExprsAttr, format_exprs

POLLED_WORK = 1 << 20
"""After how much work, in operations and bytes, a program asks whether to continue: a millisecond
at most, and long enough for asking to cost nothing.
"""

NATIVE_CODE = BaseAttr(StringAttr) | BaseAttr(IntegerAttr)
"""A function of the user's: an object file in base 64, or an address of this process."""


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Prints a text with what buffers hold in its places:
    `loop.print "x = {}\\0A"(%x) : !loop.buffer<[n], f32>`.
    """

    name = "loop.print"
    text: StringAttr = prop_def(StringAttr)
    values: Sequence[SSAValue] = var_operand_def(BufferType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$text (`(` $values^ `)` `:` type($values))? attr-dict"

    @staticmethod
    def of(text: str, values: Sequence[SSAValue]) -> PrintOp:
        """The operation that prints buffers."""
        return PrintOp.create(operands=values, properties={"text": StringAttr(text)})


@irdl_op_definition
class HostCallOp(IRDLOperation):
    """Runs a function of the host, which reads buffers and fills others:
    `loop.host_call "f({float32,1,}) -> ()"(%x) -> () : (!loop.buffer<[n], f32>) -> ()`.
    """

    name = "loop.host_call"
    text: StringAttr = prop_def(StringAttr)
    sources: Sequence[SSAValue] = var_operand_def(BufferType)
    targets: Sequence[SSAValue] = var_operand_def(BufferType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$text `(` $sources `)` `->` `(` $targets `)` attr-dict `:` "
        "`(` type($sources) `)` `->` `(` type($targets) `)`"
    )

    @staticmethod
    def of(text: str, sources: Sequence[SSAValue], targets: Sequence[SSAValue]) -> HostCallOp:
        """The operation that hands buffers to a function of the host."""
        return HostCallOp(operands=[sources, targets], properties={"text": StringAttr(text)})


@irdl_op_definition
class NativeCallOp(IRDLOperation):
    """Calls the `function` of an object file, whose bytes `code` has in base 64, or at an address
    of this process, with the addresses of buffers that it reads and fills, then sizes:
    `loop.native_call "f"(%x) -> (%y) sizes <[n]> code "f0VM" : (T) -> (U)`.
    """

    name = "loop.native_call"
    function: StringAttr = prop_def(StringAttr)
    sizes: ExprsAttr = prop_def(ExprsAttr)
    code: StringAttr | IntegerAttr[IntegerType | IndexType] = prop_def(NATIVE_CODE)
    sources: Sequence[SSAValue] = var_operand_def(BufferType)
    targets: Sequence[SSAValue] = var_operand_def(BufferType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$function `(` $sources `)` `->` `(` $targets `)` `sizes` $sizes `code` $code attr-dict "
        "`:` `(` type($sources) `)` `->` `(` type($targets) `)`"
    )

    @property
    def content(self) -> bytes | None:
        """The object file; None for a function of this process."""
        return base64.b64decode(self.code.data) if isinstance(self.code, StringAttr) else None

    @property
    def unit(self) -> str:
        """The name of the object file in an artifact, by its content."""
        return f"native.{hashlib.sha256(self.content or b'').hexdigest()[:16]}"

    @property
    def callee(self) -> str | int:
        """The name of the function there, behind the artifact's prefix, or its address."""
        if isinstance(self.code, IntegerAttr):
            return self.code.value.data
        return f"{self.unit}.{self.function.data}"

    @staticmethod
    def of(
        function: str,
        code: StringAttr | IntegerAttr[IntegerType | IndexType],
        sizes: Sequence[Expr],
        sources: Sequence[SSAValue],
        targets: Sequence[SSAValue],
    ) -> NativeCallOp:
        """The operation that calls a function with buffers and sizes."""
        properties = {
            "function": StringAttr(function), "code": code, "sizes": ExprsAttr(tuple(sizes)),
        }  # fmt: skip
        return NativeCallOp(operands=[sources, targets], properties=properties)


@irdl_op_definition
class AssertOp(IRDLOperation):
    """The program fails where a condition does not hold, with numbers in the places of its text:
    `loop.assert %c "assert requires n > 0, got {}"(%n) : i1, i64`.
    """

    name = "loop.assert"
    condition: SSAValue = operand_def(IntegerType(1))
    text: StringAttr = prop_def(StringAttr)
    values: Sequence[SSAValue] = var_operand_def()
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition $text (`(` $values^ `)`)? `:` type(operands) attr-dict"

    @staticmethod
    def of(condition: SSAValue, text: str, values: Sequence[SSAValue]) -> AssertOp:
        """The operation that requires a condition."""
        return AssertOp.create(operands=[condition, *values], properties={"text": StringAttr(text)})


@irdl_op_definition
class PollOp(IRDLOperation):
    """The program may be told to end here, so much work after the last such place:
    `loop.poll [124 + 8 * n]`, in operations and bytes.
    """

    name = "loop.poll"
    work: ExprsAttr = prop_def(ExprsAttr)
    traits = traits_def(MemoryWriteEffect())

    @staticmethod
    def of(work: Expr) -> PollOp:
        """The operation for an expression over sizes."""
        return PollOp.create(properties={"work": ExprsAttr((work,))})

    @classmethod
    def parse(cls, parser: Parser) -> PollOp:
        parser.parse_punctuation("[")
        work = parse_expr(parser)
        parser.parse_punctuation("]")
        return cls.of(work)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {format_exprs(self.work.data)}")


OPS = (PrintOp, HostCallOp, NativeCallOp, AssertOp, PollOp)
