"""`GraphBuilder`: inserts graph operators one after the other, by name: `b.mul(x, b.exp(y))`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.op import AttributeValue, GraphOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.weights import Array


class GraphBuilder:
    """Inserts operators of `ops` (by name, without the dialect's prefix) at a place in the graph.

    `b.add(x, y)` inserts `graph.add` and returns its one result;
    `b.op("split", x, ...)` returns the operator.
    """

    def __init__(
        self,
        at: InsertPoint,
        ops: Mapping[str, type[GraphOp]],
        location: LocationAttr | None = None,
    ):
        self.builder = Builder(at)
        self.ops = ops
        self.location = location

    def op(self, name: str, *operands: SSAValue | None, **attributes: AttributeValue) -> GraphOp:
        """Inserts the operator of that name and returns it."""
        if name not in self.ops:
            raise UnsupportedError(f"graph requires a known operator, got {name}")
        return self.builder.insert(
            self.ops[name].of(*operands, location=self.location, **attributes)
        )

    def __getattr__(self, name: str) -> Callable[..., SSAValue]:
        def insert(*operands: SSAValue | None, **attributes: AttributeValue) -> SSAValue:
            return self.op(name, *operands, **attributes).results[0]

        return insert

    def constant_of(self, value: float | Sequence[int] | Array, element: Attribute) -> SSAValue:
        """A small constant of the element type: a scalar for a number."""
        return self.builder.insert(
            ConstantOp.small(np.asarray(value), element, self.location)
        ).results[0]

    def filled(self, value: float, like: SSAValue) -> SSAValue:
        """A tensor of one value, of the type of `like`."""
        tensor_type = type_of(like)
        return self.expand(self.constant_of(value, tensor_type.element), shape=tensor_type.dims)
