"""Writes into inputs, which AOTAutograd leaves at the end of a graph: as results that take the
memory of their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node


def take_writes(gm: GraphModule) -> list[int]:
    """Makes values that are written to inputs the last results of a graph, and returns the
    positions of these inputs.
    """
    placeholders = gm.graph.find_nodes(op="placeholder")
    writes = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    (output,) = gm.graph.find_nodes(op="output")
    own = [node for node in writes if node.args[0] in placeholders]
    inputs: list[int] = []
    values: list[Any] = []
    for node in own:
        source, value = node.args[:2]
        assert isinstance(source, Node), "it is a placeholder"
        inputs.append(placeholders.index(source))
        values.append(value)
        node.replace_all_uses_with(source)
        gm.graph.erase_node(node)
    if own:
        output.args = ((*output.args[0], *values),)
        gm.recompile()
    return inputs


def other_writes(gm: GraphModule) -> list[Node]:
    """What changes a tensor in the middle of a graph."""
    return [
        node
        for node in gm.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
    ]


def writing(function: Callable[..., Any], inputs: Sequence[int]) -> Callable[..., Any]:
    """A function whose last results are written to inputs, where they do not lie there already."""

    def call(*arguments: Any) -> Any:
        found = function(*arguments)
        first = len(found) - len(inputs)
        for position, value in zip(inputs, found[first:], strict=True):
            if value is not arguments[position]:
                arguments[position].copy_(value)
        return found[:first]

    return call
