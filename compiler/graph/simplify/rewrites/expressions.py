"""What rewrites are made of: expressions over graph operators, which are looked for and built.

x, y = Value("x"), Value("y")
Rewrite("negative addend", graph.add(x, graph.neg(y)), graph.sub(x, y))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import only_user
from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.graph import OPS_BY_NAME, ConstantOp, GraphOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ANY_ELEMENT, is_splat
from weft.dialects.graph.core.op import SEGMENTS, AttributeValue, to_attribute
from weft.dialects.weights import Array, WeightStore

SomeOp = TypeVar("SomeOp", bound=GraphOp)
Item = TypeVar("Item")


class Value(Struct, frozen=True):
    """Any value; a constant one has elements that are at hand. Equal names are one value."""

    name: str
    is_constant: bool = False


class Operator(Struct, frozen=True):
    """An operator of one of some classes, of any operands behind those that are given. Those of an
    operator that commutes stand in either order.
    """

    classes: tuple[type[GraphOp], ...]
    operands: tuple[Expression, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    name: str = ""
    is_alone: bool = False
    is_anywhere: bool = False

    def may_read(self, op_class: type, owners: Sequence[type]) -> bool:
        """Whether the operands of an operator of a class may be those of the expression, by the
        classes of what computes them. `issubclass` takes longer for abstract classes.
        """
        return any(self._may_read(each) for each in self.orders(op_class, owners))

    def _may_read(self, owners: Sequence[type]) -> bool:
        pairs = zip(self.operands, owners, strict=False)
        return len(self.operands) <= len(owners) and all(_may_be(*pair) for pair in pairs)

    def orders(self, op_class: type, operands: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """The operands of an operator of a class as they may be those of the expression."""
        yield operands
        if getattr(op_class, "COMMUTES", False):
            yield operands[::-1]
        for start in range(1, len(operands)) if self.is_anywhere else ():
            yield operands[start:]

    def named(self, name: str) -> Operator:
        """It under a name, by which functions of the match ask for it. Where it stands again it is
        the same operator.
        """
        return replace(self, name=name)

    def alone(self) -> Operator:
        """It where nobody else reads its result, so that it goes. It is in the block of the root:
        what takes its place would else be computed in every iteration of a loop.
        """
        return replace(self, is_alone=True)

    def anywhere(self) -> Operator:
        """It where the operands follow each other at any place among its own."""
        return replace(self, is_anywhere=True)


Expression = Value | Operator | float
"""A number is a constant that is this number everywhere."""


def _may_be(expression: Expression, owner: type) -> bool:
    if isinstance(expression, Operator):
        return any(each in owner.__mro__ for each in expression.classes)
    return owner is ConstantOp or (isinstance(expression, Value) and not expression.is_constant)


class Vocabulary(Struct, frozen=True):
    """Every operator by its name, as the builder of graphs has them: `graph.mul(x, 2)`."""

    def __getattr__(self, name: str) -> Callable[..., Operator]:
        def expression(*operands: Expression, **attributes: AttributeValue) -> Operator:
            return Operator((OPS_BY_NAME[name],), operands, attributes)

        return expression


graph = Vocabulary()


class Match(Struct):
    """An operator that an expression was found at, and what its parts are there."""

    root: GraphOp
    weights: WeightStore
    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    operators: dict[str, GraphOp] = field(default_factory=dict[str, GraphOp])
    matched: list[GraphOp] = field(default_factory=list[GraphOp])

    @property
    def b(self) -> GraphBuilder:
        """Inserts operators in front of the root, at its location."""
        return GraphBuilder(InsertPoint.before(self.root), OPS_BY_NAME, self.root.location)

    def __getitem__(self, name: str) -> Term:
        return Term(self.b, self.values[name])

    def op(self, name: str, op_class: type[SomeOp]) -> SomeOp:
        """The operator of a name."""
        op = self.operators[name]
        assert isinstance(op, op_class), f"{name} is {op.name}"
        return op

    def again(self, op: GraphOp, *operands: SSAValue | None, **attributes: AttributeValue) -> Term:
        """An operator anew, on other operands and with other attributes."""
        properties = {name: value for name, value in op.properties.items() if name != SEGMENTS}
        made = type(op).of(*operands, location=op.location, **(properties | attributes))
        return Term(self.b, self.b.builder.insert(made).results[0])

    def array(self, name: str) -> Array | None:
        """The elements of a constant, if nobody can replace them later."""
        constant = constant_of(self.values[name], self.weights)
        assert constant is not None, f"{name} is matched as a constant"
        varies = constant.key is not None and self.weights.varies(constant.key.data)
        return None if varies else constant.array(self.weights)

    def constants(self, **terms: Term) -> list[Term]:
        """What is computed of constants as constants, named by what they are of the root."""
        stem = self.root.onnx_name or self.root.name.removeprefix("graph.")
        names = [f"{stem}.{role}" for role in terms]
        values = [term.value for term in terms.values()]
        with np.errstate(all="ignore"):
            settled = evaluate_constants(values, names, self.weights)
        return [Term(self.b, each) for each in settled]

    def takes(self, expression: Expression, value: SSAValue) -> bool:
        """Whether a value is what an expression says; its parts are noted."""
        if isinstance(expression, Value):
            at_hand = not expression.is_constant or constant_of(value, self.weights) is not None
            return at_hand and self.values.setdefault(expression.name, value) is value
        if not isinstance(expression, Operator):
            return is_splat(value, expression)
        owner = value.owner
        if expression.name in self.operators:
            return self.operators[expression.name] is owner
        if not _may_be(expression, type(owner)):
            return False
        assert isinstance(owner, GraphOp), "an expression is of graph operators"
        goes = only_user(value) is not None and owner.parent is self.root.parent
        return (goes or not expression.is_alone) and self.at(expression, owner)

    def at(self, expression: Operator, op: GraphOp) -> bool:
        """Whether an operator of the right class is the one that an expression says."""
        if expression.name:
            self.operators[expression.name] = op
        self.matched.append(op)
        for name, value in expression.attributes.items():
            if op.properties.get(name) != to_attribute(value):
                return False
        known = len(self.values), len(self.operators), len(self.matched)
        for operands in expression.orders(type(op), tuple(op.operands)):
            if self._take_all(expression.operands, operands):
                return True
            self._forget(*known)
        return False

    def _forget(self, values: int, operators: int, matched: int) -> None:
        """Leaves what was known before operands were taken."""
        while len(self.values) > values:
            self.values.popitem()
        while len(self.operators) > operators:
            self.operators.popitem()
        del self.matched[matched:]

    def _take_all(self, expressions: Sequence[Expression], values: Sequence[SSAValue]) -> bool:
        if len(expressions) > len(values):
            return False
        for expression, value in zip(expressions, values, strict=False):
            if not self.takes(expression, value):
                return False
        return True

    def built(self, expression: Expression) -> Term | None:
        """The value of an expression of the match's parts, in front of the root."""
        if isinstance(expression, Value):
            return self[expression.name]
        if not isinstance(expression, Operator):
            element, dims = self.root.result_type.element, self.root.result_type.dims
            return Term(self.b, self.b.constant_of(expression, element)).expand(dims.data or ())
        operands = [self._operand(each) for each in expression.operands]
        made = expression.classes[0].of(
            *operands, location=self.root.location, **expression.attributes
        )
        return Term(self.b, self.b.builder.insert(made).results[0])

    def _operand(self, expression: Expression) -> SSAValue:
        if isinstance(expression, Value | Operator):
            term = self.built(expression)
            assert term is not None, "an expression has a value"
            return term.value
        return self.b.constant_of(expression, self.root.result_type.element)


class Rewrite(Struct, frozen=True):
    """`before` becomes `after`, an expression or a function of the match, None where it has none.

    One that is not `exact` in floats, bit for bit but for the bits of a NaN, is left out under
    `strict_fp`. `elements` are the element types that the result may have.
    """

    name: str
    before: Operator
    after: Expression | Callable[[Match], Term | None]
    exact: bool = True
    elements: tuple[Attribute, ...] = ANY_ELEMENT

    def apply(self, match: Match) -> Term | None:
        """What takes the root's place, if anything does."""
        after = self.after
        return after(match) if callable(after) else match.built(after)
