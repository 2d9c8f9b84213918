"""Operators that move strings, applied to where each string starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.strings.model_strings import MOVES
from weft.compiler.frontend.onnx.strings.spans import in_one, spans_of
from weft.compiler.frontend.onnx.values import Spans, Value, tensor_of

Results = Callable[[Sequence[SSAValue | None]], Sequence[Value | None]]
"""What the node gives for other operands."""


def move_spans(node: OnnxNode, results: Results) -> None:
    """Notes the spans of the outputs of a node that moves strings which the model may not have."""
    proto, texts = node.proto, node.texts
    if proto.op_type not in MOVES or texts.spans.keys().isdisjoint(proto.input):
        return
    places = [
        position
        for position, name in enumerate(proto.input)
        if name and (texts.are_numbers(name) or texts.is_known(name))
    ]
    spans = dict(
        zip(places, in_one(node.b, [spans_of(node, place) for place in places]), strict=True)
    )
    ends = [
        results(
            [
                (each.starts, each.ends)[part] if (each := spans.get(position)) else operand
                for position, operand in enumerate(node.operands)
            ]
        )
        for part in range(2)
    ]
    data = next(iter(spans.values())).data
    for name, start, end in zip(proto.output, *ends, strict=False):
        if name and start is not None and end is not None:
            texts.spans[name] = Spans(tensor_of(start), tensor_of(end), data)
