"""`GraphOp`: the base of every operator of the graph level, with the facets that each of them has.

An operator is one class in one family file. Its facets:

    infer      result types from operand types and attributes
    reference  the value of the results, in NumPy
    fold       what is simpler by its own attributes and types
    vjp        the vector-Jacobian product, built from graph operators
    vmap       the results for many samples at once, built from graph operators
    lower      the naive loop nest
    sharding_rule  which parts of results follow from which parts of operands
    ONNX       the operator's name there, where the mapping is one to one
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from msgspec import Struct, field
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, OpResult, SSAValue, SSAValues
from xdsl.irdl import AttrSizedOperandSegments, BaseAttr, IRDLOperation, VarOperandDef, traits_def
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.errors import TypeInferenceError, WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.sharding_rule import ShardingRule
from weft.dialects.graph.core.types import F64, ShapeAttr, TensorType, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.dialects.graph.core.builder import GraphBuilder

AttributeValue = Attribute | bool | int | float | str | Sequence[int] | Sequence[Expr] | None


class OnnxName(Struct, frozen=True):
    """An operator's name in ONNX, and how its attributes map:
    ONNX's name to ours, with ONNX's default.

    `since` is not needed: the front end normalises every node to the newest opset first.
    """

    name: str
    attributes: Mapping[str, tuple[str, AttributeValue]] = field(
        default_factory=dict[str, tuple[str, AttributeValue]]
    )
    domain: str = ""


class InferTypeOp(IRDLOperation, ABC):
    """An operation whose result types follow from its operands, attributes and regions."""

    @abstractmethod
    def infer(self) -> Sequence[TensorType]:
        """The types of the results; raises `TypeInferenceError` naming the rule and the facts."""

    def set_results(self) -> None:
        """Gives an operation that is being built its results, of the types that are inferred."""
        tensor_types = self.infer()
        self.results = SSAValues(
            OpResult(each, self, position) for position, each in enumerate(tensor_types)
        )

    def require(self, holds: bool, rule: str, got: object) -> None:
        """Raises `<op> requires <rule>, got <facts>` unless the rule holds."""
        if not holds:
            raise TypeInferenceError(f"{self.name} requires {rule}, got {got}")

    @property
    def onnx_name(self) -> str | None:
        """The name of the model's node that the operator came from."""
        return self.location.desc.data if isinstance(self.location, NameLoc) else None

    def verify_(self) -> None:
        try:
            inferred = list(self.infer())
        except TypeInferenceError as error:
            raise VerifyException(str(error)) from error
        given = [result.type for result in self.results]
        if inferred != given:
            wanted, got = (", ".join(map(str, each)) for each in (inferred, given))
            raise VerifyException(f"{self.name} requires results {wanted}, got {got}")


class GraphOp(InferTypeOp):
    """A pure operator on tensors."""

    ONNX: ClassVar[OnnxName | None] = None
    REUSES_OPERANDS: ClassVar[bool] = False
    """Whether an element of an operand is read for many elements of
    the result, as by a contraction.
    """
    PACKED_OPERAND: ClassVar[int | None] = None
    """The operand that schedules copy into panels first, so that each element is read once."""
    COMMUTES: ClassVar[bool] = False
    """Whether both operands may change places, but for the bits of a NaN."""
    traits = traits_def(Pure())

    @classmethod
    def of(
        cls,
        *operands: SSAValue | None,
        location: LocationAttr | None = None,
        **attributes: AttributeValue,
    ) -> Self:
        """The operator on these operands (None for an optional one that is
        absent), its result types inferred.

        Attributes are given as Python values. Raises
        `TypeInferenceError` with the rule that is broken.
        """
        known = cls.get_irdl_definition().properties
        unknown = sorted(set(attributes) - set(known))
        assert not unknown, f"{cls.name} has no attributes {unknown}"
        properties = {
            name: cls.property_of(name, value)
            for name, value in attributes.items()
            if value is not None
        }
        return cls.from_properties(operands, properties, location)

    @classmethod
    def property_of(cls, name: str, value: AttributeValue) -> Attribute:
        """A value of an attribute as xDSL holds it."""
        declared = cls.get_irdl_definition().properties[name]
        return to_attribute(value, shape=declared.constr == _SHAPE)

    @classmethod
    def from_properties(
        cls,
        operands: Sequence[SSAValue | None],
        properties: dict[str, Attribute],
        location: LocationAttr | None = None,
    ) -> Self:
        """The operator with attributes as xDSL holds them; result types are inferred."""
        segments = cls._segments(operands)
        if segments is not None:
            properties = properties | {SEGMENTS: DenseArrayBase.from_list(i32, segments)}
        op = cls.create(
            operands=[operand for operand in operands if operand is not None],
            properties=properties,
            location=location,
        )
        try:
            op.set_results()
        except WeftError:
            op.operands = []  # what is refused uses nothing, so that operands may be erased
            raise
        return op

    @classmethod
    def _segments(cls, operands: Sequence[SSAValue | None]) -> list[int] | None:
        """How many values each declared operand gets, where the definition needs to be told."""
        definition = cls.get_irdl_definition()
        fields = [operand for _, operand in definition.operands]
        variadic = any(type(operand) is VarOperandDef for operand in fields)
        required = sum(not isinstance(operand, VarOperandDef) for operand in fields)
        present = [operand is not None for operand in operands]
        if sum(present[:required]) < required or (len(operands) > len(fields) and not variadic):
            raise TypeInferenceError(
                f"{cls.name} requires {required} to {len(fields)} operands, got {sum(present)}"
            )
        if not any(isinstance(option, AttrSizedOperandSegments) for option in definition.options):
            return None
        sizes = [
            int(present[position]) if position < len(present) else 0
            for position in range(len(fields))
        ]
        if variadic:
            sizes[-1] = len(operands) - len(fields) + 1
        return sizes

    # Facets

    @abstractmethod
    def reference(self, *operands: Array) -> Sequence[Array]:
        """The results in NumPy; an absent optional operand is simply left out, as in `operands`."""

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """Pairs of sizes that `infer` took to be equal;
        every call of the compiled code checks them.
        """
        return []

    def fold(self) -> Sequence[SSAValue] | GraphOp | None:
        """Values that replace the results, or an operator that replaces this one, or None."""
        return None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        """The elements of the one integer result as expressions over
        symbols, given those of the operands.

        An operand that is no vector (or scalar) of known integers is None.
        """
        return None

    @classmethod
    def has_vjp(cls) -> bool:
        """Whether there is a derivative: `vjp` is a class's own."""
        return cls.vjp is not GraphOp.vjp

    def sharding_rule(self) -> ShardingRule | None:
        """How ranks may compute parts of the results from parts of the operands, whose types are
        of constant dims; None where each needs whole operands.
        """
        return None

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        """The attributes of the operator that computes parts of these types by its rule."""
        return self.properties

    def local_operands(
        self,
        parts: Sequence[SSAValue | None],
        begins: Callable[[], Sequence[SSAValue | None]],
        b: GraphBuilder,
    ) -> Sequence[SSAValue | None]:
        """The operands by position of the operator that computes a part of its one result, from
        their parts. `begins` gives the index (an i64) at which the part begins in each of the
        result's dims, None for one that is whole.
        """
        return parts

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The cotangent of each operand (None where there is none) from those of the results."""
        raise WeftError(f"{self.name} requires a derivative rule to be differentiated, got none")

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        """The results for `size` samples, along a new first axis. An operand has that axis, or is
        the same for all samples, as a result may be. None where a loop computes each sample apart.
        """
        return None

    @classmethod
    def attribute_names(cls) -> set[str]:
        """The names of the attributes."""
        return set(cls.get_irdl_definition().properties) - {SEGMENTS}

    @abstractmethod
    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Writes the naive loop nest that reads the operands' buffers and fills the results'."""

    # What facets are written with

    @property
    def result_type(self) -> TensorType:
        """The type of the one result."""
        return type_of(self.results[0])

    def static_result(self) -> tuple[int, ...]:
        """The dims of the one result; raises `TypeInferenceError` where one is dynamic."""
        shape = self.result_type.static_shape
        self.require(shape is not None, "a static shape to be evaluated", self.result_type)
        return shape or ()

    def require_one_element(self, allowed: Sequence[Attribute], rule: str) -> None:
        """Raises unless the operands have one element type, out of those allowed."""
        first, *others = tensor_types = self.tensor_types()
        if first.element not in allowed or any(each.element != first.element for each in others):
            listed = " and ".join(map(str, tensor_types))
            same = all(each.element == first.element for each in others)
            self.require(False, rule if same else "one element type", listed)

    def tensor_types(self) -> list[TensorType]:
        """The types of the operands that are present."""
        return [type_of(operand) for operand in self.operands]

    @property
    def mentions_sizes(self) -> bool:
        """Whether an attribute depends on sizes that are not known while compiling."""
        shapes = (each for each in self.properties.values() if isinstance(each, ShapeAttr))
        return any(dim.constant is None for shape in shapes for dim in shape.data or ())

    @property
    def is_static(self) -> bool:
        """Whether the sizes of operands and attributes are numbers."""
        return not self.mentions_sizes and None not in [
            each.static_shape for each in self.tensor_types()
        ]

    # Text

    def print(self, printer: Printer) -> None:
        for position, operand in enumerate(self.slots()):
            printer.print_string(", " if position else " ")
            if operand is None:
                printer.print_string("none")
            else:
                printer.print_ssa_value(operand)
        shown = {name: value for name, value in self.properties.items() if name != SEGMENTS}
        if shown:
            printer.print_string(" ")
            printer.print_attr_dict(shown)
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)

    def slots(self) -> list[SSAValue | None]:
        """The operands by declared position, None for an absent optional
        one; trailing ones are dropped.
        """
        segments = self.properties.get(SEGMENTS)
        if not isinstance(segments, DenseArrayBase):
            return list(self.operands)
        slots: list[SSAValue | None] = []
        remaining = iter(self.operands)
        for size in segments.iter_values():
            slots += [next(remaining) for _ in range(int(size))] or [None]
        while slots and slots[-1] is None:
            slots.pop()
        return slots

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        slots: list[UnresolvedOperand | None] = []
        while (parsed := _parse_slot(parser, first=not slots)) is not False:
            slots.append(parsed)
        properties = parser.parse_optional_attr_dict()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        remaining = iter(types.inputs.data)
        values = [
            None if slot is None else parser.resolve_operand(slot, next(remaining))
            for slot in slots
        ]
        if (segments := cls._segments(values)) is not None:
            properties[SEGMENTS] = DenseArrayBase.from_list(i32, segments)
        return cls.create(
            operands=[value for value in values if value is not None],
            properties=properties,
            attributes={} if attributes is None else dict(attributes.data),
            result_types=types.outputs.data,
        )


SEGMENTS = "operandSegmentSizes"


def _parse_slot(parser: Parser, *, first: bool) -> UnresolvedOperand | None | Literal[False]:
    """One operand, None for the word `none`, or False where the list ends."""
    if not first and not parser.parse_optional_punctuation(","):
        return False
    if parser.parse_optional_keyword("none"):
        return None
    if first:
        operand = parser.parse_optional_unresolved_operand()
        return False if operand is None else operand
    return parser.parse_unresolved_operand()


_SHAPE = BaseAttr(ShapeAttr)


def to_attribute(value: AttributeValue, *, shape: bool = False) -> Attribute:
    """The xDSL attribute of a Python value: 64-bit ints and floats, dense arrays
    of ints, shapes of expressions, or of ints where a `shape` is declared.
    """
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, F64)
    if isinstance(value, str):
        return StringAttr(value)
    assert value is not None, "an absent attribute has no xDSL form"
    if shape or any(isinstance(item, Expr) for item in value):
        exprs = (item if isinstance(item, Expr) else Expr.of(index(item)) for item in value)
        return ShapeAttr(tuple(exprs))
    return DenseArrayBase.from_list(i64, [index(n) for n in value if not isinstance(n, Expr)])


def ints(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
    """The Python ints of a dense array attribute."""
    return tuple(int(value) for value in attribute.iter_values())
