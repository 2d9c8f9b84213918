"""Strings that a call brings or makes, as spans of bytes: where each starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.values import Spans
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.algebra import Term, joined, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64, Shape, type_of
from weft.dialects.weights import Array


def encoded(texts: Sequence[str]) -> tuple[Array, Array]:
    """Where each string ends, and the bytes of all."""
    parts = [text.encode() for text in texts]
    ends = np.cumsum([len(part) for part in parts]).astype(np.int64)
    return ends, np.frombuffer(b"".join(parts), np.uint8).copy()


def spans_of(node: OnnxNode, position: int) -> Spans:
    """The strings of an operand. Those of the model are looked up by their numbers."""
    name = node.proto.input[position]
    if name in node.texts.spans:
        return node.texts.spans[name]
    all_ends, data = encoded(node.texts.vocabulary.texts)
    number = node.operand(position)
    starts, ends = (
        node.b.gather(node.constant(each), number, axis=0)
        for each in (np.append(0, all_ends[:-1]), all_ends)
    )
    return Spans(starts, ends, node.constant(data))


def constant_spans(node: OnnxNode, texts: Sequence[str]) -> Spans:
    """Strings that are known, as a vector."""
    ends, data = encoded(texts)
    starts = np.append(0, ends[:-1])
    return Spans(node.constant(starts), node.constant(ends), node.constant(data))


def made(node: OnnxNode, position: int, spans: Spans) -> SSAValue:
    """Says that an output is these strings; returns their numbers."""
    if position < len(node.proto.output):
        node.texts.spans[node.proto.output[position]] = spans
    return node.texts.vocabulary.find(node.b, node.constant, spans)


def shape_of(spans: Spans) -> Shape:
    """The dims of a tensor of strings."""
    return type_of(spans.ends).shape


def reshaped(b: GraphBuilder, spans: Spans, shape: Sequence[Expr | int]) -> Spans:
    """The strings under other dims."""
    return spans.moved(lambda each: Term(b, each).reshape(shape).value)


def flat(b: GraphBuilder, spans: Spans) -> Spans:
    """The strings as a vector."""
    return reshaped(b, spans, [product(shape_of(spans))])


def taken(b: GraphBuilder, spans: Spans, indices: SSAValue, axis: int = 0) -> Spans:
    """Some of the strings."""
    return spans.moved(lambda each: b.gather(each, indices, axis=axis))


def in_one(b: GraphBuilder, parts: Sequence[Spans]) -> list[Spans]:
    """The same strings in the same bytes."""
    datas = list(dict.fromkeys(part.data for part in parts))
    data = joined([Term(b, each) for each in datas], 0).value
    offsets: dict[SSAValue, Term] = {}
    size = Expr.of(0)
    for each in datas:
        offsets[each] = size_term(b, size, I64)
        size = size + type_of(each).shape[0]

    def shifted(part: Spans) -> Spans:
        return part.moved(lambda each: (Term(b, each) + offsets[part.data]).value, data)

    return [shifted(part) for part in parts]


def broadcast(b: GraphBuilder, parts: Sequence[Spans]) -> list[Spans]:
    """Tensors of strings under the dims that they have together."""
    zero = Term(b, parts[0].ends) * 0
    for part in parts[1:]:
        zero = zero + Term(b, part.ends) * 0
    return [part.moved(lambda each: (Term(b, each) + zero).value) for part in parts]


def lengths(b: GraphBuilder, spans: Spans) -> Term:
    """The bytes of each string."""
    return (Term(b, spans.ends) - Term(b, spans.starts)).maximum(0)


def packed(b: GraphBuilder, find: Callable[[SSAValue], Expr], spans: Spans) -> Spans:
    """A vector of strings one behind the other, in bytes of their own."""
    size_of = lengths(b, spans)
    size = find(size_of.sum([0]).value)
    ends = running(size_of)
    data = b.copy_strings(spans.starts, spans.ends, spans.data, ends.value, size=shape_attr([size]))
    return Spans((ends - size_of).value, ends.value, data)


def running(numbers: Term) -> Term:
    """Sums of a vector's elements up to each one."""
    return numbers.of(numbers.b.cumsum(numbers.value, axis=0, exclusive=False, reverse=False))


def declared(b: GraphBuilder, ends: SSAValue, data: SSAValue, shape: Shape) -> Spans:
    """Strings of a call, of which each starts where the one before ends; ends that are none are
    moved into the bytes.
    """
    (count,), most = type_of(ends).shape, size_term(b, type_of(data).shape[0], I64)
    bounded = Term(b, ends).maximum(0).minimum(most)
    zero = Term(b, b.constant_of(np.zeros(1, np.int64), I64))
    starts = joined([zero, bounded], 0).part(0, 0, count)
    return reshaped(b, Spans(starts.value, bounded.value, data), list(shape))
