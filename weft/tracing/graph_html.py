"""What notebooks show of a graph that is built by hand: its operators in layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from xdsl.ir import Block, Operation, SSAValue

from weft.compiler import html
from weft.dialects.graph import ConstantOp

MOST: Final = 60
"""Operators of a graph that is drawn; of a larger one they are counted."""

_BOX: Final = (120, 24)
_PITCH: Final = (136, 48)
_MARGIN: Final = 4


def graph_html(
    name: str, block: Block, inputs: Sequence[str], outputs: Mapping[str, SSAValue]
) -> str:
    """Operators below those whose results they take; constants are not drawn."""
    operators = [op for op in block.ops if op.results and not isinstance(op, ConstantOp)]
    title = f"<div><b>{html.escaped(name)}</b> {len(operators)} operators</div>"
    if len(operators) > MOST:
        counts = Counter(_label(op) for op in operators)
        return f"<div>{title}{html.table(['operator', 'count'], counts.most_common())}</div>"
    return f"<div>{title}{_drawing(block, inputs, operators, outputs)}</div>"


def _label(op: Operation) -> str:
    return op.name.removeprefix("graph.")


def _drawing(
    block: Block,
    inputs: Sequence[str],
    operators: Iterable[Operation],
    outputs: Mapping[str, SSAValue],
) -> str:
    layers: dict[SSAValue, int] = dict.fromkeys(block.args, 0)
    boxes: dict[SSAValue, tuple[int, int]] = {}
    widths: Counter[int] = Counter()
    drawn: list[str] = []

    def add_box(value: SSAValue, label: str, sources: Iterable[SSAValue]) -> None:
        found = [source for source in sources if source in boxes]
        layer = 1 + max((layers[source] for source in found), default=-1)
        layers[value] = layer
        boxes[value] = (_MARGIN + widths[layer] * _PITCH[0], _MARGIN + layer * _PITCH[1])
        widths[layer] += 1
        drawn.extend(_edge(boxes[source], boxes[value]) for source in dict.fromkeys(found))
        drawn.append(_box(boxes[value], label, str(value.type)))

    for argument, label in zip(block.args, inputs, strict=True):
        add_box(argument, label, ())
    for op in operators:
        add_box(op.results[0], _label(op), op.operands)
        for other in op.results[1:]:
            layers[other], boxes[other] = layers[op.results[0]], boxes[op.results[0]]
    drawn += [_mark(boxes[value], name) for name, value in outputs.items() if value in boxes]
    width = 2 * _MARGIN + max(widths.values(), default=1) * _PITCH[0]
    height = 2 * _MARGIN + len(widths) * _PITCH[1]
    return html.svg(width, height, drawn)


def _edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    width, height = _BOX
    begin = f"{source[0] + width // 2} {source[1] + height}"
    end = f"{target[0] + width // 2} {target[1]}"
    return f'<path d="M{begin}L{end}" stroke="currentColor" stroke-opacity="0.5"/>'


def _box(corner: tuple[int, int], label: str, type_text: str) -> str:
    x, y = corner
    width, height = _BOX
    shown = label if len(label) < 18 else f"{label[:16]}…"
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="none" '
        f'stroke="currentColor"><title>{html.escaped(f"{label}: {type_text}")}</title></rect>'
        + html.text_at(x + width / 2, y + 16, shown, "middle")
    )


def _mark(corner: tuple[int, int], name: str) -> str:
    """The name of an output below its box."""
    return html.text_at(corner[0] + _BOX[0] / 2, corner[1] + _BOX[1] + 13, name, "middle")
