"""Operators that act instead of computing: what a program prints, what it requires of values, and
functions of the host that it calls.

They are no functions of tensors: they stand where the program has them, in its order, are never
merged or left out, and run each time that they are reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import LocationAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from weft.dialects.graph.core.types import BOOL, F64, I64, TensorType, type_of
from weft.dialects.printed import placeholders


class EffectOp(IRDLOperation):
    """An operator that acts on the world."""

    def require_values(self, text: str, count: int) -> None:
        """Raises VerifyException unless there are as many values as places in a text."""
        position = len(placeholders(text))
        if position != count:
            got = f"{count} for {position}"
            raise VerifyException(f"{self.name} requires a value for each place, got {got}")


@irdl_op_definition
class PrintOp(EffectOp):
    """Prints a text with the values of tensors in its places.

        graph.print "x = {}, mean {float:.3f}\\0A"(%x, %m) : T, U

    A place is `{}`, or says what Python takes a scalar for (`{int}`, `{float}`, `{bool}`), that it
    is shown as by `repr` (`{r}`), and how it is formatted, behind a colon; `{{` is a brace.
    """

    name = "graph.print"
    text: StringAttr = prop_def(StringAttr)
    values: Sequence[SSAValue] = var_operand_def(TensorType)
    assembly_format = "$text (`(` $values^ `)` `:` type($values))? attr-dict"

    @staticmethod
    def of(text: str, values: Sequence[SSAValue], location: LocationAttr | None = None) -> PrintOp:
        """The operator that prints that text."""
        return PrintOp.create(
            operands=values, properties={"text": StringAttr(text)}, location=location
        )

    def verify_(self) -> None:
        self.require_values(self.text.data, len(self.values))


@irdl_op_definition
class HostCallOp(EffectOp):
    """Calls a function of the host with tensors, for tensors of types that are stated.

    %y = graph.host_call "name"(%x) : (T) -> U
    """

    name = "graph.host_call"
    function: StringAttr = prop_def(StringAttr)
    values: Sequence[SSAValue] = var_operand_def(TensorType)
    found: Sequence[SSAValue] = var_result_def(TensorType)
    assembly_format = "$function `(` $values `)` attr-dict `:` functional-type($values, $found)"

    @staticmethod
    def of(
        function: str,
        values: Sequence[SSAValue],
        found: Sequence[TensorType],
        location: LocationAttr | None = None,
    ) -> HostCallOp:
        """The operator that calls the function of that name."""
        return HostCallOp.create(
            operands=values,
            properties={"function": StringAttr(function)},
            result_types=found,
            location=location,
        )


@irdl_op_definition
class AssertOp(EffectOp):
    """Ends the program with an error where a bool does not hold; `{}` in the text are integers and
    floats of 64 bits.

        graph.assert %held "assert requires n > 0, got {}"(%n) : B, T
    """

    name = "graph.assert"
    condition: SSAValue = operand_def(TensorType)
    text: StringAttr = prop_def(StringAttr)
    values: Sequence[SSAValue] = var_operand_def(TensorType)
    assembly_format = "$condition $text (`(` $values^ `)`)? `:` type(operands) attr-dict"

    @staticmethod
    def of(
        condition: SSAValue,
        text: str,
        values: Sequence[SSAValue] = (),
        location: LocationAttr | None = None,
    ) -> AssertOp:
        """The operator that requires a condition."""
        return AssertOp.create(
            operands=[condition, *values], properties={"text": StringAttr(text)}, location=location
        )

    def verify_(self) -> None:
        self.require_values(self.text.data, len(self.values))
        tensor_type = type_of(self.condition)
        if tensor_type.rank or tensor_type.element != BOOL:
            raise VerifyException(f"{self.name} requires one bool, got {tensor_type}")
        for value in self.values:
            shown = type_of(value)
            if shown.rank or shown.element not in (I64, F64):
                raise VerifyException(f"{self.name} shows one i64 or f64, got {shown}")


def has_effects(op: Operation) -> bool:
    """Whether an operator, or one inside its regions, acts."""
    return any(isinstance(each, EffectOp) for each in op.walk())


def drop_effects(op: Operation) -> None:
    """Removes what acts inside of an operator: of a copy, which computes again."""
    for inner in [each for each in op.walk() if isinstance(each, EffectOp)]:
        inner.detach()
        inner.erase()


OPS = (PrintOp, HostCallOp, AssertOp)
