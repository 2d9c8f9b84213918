"""`graph.for` and `graph.while`: a region runs again and again on what it carries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import LocationAttr, StringAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, region_def, traits_def
from xdsl.traits import Pure

from weft.dialects.expr import Expr, maximum
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import BOOL, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.regions.control import (
    ControlOp,
    Evaluation,
    Regions,
    defined_sizes,
    handed_types,
    match_dims,
    measured,
    names_attr,
)
from weft.dialects.weights import Array


class RepeatOp(ControlOp):
    """What `graph.for` and `graph.while` share: a body that takes and yields the carried values.

    What else the body yields is stacked along a new first axis, an element an iteration. Regions
    know the number of the iteration, from 0, as the size `index`. A carried dim that varies has a
    name in `sizes`, which inside is its value in this iteration and behind the operator the last.
    """

    index: StringAttr = prop_def(StringAttr)
    traits = traits_def(Pure())

    @property
    @abstractmethod
    def repeated(self) -> Region:
        """The body."""

    @property
    @abstractmethod
    def iterations(self) -> Expr:
        """How many iterations ran."""

    @property
    def carried_types(self) -> list[TensorType]:
        """The types of the carried values."""
        return [type_of(argument) for argument in self.repeated.block.args]

    def inner_sizes(self) -> set[str]:
        """The sizes that are known inside the body only, or differ from iteration to iteration."""
        inner = {self.index.data, *self.size_names}
        for op in self.repeated.walk():
            inner.update(defined_sizes(op))
        return inner

    def infer(self) -> list[TensorType]:
        carried = self.carried_types
        handed = handed_types(self.repeated)
        self.require(len(self.operands_) == len(carried), "as many operands as arguments", carried)
        self.require(len(handed) >= len(carried), f"{len(carried)} results or more", len(handed))
        for pattern, operand, result in zip(carried, self.operands_, handed, strict=False):
            match_dims(pattern, type_of(operand), self.size_names)
            match_dims(pattern, result, self.size_names)
        inner = self.inner_sizes()
        stacked: list[TensorType] = []
        for tensor_type in handed[len(carried) :]:
            varying = [str(dim) for dim in tensor_type.shape if not inner.isdisjoint(dim.symbols())]
            self.require(not varying, "stacked values of one shape in all iterations", varying)
            stacked.append(tensor([self.iterations, *tensor_type.shape], tensor_type.element))
        return carried + stacked

    def evaluate(
        self,
        regions: Regions,
        operands: Sequence[Array],
        goes_on: Callable[[list[Array], int], bool],
    ) -> tuple[Evaluation, int]:
        """Runs iterations as long as that holds of the carried arrays and the iteration's number;
        returns how many they were too.
        """
        state, number = list(operands), 0
        rows = handed_types(self.repeated)[len(state) :]
        stacks = [list[Array]() for _ in rows]
        while goes_on(state, number):
            handed = regions.run(self.repeated, state, self.iteration_sizes(state, number))
            state = handed[: len(operands)]
            for stack, array in zip(stacks, handed[len(operands) :], strict=True):
                stack.append(array)
            number += 1
        arrays = [
            np.stack(stack) if stack else _no_rows(regions, row)
            for stack, row in zip(stacks, rows, strict=True)
        ]
        sizes = measured(self.repeated.block.args, state, self.size_names)
        return (state + arrays, sizes), number

    def iteration_sizes(self, state: Sequence[Array], number: int) -> dict[str, int]:
        """The sizes that an iteration sees."""
        arguments = self.repeated.block.args
        return {self.index.data: number} | measured(arguments, state, self.size_names)


def _no_rows(regions: Regions, row: TensorType) -> Array:
    dims = [regions.extent(dim) for dim in row.shape]
    return np.zeros((0, *dims), numpy_dtype(row.element))


@irdl_op_definition
class ForOp(RepeatOp):
    """Runs the body `count` times.

    %y, %all = graph.for %x {count = #graph.shape<[n]>, index = "i"} : (T) -> (T, U) {
    ^body(%state: T):
      ...
      graph.yield %next, %element : T, V
    }
    """

    name = "graph.for"
    count: ShapeAttr = prop_def(ShapeAttr)
    body: Region = region_def("single_block")

    @staticmethod
    def of(
        count: Expr,
        index: str,
        carried: Sequence[SSAValue],
        body: Block,
        sizes: Sequence[str] = (),
        location: LocationAttr | None = None,
    ) -> ForOp:
        """The loop over a block whose arguments are the carried values."""
        properties = {
            "count": ShapeAttr((count,)),
            "index": StringAttr(index),
            "sizes": names_attr(sizes) if sizes else None,
        }
        return ForOp._build(carried, [body], properties, location)

    @property
    def repeated(self) -> Region:
        return self.body

    @property
    def iterations(self) -> Expr:
        assert self.count.data is not None, "a loop lists its count"
        return maximum([self.count.data[0], 0])

    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        count = regions.extent(self.iterations)
        return self.evaluate(regions, operands, lambda _, number: number < count)[0]


@irdl_op_definition
class WhileOp(RepeatOp):
    """Runs the body as long as the condition holds of the carried values.

        %y = graph.while %x {index = "i", count = "iterations"} : (T) -> T {
        ^condition(%state: T):
          ...
          graph.condition %holds : !graph.tensor<[], i1>
        } do {
        ^body(%state: T):
          ...
          graph.yield %next : T
        }

    `count` names how many iterations ran.
    """

    name = "graph.while"
    BETWEEN: ClassVar[str] = "do"
    count: StringAttr = prop_def(StringAttr)
    condition: Region = region_def("single_block")
    body: Region = region_def("single_block")

    @staticmethod
    def of(
        index: str,
        count: str,
        carried: Sequence[SSAValue],
        condition: Block,
        body: Block,
        sizes: Sequence[str] = (),
        location: LocationAttr | None = None,
    ) -> WhileOp:
        """The loop over two blocks whose arguments are the carried values."""
        properties = {
            "index": StringAttr(index),
            "count": StringAttr(count),
            "sizes": names_attr(sizes) if sizes else None,
        }
        return WhileOp._build(carried, [condition, body], properties, location)

    @property
    def repeated(self) -> Region:
        return self.body

    @property
    def iterations(self) -> Expr:
        return Expr.of(self.count.data)

    def infer(self) -> list[TensorType]:
        tensor_types = [type_of(argument) for argument in self.condition.block.args]
        self.require(
            tensor_types == self.carried_types, "regions with the same arguments", tensor_types
        )
        condition = handed_types(self.condition)
        self.require(condition == [tensor([], BOOL)], "a bool of rank 0 as condition", condition)
        return super().infer()

    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        def goes_on(state: list[Array], number: int) -> bool:
            holds = regions.run(self.condition, state, self.iteration_sizes(state, number))
            return bool(holds[0])

        (results, sizes), count = self.evaluate(regions, operands, goes_on)
        return results, sizes | {self.count.data: count}

    @property
    def defined_sizes(self) -> list[str]:
        return [*self.size_names, self.count.data]


OPS = (ForOp, WhileOp)
