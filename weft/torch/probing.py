"""Why weft cannot compute a node of a graph, and the sizes that have to be constants for it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from sympy import Symbol
from torch._dynamo.source import TensorPropertySource
from torch.fx import Node

from weft.compiler.frontend.torch.graph import AtenGraph
from weft.compiler.frontend.torch.operands import AtenTable
from weft.dialects.errors import UnsupportedError, WeftError
from weft.dialects.graph.core.types import F64
from weft.torch.tensors import assuming, dims_of, element_on_cpu, hint, is_symbolic, size_of
from weft.torch.walker import call, is_size, region_of, size_of_node


def reason_against(node: Node, table: AtenTable) -> str | None:
    """Why weft cannot compute a node, None where it can: the node is built alone. Sizes that it
    needs as constants, as strides, a number of bins or the channels of groups, become such by
    guards.
    """
    reason = _reason(node, table)
    if reason is None:
        return None
    needed = _needed(node, table)
    for each in needed.values():
        int(each)
    return _reason(node, table) if needed else reason


def _needed(node: Node, table: AtenTable) -> Mapping[Symbol, torch.SymInt]:
    """As few symbols as let weft compute a node once they are numbers; none where nothing does."""
    needed = _candidates(node)
    if not needed or not _builds(node, table, needed):
        return {}
    for symbol in list(needed):
        rest = {each: size for each, size in needed.items() if each is not symbol}
        if _builds(node, table, rest):
            needed = rest
    return needed


def _builds(node: Node, table: AtenTable, sizes: Mapping[Symbol, torch.SymInt]) -> bool:
    with assuming({symbol: hint(size) for symbol, size in sizes.items()}):
        return _reason(node, table) is None


def _candidates(node: Node) -> dict[Symbol, torch.SymInt]:
    """The symbols of a node that may become constants while guards are still taken: integers that a
    program was called with and, in front of them, sizes of tensors that nobody has seen to vary.
    """
    found: dict[Symbol, torch.SymInt] = {}
    integers: dict[Symbol, torch.SymInt] = {}
    for size in _sizes([each.meta.get("val") for each in (node, *node.all_input_nodes)]):
        env = size.node.shape_env
        for symbol in sorted(size.node.expr.free_symbols - found.keys() - integers.keys(), key=str):
            sources = env.var_to_sources.get(symbol, [])
            alone = env.create_symintnode(symbol, hint=None)
            if env.frozen or not sources or not alone.node.has_hint():
                continue
            if not any(isinstance(each, TensorPropertySource) for each in sources):
                integers[symbol] = alone
            elif env.tracked_fakes and symbol not in _varying(env):
                found[symbol] = alone
    return found | integers


def _sizes(values: Any) -> list[torch.SymInt]:
    """The integers in values, and in the sizes of tensors, that are no constants."""
    if isinstance(values, list | tuple):
        return [size for each in values for size in _sizes(each)]
    if isinstance(values, torch.Tensor):
        return _sizes(list(values.shape))
    return [values] if is_symbolic(values) else []


def _varying(env: Any) -> set[Symbol]:
    """The symbols of dims that Dynamo has seen with several sizes, or is told that they vary: a
    call with another size would find no constant right again.
    """
    constrained = [
        size
        for each in env.tracked_fakes
        for size, constraint in zip(
            getattr(each.fake, "shape", ()),
            getattr(each.symbolic_context, "constraint_sizes", ()),
            strict=False,
        )
        if constraint is not None
    ]
    return {symbol for size in _sizes(constrained) for symbol in size.node.expr.free_symbols}


def _reason(node: Node, table: AtenTable) -> str | None:
    graph = AtenGraph("probe", table)
    values: dict[Node, Any] = {}

    def of(other: Node) -> Any:
        if other not in values:
            values[other] = region_of(other) or _stand_in(graph, other.name, other.meta.get("val"))
        return values[other]

    try:
        if node.target is operator.getitem:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                element_on_cpu(value)
            return None
        if not is_size(node.meta.get("val")):
            call(graph, node, of)
        else:
            size_of_node(node)
            for source in node.all_input_nodes:
                of(source)
    except WeftError as error:
        return str(error)
    return None


def _stand_in(graph: AtenGraph, name: str, value: Any) -> Any:
    """A value of the type of another node's."""
    if isinstance(value, torch.Tensor):
        return graph.input(name, element_on_cpu(value), dims_of(value))
    if isinstance(value, list | tuple):
        return [_stand_in(graph, f"{name}_{at}", each) for at, each in enumerate(value)]
    if is_size(value):
        return size_of(value)
    if isinstance(value, torch.SymFloat):
        return graph.input(name, F64, [])
    raise UnsupportedError(f"requires tensors and sizes, got {type(value).__name__} of {name}")
