"""Strings that are cut into parts: ONNX StringSplit and onnxruntime's Tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, decode
from weft.compiler.frontend.onnx.ops.microsoft.signature import DOMAIN
from weft.compiler.frontend.onnx.ops.strings.comparison import constants
from weft.compiler.frontend.onnx.strings.automaton import MOST_LOOKAHEAD, Automaton
from weft.compiler.frontend.onnx.strings.regex import (
    automaton_of,
    complement,
    literal,
    one_of,
    run_of,
)
from weft.compiler.frontend.onnx.strings.spans import (
    constant_spans,
    flat,
    in_one,
    lengths,
    made,
    reshaped,
    running,
    shape_of,
    spans_of,
    taken,
)
from weft.compiler.frontend.onnx.values import Spans
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.types import I64, type_of

WHITE = [(9, 13), (28, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
         (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)]  # fmt: skip
"""Code points that are white space, as in Python."""

ANY = complement([])
BOUNDARIES = ("\x02", "\x03")
"""What a Tokenizer puts before and behind the tokens of a string."""


class Parts(Struct, frozen=True):
    """Parts of strings in order, as spans, and of which string each is one."""

    spans: Spans
    owner: Term

    @property
    def count(self) -> Expr:
        """How many there are."""
        return self.owner.shape[0]

    def counts(self, strings: Expr) -> Term:
        """How many parts each of so many strings has."""
        b = self.owner.b
        zeros = Term(b, b.constant_of(0, I64)).expand([strings + 1]).value
        ones = b.filled(1, self.owner.value)
        counts = b.scatter_elements(zeros, self.owner.value, ones, axis=0, reduction="add")
        return Term(b, counts).part(0, 0, strings)


def _cut(
    node: OnnxNode, strings: Spans, automaton: Automaton, *, between: bool = False, most: int = -1
) -> Parts:
    """The matches of an automaton in a vector of strings, or what is between them."""
    if automaton.anchored:
        raise UnsupportedError("requires an expression of the bytes of a match, got a condition")
    if automaton.lookahead is None or automaton.lookahead > MOST_LOOKAHEAD:
        rule = f"an expression that is a match within {MOST_LOOKAHEAD} bytes of where one may begin"
        raise UnsupportedError(f"requires {rule}, got one that needs more")
    b, operands = node.b, (strings.starts, strings.ends, strings.data, *constants(node, automaton))

    # A match has a byte at least, so that one search with room for all is enough.
    room = node.find(lengths(b, strings).sum([0]).value)
    room = room + shape_of(strings)[0] if between else room
    attributes = {"between": between, "most": most, "lookahead": automaton.lookahead}
    found, total = b.op("find_matches", *operands, count=shape_attr([room]), **attributes).results
    count = node.find(total)
    spans = Term(b, found).part(1, 0, count)
    starts, ends, owner = (spans.part(0, row, 1).reshape([count]) for row in range(3))
    return Parts(Spans(starts.value, ends.value, strings.data), owner)


def _kept(node: OnnxNode, parts: Parts, holds: Term) -> Parts:
    """The parts for which a bool holds."""
    count = node.find(holds.cast(I64).sum([0]).value)
    places = Term(node.b, node.b.nonzero(holds.value, count=shape_attr([count]))).reshape([count])
    return Parts(taken(node.b, parts.spans, places.value), parts.owner.take(places, 0))


def _in_rows(node: OnnxNode, parts: Parts, counts: Term, others: Sequence[str]) -> Spans:
    """A row of parts for each string, filled up with the first of other strings; where there are
    two more, these are in front of the parts and behind them.
    """
    extra = len(others) // 2
    b, (rows,) = node.b, counts.shape
    longest = joined([counts, Term(b, b.constant_of([0], I64))], 0)
    most = Term(b, b.reduce_max(longest.value, axes=[0], keepdims=False))
    width = node.find((most + (most > 0).cast(I64) * (2 * extra)).value)
    all_parts, filling = in_one(b, [parts.spans, constant_spans(node, others)])
    last = size_term(b, parts.count, I64)
    column = counted(b, width).insert(0) - extra
    number, before = counts.insert(1), (running(counts) - counts).insert(1)
    index = ((column >= 0) & (column < number)).where(before + column, last)
    if extra:
        index = (column < 0).where(last + 1, column.equals(number).where(last + 2, index))
    starts, ends = (
        joined([Term(b, one), Term(b, other)], 0).take(index.expand([rows, width]), 0).value
        for one, other in ((all_parts.starts, filling.starts), (all_parts.ends, filling.ends))
    )
    return Spans(starts, ends, all_parts.data)


def import_string_split(node: OnnxNode) -> Sequence[SSAValue]:
    """The parts of each string, in a new last axis, and how many there are; of an empty string
    there are none.
    """
    b, spans = node.b, spans_of(node, 0)
    shape, strings = shape_of(spans), flat(node.b, spans)
    (rows,) = shape_of(strings)
    delimiter, most = node.text("delimiter", ""), node.integer("maxsplit", -1)
    if most < 0 and node.has("maxsplit"):
        raise ModelError(f"requires a maxsplit of 0 or more, got {most}")
    if delimiter:
        parts = _cut(node, strings, literal(delimiter), between=True, most=most)
        filled = Term(b, strings.ends) > Term(b, strings.starts)
        parts = _kept(node, parts, filled.take(parts.owner, 0))
        counts = parts.counts(rows)
    else:
        parts = _cut(node, strings, run_of(complement(WHITE)))
        counts = parts.counts(rows)
        if most >= 0:
            parts = _with_rest(node, parts, counts, most)
            counts = counts.minimum(most + 1)
    table = _in_rows(node, parts, counts, [""])
    split = made(node, 0, reshaped(b, table, [*shape, shape_of(table)[1]]))
    return [split, counts.reshape(shape).value]


def _with_rest(node: OnnxNode, parts: Parts, counts: Term, most: int) -> Parts:
    """The first parts of each string, and as one more all from the next to the last."""
    b = node.b
    ends = running(counts)
    index = counted(b, parts.count) - (ends - counts).take(parts.owner, 0)
    last = Term(b, parts.spans.ends).take(ends.take(parts.owner, 0) - 1, 0)
    end = index.equals(most).where(last, Term(b, parts.spans.ends))
    changed = Parts(Spans(parts.spans.starts, end.value, parts.spans.data), parts.owner)
    return _kept(node, changed, index <= most)


def import_tokenizer(node: OnnxNode) -> Sequence[SSAValue]:
    """The tokens of each string, in a new last axis: matches of an expression, what is between
    separators, or characters.
    """
    b, spans = node.b, spans_of(node, 0)
    shape, strings = shape_of(spans), flat(node.b, spans)
    if len(shape) not in (1, 2):
        raise ModelError(f"requires dims [C] or [N, C], got {type_of(spans.ends)}")
    parts, least = _tokens(node, strings), node.attribute("mincharnum").i
    if least > 1:
        parts = _kept(node, parts, _characters(node, parts.spans) >= least)
    others = [node.text("pad_value", ""), *(BOUNDARIES if node.flag("mark") else ())]
    table = _in_rows(node, parts, parts.counts(shape_of(strings)[0]), others)
    return [made(node, 0, reshaped(b, table, [*shape, shape_of(table)[1]]))]


def _tokens(node: OnnxNode, strings: Spans) -> Parts:
    """The tokens of a vector of strings, of which none is empty."""
    separators = _listed(node, "separators")
    if separators == [""]:
        return _cut(node, strings, one_of(ANY))
    if not separators:
        return _cut(node, strings, automaton_of(node.text("tokenexp", "")))
    parts = Parts(strings, counted(node.b, shape_of(strings)[0]))
    for separator in separators:
        inner = _cut(node, parts.spans, automaton_of(separator), between=True)
        parts = Parts(inner.spans, parts.owner.take(inner.owner, 0))
    is_empty = Term(node.b, parts.spans.ends) <= Term(node.b, parts.spans.starts)
    return _kept(node, parts, is_empty.of(node.b.logical_not(is_empty.value)))


def _listed(node: OnnxNode, name: str) -> list[str]:
    return [decode(text) for text in node.attribute(name).strings] if node.has(name) else []


def _characters(node: OnnxNode, spans: Spans) -> Term:
    """How many characters each string has: bytes that continue none."""
    data = Term(node.b, spans.data)
    begins = ((data < 0x80) | (data >= 0xC0)).cast(I64)
    zero = Term(node.b, node.b.constant_of([0], I64))
    before = joined([zero, running(begins)], 0)
    starts, ends = (before.take(Term(node.b, each), 0) for each in (spans.starts, spans.ends))
    return ends - starts


IMPORTERS: dict[str, Importer] = {
    "StringSplit": import_string_split,
    f"{DOMAIN}.Tokenizer": import_tokenizer,
}
