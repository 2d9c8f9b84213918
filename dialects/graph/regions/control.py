"""Control flow of the graph level: operators whose regions hold operators.

A region reads the values around it; what it hands back ends it: `graph.yield`, or `graph.condition`
in front of another iteration. A dynamic dim has a named size, which the operator that computes it
defines from there on: `sizes` lists these names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, Self

from xdsl.dialects.builtin import ArrayAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph.core.op import InferTypeOp
from weft.dialects.graph.core.types import INTEGERS, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.regions.fused import YieldOp
from weft.dialects.weights import Array

Evaluation = tuple[list[Array], dict[str, int]]
"""The results of an operator, and the sizes that it defines."""


class Regions(Protocol):
    """What a `reference` evaluates regions with, where the operator stands."""

    def run(
        self, region: Region, arguments: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Array]:
        """What the region hands back for these arguments and newly defined sizes."""
        ...

    def extent(self, dim: Expr) -> int:
        """The value of an expression over sizes."""
        ...


@irdl_op_definition
class ConditionOp(IRDLOperation):
    """Ends the first region of `graph.while`: another iteration runs while the operand holds."""

    name = "graph.condition"
    condition: SSAValue = operand_def(TensorType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$condition attr-dict `:` type($condition)"


@irdl_op_definition
class BindSizesOp(IRDLOperation):
    """Names the elements of an integer scalar or vector as sizes from here on.

        graph.bind_sizes %n {sizes = ["count"]} : !graph.tensor<[], i64>

    Each must be at least 0 when the program runs, which fails otherwise.
    """

    name = "graph.bind_sizes"
    operand: SSAValue = operand_def(TensorType)
    sizes: ArrayAttr[StringAttr] = prop_def(ArrayAttr[StringAttr])

    @staticmethod
    def of(
        operand: SSAValue, sizes: Sequence[str], location: LocationAttr | None = None
    ) -> BindSizesOp:
        """The binding of as many names as the operand has elements."""
        return BindSizesOp.create(
            operands=[operand], properties={"sizes": names_attr(sizes)}, location=location
        )

    @property
    def defined_sizes(self) -> list[str]:
        """The names of the sizes that are known behind the operator."""
        return [name.data for name in self.sizes]

    def verify_(self) -> None:
        tensor_type = type_of(self.operand)
        if tensor_type.element not in INTEGERS or not tensor_type.has_rank or tensor_type.rank > 1:
            raise VerifyException(
                f"{self.name} requires an integer scalar or vector, got {tensor_type}"
            )
        if tensor_type.size != len(self.sizes):
            raise VerifyException(
                f"{self.name} requires {tensor_type.size} names, got {len(self.sizes)}"
            )

    def print(self, printer: Printer) -> None:
        _print_operands_and_properties(printer, self)
        printer.print_string(" : ")
        printer.print_attribute(self.operand.type)

    @classmethod
    def parse(cls, parser: Parser) -> BindSizesOp:
        operand = parser.parse_unresolved_operand()
        properties = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(operand, parser.parse_type())
        return cls.create(operands=[value], properties=properties)


class ControlOp(InferTypeOp):
    """An operator with regions, which read the values around it."""

    BETWEEN: ClassVar[str] = "else"
    """The word in front of each region but the first."""

    operands_: Sequence[SSAValue] = var_operand_def(TensorType)
    sizes: ArrayAttr[StringAttr] | None = opt_prop_def(ArrayAttr[StringAttr])
    results_: Sequence[SSAValue] = var_result_def(TensorType)

    @abstractmethod
    def reference(self, regions: Regions, operands: Sequence[Array]) -> Evaluation:
        """The results in NumPy, and the sizes that the operator defines."""

    @classmethod
    def _build(
        cls,
        operands: Sequence[SSAValue],
        blocks: Sequence[Block],
        properties: Mapping[str, Attribute | None],
        location: LocationAttr | None,
    ) -> Self:
        given = {name: value for name, value in properties.items() if value is not None}
        op = cls.create(
            operands=operands,
            properties=given,
            regions=[Region(block) for block in blocks],
            location=location,
        )
        op.set_results()
        return op

    @property
    def size_names(self) -> list[str]:
        """The names of the sizes that vary."""
        return [] if self.sizes is None else [name.data for name in self.sizes]

    @property
    def defined_sizes(self) -> list[str]:
        """The names of the sizes that are known behind the operator."""
        return self.size_names

    def print(self, printer: Printer) -> None:
        _print_operands_and_properties(printer, self)
        printer.print_string(" : ")
        printer.print_operation_type(self)
        for position, region in enumerate(self.regions):
            printer.print_string(f" {self.BETWEEN} " if position else " ")
            printer.print_region(region)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        first = parser.parse_optional_unresolved_operand()
        unresolved = [] if first is None else [first]
        while unresolved and parser.parse_optional_punctuation(","):
            unresolved.append(parser.parse_unresolved_operand())
        properties = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        operands = [
            parser.resolve_operand(each, operand_type)
            for each, operand_type in zip(unresolved, types.inputs.data, strict=True)
        ]
        regions = [parser.parse_region()]
        while parser.parse_optional_keyword(cls.BETWEEN):
            regions.append(parser.parse_region())
        return cls.create(
            operands=operands,
            properties=properties,
            result_types=types.outputs.data,
            regions=regions,
        )


def _print_operands_and_properties(printer: Printer, op: Operation) -> None:
    for position, operand in enumerate(op.operands):
        printer.print_string(", " if position else " ")
        printer.print_ssa_value(operand)
    if op.properties:
        printer.print_string(" ")
        printer.print_attr_dict(op.properties)


def names_attr(names: Iterable[str]) -> ArrayAttr[StringAttr]:
    """The attribute of a list of names."""
    return ArrayAttr([StringAttr(name) for name in names])


def yielded(region: Region) -> Sequence[SSAValue]:
    """What a region hands back."""
    last = region.block.last_op
    assert isinstance(last, (YieldOp, ConditionOp)), "a region of control flow has a terminator"
    return last.operands


def handed_types(region: Region) -> list[TensorType]:
    """The types of what a region hands back."""
    return [type_of(value) for value in yielded(region)]


def join(tensor_types: Sequence[TensorType], fresh: Iterator[str], who: str) -> TensorType:
    """The type that all of these are of: a dim that differs gets the next new name."""
    first = tensor_types[0]
    for tensor_type in tensor_types[1:]:
        if tensor_type.element != first.element or not (tensor_type.has_rank and first.has_rank):
            raise TypeInferenceError(
                f"{who} requires one element type, got {first} and {tensor_type}"
            )
        if tensor_type.rank != first.rank:
            raise TypeInferenceError(f"{who} requires one rank, got {first} and {tensor_type}")
    if all(each == first for each in tensor_types):
        return first
    columns = zip(*(each.shape for each in tensor_types), strict=True)
    dims = [dims[0] if len(set(dims)) == 1 else Expr.of(next(fresh)) for dims in columns]
    return tensor(dims, first.element)


def match_dims(
    pattern: TensorType, tensor_type: TensorType, sizes: Sequence[str]
) -> dict[str, Expr]:
    """The value of each size among `sizes` that makes the pattern the type.

    Raises `TypeInferenceError` where another dim, the rank or the element type differs.
    """
    found: dict[str, Expr] = {}
    if pattern.element == tensor_type.element and len(pattern.shape) == len(tensor_type.shape):
        for wanted, dim in zip(pattern.shape, tensor_type.shape, strict=True):
            name = str(wanted)
            if name in sizes and found.setdefault(name, dim) == dim:
                continue
            if wanted != dim:
                break
        else:
            return found
    raise TypeInferenceError(f"control flow requires a value of type {pattern}, got {tensor_type}")


def measured(
    values: Sequence[SSAValue], arrays: Sequence[Array], names: Sequence[str]
) -> dict[str, int]:
    """The sizes of those names that are dims of the values."""
    return {
        str(dim): extent
        for value, array in zip(values, arrays, strict=True)
        for dim, extent in zip(type_of(value).shape, array.shape, strict=True)
        if str(dim) in names
    }


def defined_sizes(op: Operation) -> list[str]:
    """The names of the sizes that are known behind the operator because of it."""
    return op.defined_sizes if isinstance(op, (BindSizesOp, ControlOp)) else []


def substitute_sizes(op: Operation, values: Mapping[Atom, Expr]) -> None:
    """Replaces sizes in the attributes and the results' types of everything inside an operation."""
    for inner in op.walk():
        for name, attribute in inner.properties.items():
            if isinstance(attribute, ShapeAttr) and attribute.data is not None:
                dims = tuple(dim.substitute(values) for dim in attribute.data)
                inner.properties[name] = ShapeAttr(dims)


def retype(value: SSAValue, values: Mapping[Atom, Expr]) -> None:
    """Replaces sizes in the type of a value."""
    if isinstance(value.type, TensorType) and value.type.has_rank:
        dims = tuple(dim.substitute(values) for dim in value.type.shape)
        tensor_type = TensorType(ShapeAttr(dims), value.type.element)
        if tensor_type != value.type:
            Rewriter.replace_value_with_new_type(value, tensor_type)


def replace_sizes(op: Operation, values: Mapping[Atom, Expr]) -> None:
    """Replaces sizes in everything of an operation: attributes, results and regions' arguments."""
    substitute_sizes(op, values)
    for inner in op.walk():
        arguments = [each for region in inner.regions for each in region.block.args]
        for value in (*inner.results, *arguments):
            retype(value, values)


def rename_sizes(op: Operation, names: Mapping[str, str]) -> None:
    """Gives sizes other names, also where operators inside the operation define them."""
    for inner in op.walk():
        for key, attribute in inner.properties.items():
            if isinstance(inner, ControlOp) and isinstance(attribute, StringAttr):
                inner.properties[key] = StringAttr(names.get(attribute.data, attribute.data))
            elif isinstance(inner, (BindSizesOp, ControlOp)) and isa(
                attribute, ArrayAttr[StringAttr]
            ):
                inner.properties[key] = names_attr(names.get(n.data, n.data) for n in attribute)
    replace_sizes(op, size_atoms({old: Expr.of(new) for old, new in names.items()}))


def size_atoms(values: Mapping[str, int | Expr]) -> dict[Atom, Expr]:
    """Named sizes as atoms of expressions."""
    return {Symbol(name): Expr.of(value) for name, value in values.items()}


OPS = (ConditionOp, BindSizesOp)
