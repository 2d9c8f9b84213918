"""Writes into inputs, which AOTAutograd leaves at the end of a graph: as results that take the
memory of their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

Boxed = Callable[[list[Any]], Any]
"""Takes the arguments of a graph as one list, which it may empty, and gives a list or tuple."""


def boxed(function: Boxed) -> Boxed:
    """Says to AOTAutograd that a function takes one list."""
    function._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


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


def writing(function: Boxed, inputs: Sequence[int]) -> Boxed:
    """A function whose last results are written to inputs."""

    def call(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        found = function(arguments)
        first = len(found) - len(inputs)
        for position, value in zip(inputs, found[first:], strict=True):
            if value is not given[position]:
                given[position].copy_(value)
        return found[:first]

    return boxed(call)
