"""Floats of at most 8 bits and integers of 2 and 4, which the graph stores and does not compute in:
operators are imported in f32 and in 8 bits, and their results rounded once, or cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.compiler.frontend.stablehlo.types import (
    Declared,
    declared,
    is_complex,
    is_token,
    leaves_of,
)
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import STORED
from weft.dialects.loop.scalar import compute_type
from weft.dialects.stablehlo.op import HloOp

BY_THEMSELVES: Final = tuple(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert",
        "constant",
        "convert",
        "custom_call",
        "get_tuple_element",
        "tuple",
    )
)
"""Operators whose importers take narrow types as they are."""


def is_narrow(op: HloOp) -> bool:
    """Whether an operator takes or returns tensors of narrow types."""
    types = [leaf for each in (*op.operands, *op.results) for leaf in leaves_of(each.type)]
    tensors = (each for each in types if not is_token(each) and not is_complex(each))
    return any(declared(each).element in STORED for each in tensors)


def wide(term: Term) -> Term:
    """The tensor in the type that its element type is computed in, if that is another."""
    element = term.type.element
    return term.cast(compute_type(element)) if element in STORED else term


class WideNode(Node):
    """A node whose narrow operands and results are wide. Values in regions are as written."""

    @property
    def results(self) -> list[Declared]:
        """The types of the results, wide ones for narrow ones."""
        return [
            Declared(each.shape, compute_type(each.element)) if each.element in STORED else each
            for each in super().results
        ]

    def body(
        self, arguments: Sequence[Term], position: int = 0, b: GraphBuilder | None = None
    ) -> list[Term]:
        """What a region hands back, wide."""
        return [
            wide(each) for each in super().body(self._narrowed(arguments, position), position, b)
        ]

    def applied(
        self,
        arguments: Sequence[Term],
        b: GraphBuilder | None = None,
        position: int = 0,
        wanted: Sequence[SSAValue] | None = None,
    ) -> list[Term]:
        """What a region of scalars gives, wide."""
        narrowed = self._narrowed(arguments, position)
        return [wide(each) for each in super().applied(narrowed, b, position, wanted)]

    def _narrowed(self, arguments: Sequence[Term], position: int) -> list[Term]:
        """The arguments of a region in the types that it is written with."""
        written = [each.type for each in self.op.regions[position].block.args]
        if any(map(is_complex, written)):
            return list(arguments)
        return [
            as_written(each, declared(kind).element)
            for each, kind in zip(arguments, written, strict=True)
        ]


def as_written(term: Term, element: Attribute) -> Term:
    """A wide tensor in the narrow type that it is written with."""
    return term.cast(element) if element in STORED else term


def in_wide(importer: HloImporter) -> HloImporter:
    """The operator on wide operands, its results narrow as they are written."""

    def build(node: Node) -> Sequence[Term]:
        operands = [wide(each) for each in node.operands]
        found = importer(WideNode(node.scope, node.op, node.b, operands, node.elementwise))
        return [
            as_written(term, kind.element) for term, kind in zip(found, node.results, strict=True)
        ]

    return build
