"""Random numbers are torch's own, drawn in eager's order: results are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from weft.compiler.frontend.torch.operands import AtenTable

BY_SIZE: Final = (
    "aten.rand.default", "aten.randn.default", "aten.randint.default", "aten.randint.low",
    "aten.randperm.default", "aten.rand_like.default", "aten.randn_like.default",
    "aten.bernoulli.p", "aten.randint_like.default", "aten.randint_like.low_dtype",
)  # fmt: skip
"""What of its operands' sizes and types alone depends."""

REPEATED: Final = ("run_and_save_rng_state", "run_with_rng_state")
"""Draws that activation checkpointing makes twice, from one state."""


def is_random(node: Node, table: AtenTable) -> bool:
    """Whether a node draws random numbers; what a table has draws none, as attention."""
    if str(node.target) in REPEATED:
        return True
    seeded = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return seeded and str(node.target) not in table


def draw_first(gm: GraphModule, table: AtenTable) -> set[Node]:
    """Moves draws that depend on sizes alone to the front of a graph, in their order, up to the
    first one that depends on values; returns all nodes that torch draws by.
    """
    calls = [node for node in gm.graph.nodes if node.op == "call_function"]
    draws = [node for node in calls if is_random(node, table)]
    found: set[Node] = set(draws)
    placeholders = gm.graph.find_nodes(op="placeholder")
    if not draws:
        return found
    last: Node | None = placeholders[-1] if placeholders else None
    for node in draws:
        if str(node.target) not in BY_SIZE or not _moves(node):
            break
        for source in [each for each in node.all_input_nodes if _is_tensor(each)]:
            if source.op != "placeholder":
                stand_in = _empty_like(gm, source, last)
                node.replace_input_with(source, stand_in)
                found.add(stand_in)
                last = stand_in
        if last is not None:
            last.append(node)
        last = node
    for before, node in pairwise(draws):
        node.args = (before, node.target, *node.args)
        node.target = _draw_after
    gm.recompile()
    return found


def _draw_after(before: Any, draw: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """A draw that takes the one before, so that whatever sorts a graph by what its nodes take
    leaves both in their order.
    """
    return draw(*args, **named)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _moves(node: Node) -> bool:
    """Whether all that a draw needs is there from the start: numbers and tensors' static sizes."""
    for source in node.all_input_nodes:
        value: Any = source.meta.get("val")
        if source.op == "placeholder":
            continue
        if not isinstance(value, torch.Tensor) or any(
            isinstance(d, torch.SymInt) for d in value.shape
        ):
            return False
    return True


def _empty_like(gm: GraphModule, source: Node, last: Node | None) -> Node:
    """A tensor of the sizes, strides and type of another."""
    value: torch.Tensor = source.meta["val"]
    first = next(iter(gm.graph.nodes))
    where = gm.graph.inserting_after(last) if last else gm.graph.inserting_before(first)
    with where:
        node = gm.graph.call_function(
            torch.ops.aten.empty_strided.default,
            (list(value.shape), list(value.stride())),
            {"dtype": value.dtype, "device": value.device},
        )
    node.meta = dict(source.meta)
    return node
