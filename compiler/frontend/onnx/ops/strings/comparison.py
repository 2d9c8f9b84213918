"""Strings that are joined, compared with each other, and matched by expressions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.strings.automaton import Automaton
from weft.compiler.frontend.onnx.strings.regex import automaton_of
from weft.compiler.frontend.onnx.strings.spans import (
    broadcast,
    flat,
    in_one,
    lengths,
    made,
    packed,
    reshaped,
    running,
    shape_of,
    spans_of,
    taken,
)
from weft.compiler.frontend.onnx.values import Spans
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.types import I64, type_of


def import_concat(node: OnnxNode) -> Sequence[SSAValue]:
    """Each string of one tensor with that of another behind it."""
    b = node.b
    pair = broadcast(b, in_one(b, [spans_of(node, position) for position in range(2)]))
    shape, (one, other) = shape_of(pair[0]), (flat(b, spans) for spans in pair)
    starts, ends = (
        joined([Term(b, each).insert(1) for each in pair], 1).value
        for pair in ((one.starts, other.starts), (one.ends, other.ends))
    )
    data = packed(b, node.find, flat(b, Spans(starts, ends, one.data))).data
    both = lengths(b, one) + lengths(b, other)
    total = running(both)
    whole = Spans((total - both).value, total.value, data)
    return [made(node, 0, reshaped(b, whole, shape))]


def import_equal(node: OnnxNode) -> Sequence[SSAValue]:
    """Numbers of strings decide where those of one operand stand in the model."""
    spans = node.texts.spans
    first, second = node.proto.input
    if first not in spans or second not in spans or first == second:
        return [node.b.equal(node.operand(0), node.operand(1))]
    pair = broadcast(node.b, [spans_of(node, position) for position in range(2)])
    one, other = (flat(node.b, each) for each in pair)
    same = node.b.equal_strings(
        one.starts, one.ends, one.data, other.starts, other.ends, other.data
    )
    return [Term(node.b, same).reshape(shape_of(pair[0])).value]


def import_full_match(node: OnnxNode) -> Sequence[SSAValue]:
    """Whether each string as a whole is what an expression describes."""
    spans = spans_of(node, 0)
    strings = flat(node.b, spans)
    automaton = constants(node, automaton_of(node.text("pattern", "")))
    matches = node.b.match_strings(strings.starts, strings.ends, strings.data, *automaton)
    return [Term(node.b, matches).reshape(shape_of(spans)).value]


def constants(node: OnnxNode, automaton: Automaton) -> tuple[SSAValue, SSAValue]:
    """An automaton as operands."""
    return node.constant(automaton.table), node.constant(automaton.accepts)


def ranks(node: OnnxNode, spans: Spans) -> SSAValue:
    """The number of each string among the distinct ones in order."""
    b, strings = node.b, flat(node.b, spans)
    order = b.argsort_strings(strings.starts, strings.ends, strings.data)
    ordered, (count,) = taken(b, strings, order), type_of(order).shape
    zero = Term(b, b.constant_of([0], I64))  # the empty string is before the first
    before = ordered.moved(lambda each: joined([zero, Term(b, each)], 0).part(0, 0, count).value)
    pairs = (end for each in (ordered, before) for end in (each.starts, each.ends, each.data))
    same = b.equal_strings(*pairs)
    differs = Term(b, b.logical_not(same)).cast(I64)
    numbers = running(differs).value
    ranked = b.scatter_elements(order, order, numbers, axis=0, reduction="none")
    return Term(b, ranked).reshape(shape_of(spans)).value


IMPORTERS: dict[str, Importer] = {
    "Equal": import_equal,
    "RegexFullMatch": import_full_match,
    "StringConcat": import_concat,
}
