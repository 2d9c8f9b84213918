"""What programs say of derivatives: values that have none, regions that are computed again for
them, and regions with a rule of their own.

The regions are part of the graph around them once nothing is differentiated any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, LocationAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, region_def, traits_def
from xdsl.traits import Pure

from weft.dialects.graph.core.elementwise import PassThroughOp
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.graph.regions.control import (
    ControlOp,
    Evaluation,
    Regions,
    defined_sizes,
    handed_types,
)
from weft.dialects.weights import Array


@irdl_op_definition
class StopGradientOp(PassThroughOp):
    """The operand itself, which counts as a constant where the result is differentiated."""

    name = "graph.stop_gradient"


class InlinedOp(ControlOp):
    """A region that runs once, where the operator stands."""

    traits = traits_def(Pure())

    def require_static_sizes(self, tensor_types: Sequence[TensorType]) -> None:
        """Refuses results of sizes that are found inside."""
        inner = {name for op in self.regions[0].walk() for name in defined_sizes(op)}
        found = [each for each in tensor_types if not inner.isdisjoint(each.size.symbols())]
        self.require(not found, "results of sizes that are known around it", found)


@irdl_op_definition
class CheckpointOp(InlinedOp):
    """Yields what its region does; a derivative keeps nothing of the region and computes it again.

    %y = graph.checkpoint : () -> T { ... graph.yield %a : T }

    Operators inside are never merged with equal ones around it.
    """

    name = "graph.checkpoint"
    body: Region = region_def("single_block")

    @staticmethod
    def of(body: Block, location: LocationAttr | None = None) -> CheckpointOp:
        """The operator on a block that ends in `graph.yield`."""
        return CheckpointOp._build([], [body], {}, location)

    def infer(self) -> list[TensorType]:
        self.require(not self.body.block.args, "a region without arguments", self.body.block.args)
        tensor_types = handed_types(self.body)
        self.require_static_sizes(tensor_types)
        return tensor_types

    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        return regions.run(self.body, [], {}), {}


@irdl_op_definition
class CustomVjpOp(InlinedOp):
    """Yields what `body` does of the operands, and has the derivative that the second region says.

        %y, %r = graph.custom_vjp %x {residuals = 1} : (T) -> (U, V) {
        ^body(%a: T):
          ...
          graph.yield %b, %saved : U, V
        } vjp {
        ^derivative(%saved: V, %dy: U):
          ...
          graph.yield %dx : T
        }

    The last `residuals` results are what the derivative reads; it takes them and the cotangents of
    the others, and yields a cotangent for each operand.
    """

    name = "graph.custom_vjp"
    BETWEEN: ClassVar[str] = "vjp"
    residuals: IntAttr | None = opt_prop_def(IntAttr)
    body: Region = region_def("single_block")
    derivative: Region = region_def("single_block")

    @staticmethod
    def of(
        operands: Sequence[SSAValue],
        body: Block,
        derivative: Block,
        residuals: int = 0,
        location: LocationAttr | None = None,
    ) -> CustomVjpOp:
        """The operator on two blocks that end in `graph.yield`."""
        properties = {"residuals": IntAttr(residuals) if residuals else None}
        return CustomVjpOp._build(operands, [body, derivative], properties, location)

    @property
    def saved(self) -> int:
        """How many of the results the derivative reads."""
        return 0 if self.residuals is None else self.residuals.data

    def infer(self) -> list[TensorType]:
        given, tensor_types = [type_of(each) for each in self.operands_], handed_types(self.body)
        taken = [type_of(each) for each in self.body.block.args]
        self.require(taken == given, "arguments of the operands' types", taken)
        self.require_static_sizes(tensor_types)
        visible = len(tensor_types) - self.saved
        wanted = [*tensor_types[visible:], *tensor_types[:visible]]
        read = [type_of(each) for each in self.derivative.block.args]
        rule = f"a derivative of ({', '.join(map(str, wanted))})"
        self.require(read == wanted, rule, f"({', '.join(map(str, read))})")
        found = handed_types(self.derivative)
        rule = f"a derivative that yields ({', '.join(map(str, given))})"
        self.require(found == given, rule, f"({', '.join(map(str, found))})")
        return tensor_types

    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        return regions.run(self.body, operands, {}), {}


OPS = (StopGradientOp,)
CONTROL_OPS = (CheckpointOp, CustomVjpOp)
