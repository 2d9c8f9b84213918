"""What programs of several ranks have: the rank, collectives, started and waited for, and messages
from one rank to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.loop.types import BufferType, buffer_type_of

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
"""What ranks do together; their numbers in the run-time ABI are the positions here."""

REDUCTIONS = ("sum", "max", "min")
"""With what; numbered in the same way. What is gathered has none, and is a sum."""


class GroupOp(IRDLOperation):
    """What is about the groups of ranks along axes of these sizes, whose neighbours are so many
    ranks apart.
    """

    sizes: DenseArrayBase[IntegerType] = prop_def(DenseArrayBase.constr(i64))
    strides: DenseArrayBase[IntegerType] = prop_def(DenseArrayBase.constr(i64))
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def axes(self) -> list[tuple[int, int]]:
        """The size and the stride of each axis."""
        return list(zip(self.sizes.get_values(), self.strides.get_values(), strict=True))

    @property
    def members(self) -> int:
        """How many ranks a group has."""
        count = 1
        for size, _ in self.axes:
            count *= size
        return count


def group_properties(axes: Sequence[tuple[int, int]]) -> dict[str, Attribute]:
    """The attributes of a group along axes of these sizes and strides."""
    sizes, strides = ([axis[at] for axis in axes] for at in (0, 1))
    return {
        "sizes": DenseArrayBase.from_list(i64, sizes),
        "strides": DenseArrayBase.from_list(i64, strides),
    }


@irdl_op_definition
class RankOp(GroupOp):
    """The index of the rank in its group: `%r = loop.rank {sizes = ..., strides = ...} : i64`."""

    name = "loop.rank"
    result: SSAValue = result_def(i64)
    assembly_format = "attr-dict `:` type($result)"

    @classmethod
    def of(cls, axes: Sequence[tuple[int, int]]) -> Self:
        """The index along these axes."""
        return cls.create(properties=group_properties(axes), result_types=[i64])


class CommunicationOp(GroupOp):
    """A collective from one buffer to another: `operation` out of COLLECTIVES, and the `number`
    that it has in the program.
    """

    source: SSAValue = operand_def(BufferType)
    target: SSAValue = operand_def(BufferType)
    operation: StringAttr = prop_def(StringAttr)
    reduction: StringAttr = prop_def(StringAttr)
    number: IntegerAttr[Any] = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$source `,` $target attr-dict `:` type($source) `,` type($target)"

    @classmethod
    def of(
        cls,
        operation: str,
        reduction: str,
        source: SSAValue,
        target: SSAValue,
        axes: Sequence[tuple[int, int]],
        number: int,
    ) -> Self:
        """The collective of that number."""
        own = {
            "operation": StringAttr(operation),
            "reduction": StringAttr(reduction),
            "number": IntegerAttr(number, i64),
        }
        properties = dict(sorted((group_properties(axes) | own).items()))
        return cls.create(operands=[source, target], properties=properties)

    def verify_(self) -> None:
        source, target = buffer_type_of(self.source), buffer_type_of(self.target)
        scale = {"all_gather": (self.members, 1), "reduce_scatter": (1, self.members)}
        before, behind = scale.get(self.operation.data, (1, 1))
        same = source.size * before == target.size * behind
        if self.operation.data not in COLLECTIVES or self.reduction.data not in REDUCTIONS:
            got = f"{self.operation.data} and {self.reduction.data}"
            raise VerifyException(f"{self.name} requires a known collective, got {got}")
        if not same or source.element != target.element:
            rule = f"buffers that fit {self.members} ranks"
            raise VerifyException(f"{self.name} requires {rule}, got {source} and {target}")


@irdl_op_definition
class StartOp(CommunicationOp):
    """Starts a collective: its buffers are its own until it is waited for."""

    name = "loop.start"


@irdl_op_definition
class WaitOp(CommunicationOp):
    """Ends a collective: the target holds its result from here on."""

    name = "loop.wait"


def is_sum(op: GroupOp) -> bool:
    """Whether an operation is of an all-reduce, whose target may be where its source is."""
    return isinstance(op, CommunicationOp) and op.operation.data == "all_reduce"


class MessageOp(GroupOp):
    """One end of a message between this rank and that of index `peer` in its group, which has the
    same `number` in the program: the bytes of a buffer.
    """

    buffer: SSAValue = operand_def(BufferType)
    peer: IntegerAttr[Any] = prop_def(IntegerAttr)
    number: IntegerAttr[Any] = prop_def(IntegerAttr)
    assembly_format = "$buffer attr-dict `:` type($buffer)"

    @classmethod
    def of(cls, buffer: SSAValue, axes: Sequence[tuple[int, int]], peer: int, number: int) -> Self:
        """The message of that number."""
        own = {"number": IntegerAttr(number, i64), "peer": IntegerAttr(peer, i64)}
        properties = dict(sorted((group_properties(axes) | own).items()))
        return cls.create(operands=[buffer], properties=properties)


def communications(program: Operation) -> list[WaitOp | MessageOp]:
    """What a program does together with other ranks, in its order."""
    return [op for op in program.walk() if isinstance(op, WaitOp | MessageOp)]


@irdl_op_definition
class SendOp(MessageOp):
    """Sends what a buffer holds, which may be overwritten behind it."""

    name = "loop.send"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class RecvOp(MessageOp):
    """Fills a buffer with what was sent."""

    name = "loop.recv"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


OPS = (RankOp, StartOp, WaitOp, SendOp, RecvOp)
