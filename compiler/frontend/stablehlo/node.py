"""`Node`: one operator of StableHLO while it is imported, with its operands on the graph level."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from msgspec import Struct
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from weft.compiler.frontend.onnx.constant_values import ConstantValues
from weft.compiler.frontend.stablehlo.types import (
    Declared,
    declared,
    dense_integers,
    leaves_of,
    parts_of,
)
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import BindSizesOp, ConstantOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import ints
from weft.dialects.stablehlo.attributes import RecordAttr, WordAttr
from weft.dialects.stablehlo.op import HloOp
from weft.dialects.weights import Array, WeightStore


class Scope(Protocol):
    """What a node reaches of the module that it stands in."""

    store: WeightStore
    elided: Mapping[Operation, Array]
    constants: ConstantValues

    def import_block(
        self,
        block: Block,
        arguments: Sequence[Term],
        b: GraphBuilder,
        *,
        elementwise: bool = False,
        wanted: Sequence[SSAValue] | None = None,
    ) -> list[Term]:
        """What a block hands back for these arguments, or values of its own, inserted by the
        builder.
        """
        ...

    def call(
        self, name: str, arguments: Sequence[Term], b: GraphBuilder, *, elementwise: bool = False
    ) -> list[Term]:
        """What a function of the module returns."""
        ...

    def fresh_name(self, stem: str) -> str:
        """A name that no size has yet."""
        ...


class Node(Struct):
    """An operator, its operands and the builder that inserts what it becomes: a complex operand is
    two, its real and its imaginary parts, and so is a complex result. In a body that is applied
    `elementwise`, values have more dims than they are written with.
    """

    scope: Scope
    op: HloOp
    b: GraphBuilder
    operands: list[Term]
    elementwise: bool = False

    @property
    def written(self) -> Mapping[str, Attribute]:
        """The attributes that the operator is written with."""
        return self.op.written

    @property
    def results(self) -> list[Declared]:
        """The types that the results are written with."""
        return [
            declared(leaf)
            for result in self.op.results
            for leaf in leaves_of(result.type)
            for _ in range(parts_of(leaf))
        ]

    @property
    def result(self) -> Declared:
        """The type that the one result is written with."""
        return self.results[0]

    @property
    def only(self) -> Term:
        """The one operand."""
        return self.operands[0]

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """A list of integers."""
        value = self.written.get(name)
        if isinstance(value, DenseArrayBase):
            return list(ints(cast("DenseArrayBase[Any]", value)))
        if isinstance(value, DenseIntOrFPElementsAttr):
            return [int(each) for each in dense_integers(cast("Attribute", value)).reshape(-1)]
        if value is None and default is not None:
            return list(default)
        raise ModelError(f"requires integers {name}, got {value}")

    def pairs(self, name: str, count: int) -> list[tuple[int, int]]:
        """A pair of integers for each of so many dims, zeros by default."""
        flat = self.integers(name, [0] * (2 * count))
        if len(flat) != 2 * count:
            raise ModelError(f"requires {name} of {count} pairs, got {flat}")
        return list(zip(flat[::2], flat[1::2], strict=True))

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer."""
        value = self.written.get(name)
        if isinstance(value, IntegerAttr):
            return value.value.data
        if value is None and default is not None:
            return default
        raise ModelError(f"requires an integer {name}, got {value}")

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A bool."""
        value = self.written.get(name)
        return bool(value.value.data) if isinstance(value, IntegerAttr) else default

    def word(self, name: str, default: str = "") -> str:
        """A word out of a few."""
        value = self.written.get(name)
        return value.data if isinstance(value, WordAttr) else default

    def text(self, name: str) -> str:
        """A string, or the name of a function."""
        value = self.written.get(name)
        if isinstance(value, SymbolRefAttr):
            return value.root_reference.data
        return value.data if isinstance(value, StringAttr) else ""

    def record(self, name: str) -> RecordAttr:
        """A record of dimension numbers."""
        value = self.written.get(name)
        if not isinstance(value, RecordAttr):
            raise ModelError(f"requires {name}, got {value}")
        return value

    def body(
        self, arguments: Sequence[Term], position: int = 0, b: GraphBuilder | None = None
    ) -> list[Term]:
        """What a region hands back."""
        block = self.op.regions[position].block
        return self.scope.import_block(block, arguments, b or self.b)

    def applied(
        self,
        arguments: Sequence[Term],
        b: GraphBuilder | None = None,
        position: int = 0,
        wanted: Sequence[SSAValue] | None = None,
    ) -> list[Term]:
        """What a region that is written for scalars gives for tensors of one shape, element by
        element, or values of its own.
        """
        block = self.op.regions[position].block
        return self.scope.import_block(
            block, arguments, b or self.b, elementwise=True, wanted=wanted
        )

    def number(self, value: float, element: Attribute) -> Term:
        """A scalar constant."""
        return Term(self.b, self.b.constant_of(value, element))

    def stored(self, array: Array, name: str) -> Term:
        """A constant of any size."""
        op = self.b.builder.insert(ConstantOp.computed(name, array, self.scope.store))
        return Term(self.b, op.results[0])

    def sizes(self, term: Term) -> list[Expr]:
        """The elements of a vector or scalar of integers, as sizes; those that depend on data get
        names.
        """
        known = self.scope.constants.dims(term.value)
        if known is not None:
            return list(known)
        count = math.prod(static_dims(term))
        names = [self.scope.fresh_name("size") for _ in range(count)]
        self.b.builder.insert(BindSizesOp.of(term.value, names, self.b.location))
        return [Expr.of(name) for name in names]

    def declared_sizes(self, term: Term) -> list[Expr]:
        """The dims of the result that a vector lists, those that are written in its type too."""
        pairs = zip(self.result.shape, self.sizes(term), strict=True)
        return [size if dim is None else Expr.of(dim) for dim, size in pairs]


def static_dims(term: Term) -> list[int]:
    """The dims of a value, which do not vary."""
    dims = [dim.constant for dim in term.shape]
    found = [dim for dim in dims if dim is not None]
    if len(found) != len(dims):
        raise UnsupportedError(f"requires a static shape, got {term.type}")
    return found


HloImporter = Callable[[Node], Sequence[Term]]
ImporterTable = Mapping[str, HloImporter]
