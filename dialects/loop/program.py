"""The operations around kernels: kernels themselves, the program that calls
them, and the weights it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.expr_text import parse_expr
from weft.dialects.fields import text_of
from weft.dialects.interval import Range
from weft.dialects.loop.equal_sizes import equalities_around
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of, format_exprs

WORKSPACE_BYTES = "workspace_bytes"
"""The attribute of a program that holds the size of its arena."""

COLLECTIVE_BYTES = "collective_bytes"
"""The attribute of a program for many ranks that says how many bytes from the start of its arena
collectives use.
"""

TEMPORARIES = "temporaries"
"""The attribute of a kernel that says how many of its last arguments are workspace of its own."""

IN_PLACE = "in_place"
"""The attribute of a kernel that lists pairs of its arguments: an operand, and the result that may
take its place.
"""

WRITES = "writes"
"""The attribute of a kernel that lists which of its arguments it may write."""

SHARES = "shares"
"""The attribute of a scheduled kernel that says what threads share of it (`iteration_cost.Shares`):
the operations that one does, and four numbers of each parallel section; none where sizes vary.
"""

FLOPS = "flops"
"""The attribute of a kernel that says how many floating-point operations a call of it computes,
over its sizes, as it was before it was scheduled.
"""

BRIEF = "brief"
"""The attribute of a program that computes for less time than its call takes, and of its kernels:
how well their code is generated is not seen in a call, how fast is in the first one.
"""

REPEATS = "repeats"
"""The attribute of a program that says that it may run something as often as values say."""

BOUNDS = "bounds"
"""The attribute of a program or kernel that gives sizes their least and greatest values, by name:
`{batch = #loop.exprs<[1, 32]>}`.
"""

DONATED = "donated"
"""The attribute of a program, or graph function, that lists pairs of places, of an input and of the
output that the caller may have in its memory: `[[#builtin.int<0>, #builtin.int<1>]]`.
"""

WEIGHTS = "weights"
"""The attribute of a kernel that lists which of its arguments are weights in every call."""

ROWS = "rows"
"""The attribute of a version of a kernel that says which calls it is for, those with `few` rows of
its product or those with `many`.
"""

AWAITS_LAYOUT = "awaits_layout"
"""The attribute of a naive kernel that is not to be scheduled before the layout of a weight that it
looks up is decided.
"""

TRANSPOSED = "transposed"
"""The attribute of a weight that lists others with its elements: by key, the axes with which it
transposed is the other one, `{table.transposed = #loop.exprs<[1, 0]>}`.
"""

RANKS = "ranks"
"""The attribute of a program, or graph function, that says how many ranks run it together."""

MESH = "mesh"
"""The attribute of such a one that has the axes of its ranks, `"data=2,model=2"`."""

INPUTS_CUT, OUTPUTS_CUT = "inputs_cut", "outputs_cut"
"""The attributes of such a one that list the axes of each input's and output's dims, `"data,"`."""

OUTPUT_RANKS = "output_ranks"
"""The attribute of such a one that is a pipeline, which lists the ranks along the axis `stage` that
have each output, none for all, and first the one that computes it: `[[], [#builtin.int<1>]]`.
"""

INPUT_RANKS = "input_ranks"
"""The attribute of such a one that lists the ranks along the axis `stage` that read each input."""

MESSAGES_BACK = "messages_back"
"""The attribute of such a one in which earlier stages read what later ones compute."""

DIGEST = "digest"
"""The attribute of such a one that tells programs apart, on all ranks alike."""

ORIGIN = "origin"
"""The attribute of a call that holds its number in the program as it was lowered; calls that passes
add have none.
"""

UPDATES = "updates"
"""The attribute of a call whose kernel no longer copies an operand to a result, which holds it
already: the positions of both among the arguments of the call as it was lowered.
"""

COPIES = "copies"
"""The attribute of a call whose kernel copies its first argument to its second, in another layout.
"""

FILLS_BORDER = "fills_border"
"""The attribute of a call whose kernel fills the border around what its argument holds."""

STANDS_FOR = "stands_for"
"""The attribute of a view of a weight that holds the key of another weight with the elements that
the view shows.
"""


class FunctionOp(IRDLOperation):
    """What kernels and programs share: a name, named sizes,
    buffer arguments and a body that returns nothing.
    """

    sym_name: StringAttr = prop_def(SymbolNameConstraint())
    symbols: ArrayAttr[StringAttr] = prop_def(ArrayAttr[StringAttr])
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolOpInterface())

    @property
    def symbol_names(self) -> list[str]:
        """The names of the sizes that the function takes."""
        return [symbol.data for symbol in self.symbols.data]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        symbols: list[str] = (
            parser.parse_optional_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_identifier
            )
            or []
        )
        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        properties = _head(name.data, symbols)
        if parser.parse_optional_keyword("inputs"):
            properties["inputs"] = IntAttr(parser.parse_integer())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        extra = {} if attributes is None else dict(attributes.data)
        return cls.create(properties=properties, attributes=extra, regions=[body])

    def __str__(self) -> str:
        return text_of(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.symbols.data:
            printer.print_string(f"[{', '.join(self.symbol_names)}]")
        printer.print_string("(")
        printer.print_list(self.body.block.args, printer.print_block_argument)
        printer.print_string(") ")
        if isinstance(self, ProgramOp):
            printer.print_string(f"inputs {self.inputs.data} ")
        if self.attributes:
            printer.print_string("attributes ")
            printer.print_attr_dict(self.attributes)
            printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


def size_ranges(op: Operation) -> dict[Atom, Range]:
    """The bounds of the named sizes of the function that an operation is, or is in."""
    return bound_ranges(size_bounds(op))


def bound_ranges(bounds: Attribute | None) -> dict[Atom, Range]:
    """The bounds of named sizes that an attribute notes."""
    ranges: dict[Atom, Range] = {}
    for name, pair in bounds.data.items() if isinstance(bounds, DictionaryAttr) else ():
        assert isinstance(pair, ExprsAttr), "a size has two bounds"
        ranges[Symbol(name)] = (pair.data[0].constant, pair.data[1].constant)
    return ranges


def size_bounds(op: Operation) -> Attribute | None:
    """What the function that an operation is, or is in, notes of its named sizes."""
    function: Operation | None = op
    while function is not None and not isinstance(function, FunctionOp):
        function = function.parent_op()
    return None if function is None else function.attributes.get(BOUNDS)


def _head(name: str, symbols: Sequence[str]) -> dict[str, Attribute]:
    return {"sym_name": StringAttr(name), "symbols": ArrayAttr([StringAttr(s) for s in symbols])}


@irdl_op_definition
class KernelOp(FunctionOp):
    """Loop nests over buffers, called by the program.

        loop.kernel @relu[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) { ... }

    `[n]` are the sizes that it takes; the call binds them to expressions of the program's.
    """

    name = "loop.kernel"

    @staticmethod
    def of(name: str, symbols: Sequence[str], arguments: Sequence[BufferType]) -> KernelOp:
        """A kernel with an empty body."""
        body = Region(Block(arg_types=arguments))
        return KernelOp.create(properties=_head(name, symbols), regions=[body])


@irdl_op_definition
class ProgramOp(FunctionOp):
    """What one call of the artifact runs: allocations, views and kernel calls in order.

        loop.program @main[batch](%x: ..., %y: ...) inputs 1 { ... }

    The first `inputs` arguments are read, the others are written;
    the symbols are the caller's `dims`.
    """

    name = "loop.program"
    inputs: IntAttr = prop_def(IntAttr)

    @staticmethod
    def of(
        name: str, symbols: Sequence[str], arguments: Sequence[BufferType], inputs: int
    ) -> ProgramOp:
        """A program with an empty body."""
        properties = _head(name, symbols) | {"inputs": IntAttr(inputs)}
        return ProgramOp.create(properties=properties, regions=[Region(Block(arg_types=arguments))])


@irdl_op_definition
class CallOp(IRDLOperation):
    """Runs a kernel: `loop.call @relu[batch * 10](%x, %y) : !loop.buffer<...>, !loop.buffer<...>`.

    The expressions in brackets are the values of the kernel's symbols, over the program's.
    """

    name = "loop.call"
    callee: SymbolRefAttr = prop_def(SymbolRefAttr)
    sizes: ExprsAttr = prop_def(ExprsAttr)
    arguments: Sequence[SSAValue] = var_operand_def(BufferType)

    @staticmethod
    def of(callee: str, sizes: Sequence[Expr], arguments: Sequence[SSAValue]) -> CallOp:
        """A call of the kernel of that name."""
        return CallOp.create(
            operands=arguments,
            properties={"callee": SymbolRefAttr(callee), "sizes": ExprsAttr(tuple(sizes))},
        )

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self.callee.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        callee = parser.parse_symbol_name()
        sizes: list[Expr] = (
            parser.parse_optional_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_expr(parser)
            )
            or []
        )
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        types: list[Attribute] = []
        if operands:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        values = [
            parser.resolve_operand(value, type) for value, type in zip(operands, types, strict=True)
        ]
        call = cls.of(callee.data, sizes, values)
        call.attributes |= attributes
        return call

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel)
        if self.sizes.data:
            printer.print_string(format_exprs(self.sizes.data))
        printer.print_string("(")
        printer.print_list(self.arguments, printer.print_ssa_value)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        if self.arguments:
            printer.print_string(" : ")
            printer.print_list([value.type for value in self.arguments], printer.print_attribute)


def number_calls(programs: Iterable[ProgramOp]) -> dict[CallOp, int]:
    """The calls of kernels in programs of one artifact, numbered as its metadata lists them."""
    calls = (op for program in programs for op in program.walk() if isinstance(op, CallOp))
    return {call: number for number, call in enumerate(calls)}


def nodes_of(op: Operation) -> list[str]:
    """The nodes of the model, or lines of the source, that an operation comes from."""
    location = op.location
    fused = location.locations if isinstance(location, FusedLoc) else None
    listed = list(fused) if isa(fused, ArrayAttr) else [location]
    return [each.desc.data for each in listed if isinstance(each, NameLoc)]


def nodes_around(op: Operation) -> list[str]:
    """The nodes of the model that an operation, or the one around it, comes from."""
    around: Operation | None = op
    while around is not None:
        if names := nodes_of(around):
            return names
        around = around.parent_op()
    return []


def origin_of(call: CallOp) -> int | None:
    """The number of a call in the program as it was lowered; None for one that a pass added."""
    number = call.attributes.get(ORIGIN)
    return cast(IntAttr, number).data if isinstance(number, IntAttr) else None


@irdl_op_definition
class WeightOp(IRDLOperation):
    """A tensor of the weight store by its key:
    `%w = loop.weight "conv1.weight" : !loop.buffer<[64, 3, 7, 7], f32>`.

    The type may have a layout; the weight then is a derived one:
    the named tensor brought into that layout.
    """

    name = "loop.weight"
    key: StringAttr = prop_def(StringAttr)
    result: SSAValue = result_def(BufferType)
    traits = traits_def(Pure())
    assembly_format = "$key attr-dict `:` type($result)"

    @staticmethod
    def of(key: str, type: BufferType) -> WeightOp:
        """The weight of that key."""
        return WeightOp.create(properties={"key": StringAttr(key)}, result_types=[type])


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same storage under another shape:
    `%v = loop.view %x : !loop.buffer<[4, 6], f32> to !loop.buffer<[24], f32>`.
    """

    name = "loop.view"
    source: SSAValue = operand_def(BufferType)
    result: SSAValue = result_def(BufferType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    @staticmethod
    def of(source: SSAValue, type: BufferType) -> ViewOp:
        """A view of the whole source as another type of the same size."""
        return ViewOp.create(operands=[source], result_types=[type])

    def verify_(self) -> None:
        source, result = buffer_type_of(self.source), buffer_type_of(self.result)
        sizes = source.size, result.size
        same = sizes[0] == sizes[1] or equalities_around(self).hold(sizes)
        if not same or source.element != result.element:
            raise VerifyException(
                f"loop.view requires two types of one size, got {source} and {result}"
            )


def output_ranks(program: Operation) -> list[list[int]]:
    """The ranks along the axis `stage` that have each output of a pipeline, and first the one that
    computes it; none for all. An empty list for another program.
    """
    return listed_ranks(program, OUTPUT_RANKS)


def listed_ranks(program: Operation, name: str) -> list[list[int]]:
    """The lists of ranks in an attribute; none where there is no such."""
    ranks = program.attributes.get(name)
    if not isa(ranks, ArrayAttr[ArrayAttr[IntAttr]]):
        return []
    return [[rank.data for rank in each] for each in ranks]


def is_brief(op: Operation) -> bool:
    """Whether an operation is part of a brief kernel."""
    around: Operation | None = op
    while around is not None and not isinstance(around, KernelOp):
        around = around.parent_op()
    return around is not None and BRIEF in around.attributes


def donated_pairs(program: Operation) -> list[tuple[int, int]]:
    """Places of an input of a program or graph function, and of the output that may take its
    memory.
    """
    pairs = program.attributes.get(DONATED)
    if not isa(pairs, ArrayAttr[ArrayAttr[IntAttr]]):
        return []
    return [(pair.data[0].data, pair.data[1].data) for pair in pairs]
