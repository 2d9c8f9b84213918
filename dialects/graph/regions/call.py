"""`graph.call`: runs another graph function of the module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, LocationAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph.core.types import TensorType, tensor, type_of

INPUT_TYPES = "input_types"
"""The attribute of a graph function that lists the types of its inputs as its callers have them,
where sizes among those of its arguments have been replaced.
"""


def input_types(function: FuncOp) -> list[TensorType]:
    """The types of what callers hand to a graph function."""
    given = function.attributes.get(INPUT_TYPES)
    if isa(given, ArrayAttr[TensorType]):
        return list(given)
    return [type_of(argument) for argument in function.body.block.args]


class CallsFunction(SymbolUserOpInterface):
    """A call is of a function of its module, and its results have the types that this returns."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp), "the trait of graph.call"
        function = op.function
        if function is None:
            got = f"@{op.function_name}"
            raise VerifyException(f"{op.name} requires a function of its module, got {got}")
        try:
            inferred = call_types(function, [type_of(operand) for operand in op.operands_])
        except TypeInferenceError as error:
            raise VerifyException(str(error)) from error
        given = [type_of(result) for result in op.results_]
        if inferred != given:
            raise VerifyException(
                f"{op.name} requires results {_listed(inferred)}, got {_listed(given)}"
            )


@irdl_op_definition
class CallOp(IRDLOperation):
    """The results of a graph function for these operands.

        %y = graph.call @layer(%x, %w) : (T, T) -> T

    Named sizes in the types of the function's arguments are the operands' dims in their place.
    """

    name = "graph.call"
    callee: SymbolRefAttr = prop_def(SymbolRefAttr)
    operands_: Sequence[SSAValue] = var_operand_def(TensorType)
    results_: Sequence[SSAValue] = var_result_def(TensorType)
    traits = traits_def(Pure(), CallsFunction())

    @staticmethod
    def of(
        function: FuncOp, operands: Sequence[SSAValue], location: LocationAttr | None = None
    ) -> CallOp:
        """The call of a function. Raises `TypeInferenceError` for operands of other types."""
        results = call_types(function, [type_of(operand) for operand in operands])
        return CallOp.create(
            operands=operands,
            properties={"callee": SymbolRefAttr(function.sym_name.data)},
            result_types=results,
            location=location,
        )

    @property
    def function_name(self) -> str:
        """The name of the function."""
        return self.callee.root_reference.data

    @property
    def function(self) -> FuncOp | None:
        """The function, if the module has it."""
        found = SymbolTable.lookup_symbol(self, self.callee)
        return found if isinstance(found, FuncOp) else None

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.function_name)
        printer.print_string("(")
        printer.print_list(self.operands_, printer.print_ssa_value)
        printer.print_string(") : ")
        printer.print_operation_type(self)

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        name = parser.parse_symbol_name()
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        operands = [
            parser.resolve_operand(each, operand_type)
            for each, operand_type in zip(unresolved, types.inputs.data, strict=True)
        ]
        return cls.create(
            operands=operands,
            properties={"callee": SymbolRefAttr(name.data)},
            result_types=types.outputs.data,
        )


def call_types(function: FuncOp, operands: Sequence[TensorType]) -> list[TensorType]:
    """The types of a function's results for operands of these types."""
    returned = function.body.block.last_op
    assert isinstance(returned, ReturnOp), "a graph function ends in func.return"
    tensor_types = [type_of(value) for value in returned.operands]
    sizes = call_sizes(function, operands)
    for name in (name for each in tensor_types for dim in each.shape for name in dim.symbols()):
        if Symbol(name) not in sizes:
            rule = f"{CallOp.name} requires results whose sizes the operands decide"
            raise TypeInferenceError(f"{rule}, got {name} of @{function.sym_name.data}")
    return [_substituted(each, sizes) for each in tensor_types]


def call_sizes(function: FuncOp, operands: Sequence[TensorType]) -> dict[Atom, Expr]:
    """The value of each named size of a function's arguments where it is called with these types.

    Raises `TypeInferenceError` where no sizes make the arguments' types the operands'.
    """
    arguments = [type_of(argument) for argument in function.body.block.args]
    sizes: dict[Atom, Expr] = {}
    for wanted, tensor_type in zip(arguments, operands, strict=False):
        if wanted.has_rank and tensor_type.has_rank:
            for dim, value in zip(wanted.shape, tensor_type.shape, strict=False):
                if str(dim) in dim.symbols():
                    sizes.setdefault(Symbol(str(dim)), value)
    if [_substituted(each, sizes) for each in arguments] != list(operands):
        rule = f"{CallOp.name} requires operands {_listed(arguments)} for"
        rule = f"{rule} @{function.sym_name.data}"
        raise TypeInferenceError(f"{rule}, got {_listed(operands)}")
    return sizes


def _substituted(tensor_type: TensorType, sizes: dict[Atom, Expr]) -> TensorType:
    if not tensor_type.has_rank:
        return tensor_type
    return tensor([dim.substitute(sizes) for dim in tensor_type.shape], tensor_type.element)


def _listed(tensor_types: Iterable[TensorType]) -> str:
    return ", ".join(map(str, tensor_types)) or "none"
