"""`graph.send` and `graph.recv`: what one rank of a group gives to another one.

They act, so they stay in their order: the messages from one rank to another are received in the
order in which they are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, LocationAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from weft.dialects.graph.core.types import TensorType
from weft.dialects.graph.mesh.attributes import MeshAttr
from weft.dialects.graph.regions.effects import EffectOp


class MessageOp(EffectOp):
    """One end of a message in the group along `axes`, to or from the rank of index `peer` in it;
    both ends have its `number`.
    """

    mesh: MeshAttr = prop_def(MeshAttr)
    axes: ArrayAttr[StringAttr] = prop_def(ArrayAttr[StringAttr])
    peer: IntegerAttr[Any] = prop_def(IntegerAttr)
    number: IntegerAttr[Any] = prop_def(IntegerAttr)
    irdl_options = (ParsePropInAttrDict(),)

    @staticmethod
    def group(mesh: MeshAttr, axes: Sequence[str], peer: int, number: int) -> dict[str, Attribute]:
        """The attributes."""
        return {
            "axes": ArrayAttr(map(StringAttr, axes)),
            "mesh": mesh,
            "number": IntegerAttr(number, i64),
            "peer": IntegerAttr(peer, i64),
        }

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The axes of the mesh along which the group lies."""
        return tuple(each.data for each in self.axes)

    def verify_(self) -> None:
        names, peer = self.axis_names, self.peer.value.data
        if not set(names) <= set(self.mesh.sizes) or len(set(names)) < len(names):
            got = ", ".join(names)
            raise VerifyException(f"{self.name} requires axes of the mesh, each once, got {got}")
        if not 0 <= peer < self.mesh.parts(names):
            rule = f"an index below {self.mesh.parts(names)} as peer"
            raise VerifyException(f"{self.name} requires {rule}, got {peer}")


@irdl_op_definition
class SendOp(MessageOp):
    """Sends a value: `graph.send %x {axes = ["stage"], mesh = ..., number = 0, peer = 1} : T`."""

    name = "graph.send"
    operand: SSAValue = operand_def(TensorType)
    assembly_format = "$operand attr-dict `:` type($operand)"

    @classmethod
    def of(
        cls, value: SSAValue, group: dict[str, Attribute], location: LocationAttr | None = None
    ) -> SendOp:
        """The operator, of the attributes that `group` gives."""
        return cls.create(operands=[value], properties=group, location=location)


@irdl_op_definition
class RecvOp(MessageOp):
    """Receives a value: `%y = graph.recv {axes = ["stage"], ..., number = 0, peer = 0} : T`."""

    name = "graph.recv"
    result: SSAValue = result_def(TensorType)
    assembly_format = "attr-dict `:` type($result)"

    @classmethod
    def of(
        cls, value_type: Attribute, group: dict[str, Attribute], location: LocationAttr | None
    ) -> RecvOp:
        """The operator, of the attributes that `group` gives."""
        return cls.create(result_types=[value_type], properties=group, location=location)


OPS = (SendOp, RecvOp)
