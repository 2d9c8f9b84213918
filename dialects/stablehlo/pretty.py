"""The pretty form of StableHLO's operators: operands, words and `name = value` in any order, then
attributes in braces and types; `reduce` and `while` have forms of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct, field
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BoolAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.builtin import TupleType as BuiltinTuple
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand

from weft.dialects.stablehlo.attributes import (
    RECORDS,
    WORDS,
    ConvDimsAttr,
    FieldValue,
    parse_conv_dims,
    parse_value,
)


class Parts(Struct):
    """What an operation is made of."""

    operands: list[SSAValue] = field(default_factory=list[SSAValue])
    result_types: list[Attribute] = field(default_factory=list[Attribute])
    properties: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    regions: list[Region] = field(default_factory=list[Region])


class Items(Struct):
    """What stands between an operator's name and its attributes."""

    operands: list[UnresolvedOperand] = field(default_factory=list[UnresolvedOperand])
    properties: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    words: list[str] = field(default_factory=list[str])


def read_parts(name: str, parser: Parser) -> Parts:
    """What follows the name of an operator that is written in the pretty form."""
    special = _FORMS.get(name)
    if special is not None:
        return special(parser)
    items = _read_items(name, parser)
    attributes = parser.parse_optional_attr_dict()
    if name == "stablehlo.compare":
        named = (
            ("comparison_direction", "comparison_direction"),
            ("compare_type", "comparison_type"),
        )
        for (key, attribute), word in zip(named, items.words, strict=False):
            items.properties[key] = WORDS[attribute](word)
    types: tuple[list[Attribute], list[Attribute]] = [], []
    if parser.parse_optional_punctuation(":"):
        types = _read_types(name, parser, len(items.operands))
    position = parser.pos
    operands = list(parser.resolve_operands(items.operands, types[0], position))
    return Parts(operands, types[1], items.properties, attributes)


def _read_items(name: str, parser: Parser) -> Items:
    items = Items()
    while True:
        if (operand := parser.parse_optional_unresolved_operand()) is not None:
            items.operands.append(operand)
        elif (symbol := parser.parse_optional_symbol_name()) is not None:
            items.properties["call_target_name"] = symbol
        elif (text := parser.parse_optional_str_literal()) is not None:
            items.properties["name"] = StringAttr(text)
        elif (word := parser.parse_optional_identifier()) is not None:
            if parser.parse_optional_punctuation("="):
                items.properties |= _read_keyword(name, word, parser)
            else:
                items.words.append(word)
        elif (ranges := _read_ranges(parser)) is not None:
            items.properties |= _range_properties(name, ranges)
        elif not any(parser.parse_optional_punctuation(mark) for mark in ("(", ")", ",")):
            return items


def _read_ranges(parser: Parser) -> list[list[int]] | None:
    """`[0:4, 1:9:2]`, a first index, an end and perhaps a step each."""

    def one() -> list[int]:
        numbers = [parser.parse_integer()]
        while parser.parse_optional_punctuation(":"):
            numbers.append(parser.parse_integer())
        return numbers

    return parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, one)


def _range_properties(name: str, ranges: Sequence[Sequence[int]]) -> dict[str, Attribute]:
    if name == "stablehlo.get_tuple_element":
        return {"index": IntegerAttr(ranges[0][0], i32)}
    return {
        "start_indices": integers([each[0] for each in ranges]),
        "limit_indices": integers([each[1] for each in ranges]),
        "strides": integers([each[2] if len(each) > 2 else 1 for each in ranges]),
    }


def integers(values: Sequence[FieldValue | int]) -> Attribute:
    """An array of 64-bit integers."""
    return DenseArrayBase.from_list(i64, [each for each in values if isinstance(each, int)])


_LISTS = {
    ("stablehlo.broadcast_in_dim", "dims"): "broadcast_dimensions",
    ("stablehlo.dynamic_broadcast_in_dim", "dims"): "broadcast_dimensions",
    ("stablehlo.transpose", "dims"): "permutation",
    ("stablehlo.broadcast", "sizes"): "broadcast_sizes",
    ("stablehlo.pad", "low"): "edge_padding_low",
    ("stablehlo.pad", "high"): "edge_padding_high",
    ("stablehlo.pad", "interior"): "interior_padding",
    ("stablehlo.reverse", "dims"): "dimensions",
    ("stablehlo.dynamic_slice", "sizes"): "slice_sizes",
    ("stablehlo.fft", "length"): "fft_length",
}
_NUMBERS = {
    ("stablehlo.iota", "dim"): "iota_dimension",
    ("stablehlo.dynamic_iota", "dim"): "iota_dimension",
    ("stablehlo.concatenate", "dim"): "dimension",
    ("stablehlo.get_dimension_size", "dim"): "dimension",
    ("stablehlo.set_dimension_size", "dim"): "dimension",
    ("chlo.top_k", "k"): "k",
}
_WORD_PROPERTIES = {
    ("stablehlo.fft", "type"): ("fft_type", "fft_type"),
    ("stablehlo.rng", "distribution"): ("rng_distribution", "rng_distribution"),
    ("stablehlo.rng_bit_generator", "algorithm"): ("rng_algorithm", "rng_algorithm"),
}


def _read_keyword(name: str, word: str, parser: Parser) -> dict[str, Attribute]:
    """What `word = value` stands for in an operator's properties."""
    key = name, word
    if word == "algorithm" and name == "stablehlo.dot_general":
        record = RECORDS["dot_algorithm"]
        return {word: record(record.parse_parameter(parser))}
    if word == "window":
        return _read_window(parser)
    if word == "dim_numbers":
        return {"dimension_numbers": ConvDimsAttr(parse_conv_dims(parser))}
    if word in ("batching_dims", "contracting_dims"):
        return _read_dot_dims(word, parser)
    value = parse_value(parser)
    if key in _LISTS and isinstance(value, tuple):
        return {_LISTS[key]: integers(value)}
    if key in _NUMBERS and isinstance(value, int):
        return {_NUMBERS[key]: IntegerAttr(value, i64)}
    if key in _WORD_PROPERTIES:
        property_name, attribute = _WORD_PROPERTIES[key]
        return {property_name: WORDS[attribute](str(value))}
    if word == "precision" and isinstance(value, tuple):
        return {"precision_config": ArrayAttr([WORDS["precision"](str(e)) for e in value])}
    if word == "format":
        exponent, mantissa = str(value)[1:].split("m")
        bits = {"exponent_bits": exponent, "mantissa_bits": mantissa}
        return {each: IntegerAttr(int(count), i32) for each, count in bits.items()}
    if word == "config" and isinstance(value, StringAttr):
        return {"einsum_config": value}
    if value in ("true", "false"):
        return {word: BoolAttr.from_bool(value == "true")}
    return parser.raise_error(f"{name} has no {word}")


def _read_dot_dims(word: str, parser: Parser) -> dict[str, Attribute]:
    lhs = parse_value(parser)
    parser.parse_keyword("x")
    rhs = parse_value(parser)
    fields = {"batching_dims": "batching_dimensions", "contracting_dims": "contracting_dimensions"}
    return {f"{side}_{fields[word]}": integers(dims)
            for side, dims in (("lhs", lhs), ("rhs", rhs)) if isinstance(dims, tuple)}  # fmt: skip


_WINDOW = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def _read_window(parser: Parser) -> dict[str, Attribute]:
    def one() -> tuple[str, Attribute]:
        word = parser.parse_identifier()
        parser.parse_punctuation("=")
        value = parse_value(parser)
        if word not in _WINDOW or not isinstance(value, tuple):
            parser.raise_error(f"a window has no {word}")
        return _WINDOW[word], _window_attribute(value)

    return dict(parser.parse_comma_separated_list(parser.Delimiter.BRACES, one))


def _window_attribute(value: tuple[FieldValue, ...]) -> Attribute:
    if value and isinstance(value[0], tuple):
        pairs = [number for pair in value if isinstance(pair, tuple) for number in pair]
        numbers = [each for each in pairs if isinstance(each, int)]
        return DenseIntOrFPElementsAttr.from_list(TensorType(i64, [len(value), 2]), numbers)
    if value and value[0] in ("true", "false"):
        return DenseArrayBase.from_list(i1, [each == "true" for each in value])
    return integers(value)


_RESULT_ONLY = ("constant", "iota", "create_token", "partition_id", "replica_id")


def _read_types(name: str, parser: Parser, count: int) -> tuple[list[Attribute], list[Attribute]]:
    """The types of the operands and of the results."""
    function = parser.parse_optional_function_type()
    if function is not None:
        return list(function.inputs.data), list(function.outputs.data)
    types: list[Attribute] = list(
        parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    )
    if parser.parse_optional_punctuation("->"):
        results = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_type
        )
        given = [parser.parse_type()] if results is None else list(results)
        return types * count if len(types) == 1 else types, list(given)
    short = name.partition(".")[2]
    if short == "return":
        return types, []
    if short == "optimization_barrier":
        return types, types
    if short == "tuple" and isinstance(types[0], BuiltinTuple):
        return list(types[0].types.data), types
    if short in _RESULT_ONLY:
        return [], types
    if short == "complex":
        return [_real(types[0])] * count, types
    if short == "select" and len(types) == 2:
        return [types[0], types[1], types[1]], types[1:]
    return types * count if len(types) == 1 else types, types[-1:]


def _real(complex_tensor: Attribute) -> Attribute:
    """The type of the real parts of a complex tensor."""
    tensor_type = cast("TensorType[ComplexType[AnyFloat]]", complex_tensor)
    return TensorType(tensor_type.element_type.element_type, tensor_type.get_shape())


def _read_constant(parser: Parser) -> Parts:
    attributes = parser.parse_optional_attr_dict()
    value = parser.parse_attribute()
    if parser.parse_optional_punctuation(":"):
        given: Attribute = parser.parse_type()
    elif isinstance(value, (DenseIntOrFPElementsAttr, DenseResourceAttr)):
        given = cast("Any", value).type
    else:
        parser.raise_error("a constant of dense elements expected")
    return Parts([], [given], {"value": value}, attributes)


def _read_reduce(parser: Parser) -> Parts:
    """`(%x init: %a), (%y init: %b) [applies op] across dimensions = [0] : types [reducer...]`."""
    pairs = [_read_initialised(parser)]
    while parser.parse_optional_punctuation(","):
        pairs.append(_read_initialised(parser))
    applied = parser.parse_identifier() if parser.parse_optional_keyword("applies") else None
    for keyword in ("across", "dimensions"):
        parser.parse_keyword(keyword)
    parser.parse_punctuation("=")
    dimensions = parse_value(parser)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    position = parser.pos
    types = parser.parse_function_type()
    names = [each for each, _ in pairs] + [each for _, each in pairs]
    operands = list(parser.resolve_operands(names, types.inputs.data, position))
    assert isinstance(dimensions, tuple), "dimensions are a list"
    region = _read_reducer(parser) if applied is None else _applied(parser, applied, operands[-1])
    properties = {"dimensions": integers(dimensions)}
    return Parts(operands, list(types.outputs.data), properties, attributes, [region])


def _read_initialised(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    parser.parse_punctuation("(")
    operand = parser.parse_unresolved_operand()
    parser.parse_keyword("init")
    parser.parse_punctuation(":")
    start = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return operand, start


def _read_reducer(parser: Parser) -> Region:
    """`reducer(%a: T, %b: T) (%c: U, %d: U) {...}`, whose arguments are a, c, b, d."""
    parser.parse_keyword("reducer")
    pairs: list[list[Parser.Argument]] = []
    while True:
        found = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_argument
        )
        if found is None:
            break
        pairs.append(list(found))
    arguments = [pair[side] for side in (0, 1) for pair in pairs]
    return parser.parse_region(arguments)


def _applied(parser: Parser, name: str, like: SSAValue) -> Region:
    """The region that applies one operator to two scalars."""
    scalar = TensorType(cast("TensorType[Attribute]", like.type).get_element_type(), [])
    block = Block(arg_types=[scalar, scalar])
    operator, end = (parser.ctx.get_op(each) for each in (name, "stablehlo.return"))
    op = operator.create(operands=list(block.args), result_types=[scalar])
    block.add_ops([op, end.create(operands=list(op.results))])
    return Region(block)


def _read_while(parser: Parser) -> Parts:
    """`(%a = %x, %b = %y) : types [attributes {...}] cond {...} do {...}`."""

    def one() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return argument, parser.parse_unresolved_operand()

    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
    types: list[Attribute] = []
    if parser.parse_optional_punctuation(":"):
        types = list(parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type))
    operands = list(parser.resolve_operands([each for _, each in pairs], types, parser.pos))
    written = parser.parse_optional_attr_dict_with_keyword()
    regions: list[Region] = []
    for keyword in ("cond", "do"):
        parser.parse_keyword(keyword)
        named = zip(pairs, types, strict=True)
        regions.append(parser.parse_region([each.resolve(given) for (each, _), given in named]))
    attributes = {} if written is None else dict(written.data)
    return Parts(operands, types, {}, attributes, regions)


def _read_scan(parser: Parser) -> Parts:
    """`(%x) inits(%a) dimension=0 [attributes {...}] {...} : types`."""
    paren = parser.Delimiter.PAREN
    inputs = parser.parse_comma_separated_list(paren, parser.parse_unresolved_operand)
    parser.parse_keyword("inits")
    states = parser.parse_comma_separated_list(paren, parser.parse_unresolved_operand)
    parser.parse_keyword("dimension")
    parser.parse_punctuation("=")
    dimension = IntegerAttr(parser.parse_integer(), i64)
    written = parser.parse_optional_attr_dict_with_keyword()
    region = parser.parse_region()
    parser.parse_punctuation(":")
    position = parser.pos
    types = parser.parse_function_type()
    operands = parser.resolve_operands([*inputs, *states], types.inputs.data, position)
    counts = DenseArrayBase.from_list(i32, [len(inputs), len(states)])
    properties: dict[str, Attribute] = {
        "dimension": dimension,
        "operandSegmentSizes": counts,
    }
    attributes = {} if written is None else dict(written.data)
    return Parts(list(operands), list(types.outputs.data), properties, attributes, [region])


_FORMS: dict[str, Callable[[Parser], Parts]] = {
    "chlo.scan": _read_scan,
    "stablehlo.constant": _read_constant,
    "stablehlo.reduce": _read_reduce,
    "stablehlo.while": _read_while,
}
