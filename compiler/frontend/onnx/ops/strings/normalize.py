"""ONNX StringNormalizer: stop words are left out, and letters changed to lower or upper case."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.strings import letters
from weft.compiler.frontend.onnx.strings.spans import (
    flat,
    made,
    packed,
    reshaped,
    running,
    shape_of,
    spans_of,
    taken,
)
from weft.compiler.frontend.onnx.strings.vocabulary import comparing, stop_words
from weft.compiler.frontend.onnx.values import Spans
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, joined, shape_attr, size_term
from weft.dialects.graph.core.types import BOOL, I32, I64, UI8, type_of

ENGLISH = "en"
"""The language whose case mappings there are; those of Turkish, for one, differ."""

LEADS = ((0xC0, 2), (0xE0, 3), (0xF0, 4))
"""The least first byte of a code point of so many bytes; below 0x80 there is one."""

FIRSTS = (0x80, 0x800, 0x10000)
"""The least code points of two, three and four bytes."""


def import_string_normalizer(node: OnnxNode) -> Sequence[SSAValue]:
    """The strings without those that are stop words, in the case that is wanted; one empty string
    where none is left.
    """
    action = node.text("case_change_action", "NONE")
    if action not in ("LOWER", "UPPER", "NONE"):
        raise ModelError(f"requires an action of LOWER, UPPER or NONE, got {action}")
    words, case = stop_words(node.proto), comparing({x.name: x for x in node.proto.attribute})
    if action != "NONE" or (words and case != "NONE"):
        _require_locale(node.text("locale", ENGLISH))
    spans = spans_of(node, 0)
    shape = shape_of(spans)
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        raise ModelError(f"requires dims [C] or [1, C], got {type_of(spans.ends)}")
    strings = flat(node.b, spans)
    if action != "NONE":
        strings = in_case(node, strings, action)
    if words:
        compared = strings if case in (action, "NONE") else in_case(node, strings, case)
        if case == "NONE":
            compared = flat(node.b, spans)
        strings = _without(node, strings, compared, words)
    (count,) = shape_of(strings)
    return [made(node, 0, reshaped(node.b, strings, [*shape[:-1], count]))]


def _require_locale(name: str) -> None:
    language = name.replace("-", "_").split("_")[0]
    if language != ENGLISH and name.lower() not in ("c.utf8", "c.utf-8", ""):
        rule = "requires the letters of an English locale, such as en_US, or C.UTF-8"
        raise UnsupportedError(f"{rule}, got {name}")


def _without(node: OnnxNode, strings: Spans, compared: Spans, words: Sequence[str]) -> Spans:
    """The strings whose counterpart is no stop word; an empty one where all are."""
    b = node.b
    is_word = np.zeros(len(node.texts.vocabulary.texts) + 1, np.bool_)
    is_word[node.texts.vocabulary.numbers(words) + 1] = True
    numbers = node.texts.vocabulary.find(b, node.constant, compared)
    dropped = Term(b, node.constant(is_word)).take(Term(b, numbers) + 1, 0)
    kept = Term(b, b.logical_not(dropped.value)).cast(I64)
    zero = Term(b, b.constant_of([0], I64))
    none = kept.sum([0], keepdims=True).equals(0).cast(I64)
    holds = joined([kept, none], 0)
    count = node.find(holds.sum([0]).value)
    places = b.nonzero(holds.cast(BOOL).value, count=shape_attr([count]))
    padded = strings.moved(lambda each: joined([Term(b, each), zero], 0).value)
    return taken(b, padded, Term(b, places).reshape([count]).value)


def in_case(node: OnnxNode, strings: Spans, action: str) -> Spans:
    """A vector of strings with each code point in lower or upper case, which may have another
    number of bytes. Bytes that are no UTF-8 become others, or are left out.
    """
    b, strings = node.b, packed(node.b, node.find, strings)
    size, data = type_of(strings.data).shape[0], Term(b, strings.data).cast(I32)
    tail = Term(b, b.constant_of([0, 0, 0], I32))
    behind = joined([data, tail], 0)
    mapped = _mapped(node, [behind.part(0, offset, size) for offset in range(4)], action)
    count = mapped.number(1)
    for least in FIRSTS:
        count = count + (mapped >= least).cast(I32)
    continues = (data >= 0x80) & (data < LEADS[0][0])
    count = continues.where(0, count).cast(I64)
    ends = running(count)
    total = count.sum([0], keepdims=True)
    target = ends - count
    found = node.find(total.reshape([]).value)
    copied = _encoded(mapped, count, target, found)
    starts = joined([target, total], 0)
    return strings.moved(lambda each: starts.take(Term(b, each), 0).value, copied.value)


def _mapped(node: OnnxNode, four: Sequence[Term], action: str) -> Term:
    """For each byte the code point that it begins, as another."""
    first = four[0]
    point = first
    for least, length in LEADS:
        value = first - least
        for byte in four[1:length]:
            value = value * 0x40 + (byte - 0x80)
        point = (first >= least).where(value, point)
    point = point.maximum(0).minimum(letters.LAST)
    pages, differences = (node.constant(table) for table in letters.tables(action))
    number = (point / letters.PAGE).minimum(len(letters.tables(action)[0]) - 1)
    start = Term(node.b, pages).take(number, 0)
    offset = point.modulo(letters.PAGE)
    return point + Term(node.b, differences).take(start + offset, 0)


def _encoded(point: Term, count: Term, target: Term, size: Expr) -> Term:
    """The bytes of code points, of which each has so many, from its target on."""
    values: list[Term] = []
    indices: list[Term] = []
    nowhere = size_term(point.b, size, I64)
    for place in range(4):
        byte = point
        for least, length in LEADS[max(place - 1, 0) :]:
            part = point / (1 << 6 * (length - 1 - place))
            part = part.modulo(0x40) + 0x80 if place else part + least
            byte = count.equals(length).where(part, byte)
        values.append(byte.cast(UI8))
        indices.append((count > place).where(target + place, nowhere))
    empty = Term(point.b, point.b.constant_of(0, UI8)).expand([size + 1]).value
    index, value = joined(indices, 0).value, joined(values, 0).value
    whole = point.b.scatter_elements(empty, index, value, axis=0, reduction="none")
    return point.of(whole).part(0, 0, size)


IMPORTERS: dict[str, Importer] = {"StringNormalizer": import_string_normalizer}
