"""`graph.if` and `graph.case`: one of several regions runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, region_def, traits_def, var_region_def
from xdsl.traits import Pure

from weft.dialects.errors import TypeInferenceError
from weft.dialects.graph.core.types import BOOL, INTEGERS, TensorType, tensor, type_of
from weft.dialects.graph.regions.control import (
    ControlOp,
    Evaluation,
    Regions,
    handed_types,
    join,
    measured,
    names_attr,
)
from weft.dialects.weights import Array


class BranchOp(ControlOp):
    """What `graph.if` and `graph.case` share: one of the regions runs and yields the results."""

    traits = traits_def(Pure())

    def infer(self) -> list[TensorType]:
        for region in self.regions:
            self.require(not region.block.args, "regions without arguments", len(region.block.args))
        branch_types = [handed_types(region) for region in self.regions]
        counts = {len(each) for each in branch_types}
        self.require(len(counts) == 1, "as many results from each region", sorted(counts))
        names = iter(self.size_names)
        try:
            return [join(column, names, self.name) for column in zip(*branch_types, strict=True)]
        except (StopIteration, RuntimeError) as error:
            rule = "a name in sizes for each dim that differs"
            raise TypeInferenceError(f"{self.name} requires {rule}, got {self.sizes}") from error

    def choose(self, regions: Regions, region: Region) -> Evaluation:
        """Evaluates the region that is taken."""
        results = regions.run(region, [], {})
        return results, measured(self.results_, results, self.size_names)


@irdl_op_definition
class IfOp(BranchOp):
    """Yields what the first region does where the condition holds, else what the second does.

    %y = graph.if %c : (!graph.tensor<[], i1>) -> T { ... graph.yield %a : T }
        else { ... graph.yield %b : T }
    """

    name = "graph.if"
    then: Region = region_def("single_block")
    otherwise: Region = region_def("single_block")

    @staticmethod
    def of(
        condition: SSAValue,
        then: Block,
        otherwise: Block,
        sizes: Sequence[str] = (),
        location: LocationAttr | None = None,
    ) -> IfOp:
        """The operator on a bool of rank 0 and two blocks that end in `graph.yield`."""
        names = names_attr(sizes) if sizes else None
        return IfOp._build([condition], [then, otherwise], {"sizes": names}, location)

    def infer(self) -> list[TensorType]:
        condition = type_of(self.operands_[0])
        self.require(condition == tensor([], BOOL), "a bool of rank 0 as condition", condition)
        return super().infer()

    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        return self.choose(regions, self.then if operands[0] else self.otherwise)


@irdl_op_definition
class CaseOp(BranchOp):
    """Yields what the region of the operand's number does; what no number names is the last one's.

    %y = graph.case %i : (!graph.tensor<[], i64>) -> T { ... } or { ... } or { ... }
    """

    name = "graph.case"
    BETWEEN: ClassVar[str] = "or"
    branches: Sequence[Region] = var_region_def("single_block")

    @staticmethod
    def of(
        selector: SSAValue,
        branches: Sequence[Block],
        sizes: Sequence[str] = (),
        location: LocationAttr | None = None,
    ) -> CaseOp:
        """The operator on an integer of rank 0 and blocks that end in `graph.yield`."""
        names = names_attr(sizes) if sizes else None
        return CaseOp._build([selector], branches, {"sizes": names}, location)

    def infer(self) -> list[TensorType]:
        tensor_type = type_of(self.operands_[0])
        scalar = tensor_type.has_rank and tensor_type.rank == 0 and tensor_type.element in INTEGERS
        self.require(scalar, "an integer of rank 0 as selector", tensor_type)
        self.require(len(self.regions) > 0, "at least one region", 0)
        return super().infer()

    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        number, last = int(operands[0]), len(self.regions) - 1
        return self.choose(regions, self.regions[number if 0 <= number < last else last])


OPS = (IfOp, CaseOp)
