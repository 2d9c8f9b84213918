"""ONNX graphs as structure: nested graphs, captured names, a topological order."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from weft.dialects.errors import ModelError, printable


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nested_graphs(nodes: Sequence[NodeProto]) -> Iterator[GraphProto]:
    """The graphs below these nodes at any depth, outer ones first."""
    for node in nodes:
        for graph in subgraphs(node):
            yield graph
            yield from nested_graphs(graph.node)


def all_graphs(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """Every list of nodes in a model: main graph, functions, and the subgraphs of both."""
    bodies: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for body in bodies:
        yield body
        yield from nested_graphs(body.node)


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    for graph in all_graphs(model):
        yield from graph.node


def describe_node(node: NodeProto, index: int) -> str:
    """How messages call a node: by its name and type, by its position if it has no name."""
    label = f"node '{node.name}'" if node.name else f"node {index}"
    return f"{label} ({node.op_type or 'no op type'})"


LONGEST_ERROR = 240
"""Characters of what is said of one node or value: names in a model may be of any length."""


def brief(text: object) -> str:
    """The text on one printable line, its middle left out where it is too long."""
    shown = printable(text)
    if len(shown) <= LONGEST_ERROR:
        return shown
    return f"{shown[: LONGEST_ERROR - 65]} ... {shown[-60:]}"


def free_names(graph: GraphProto) -> set[str]:
    """The outer values that a subgraph captures."""
    defined = {value.name for value in graph.input}
    defined.update(tensor.name for tensor in graph.initializer)
    used = {value.name for value in graph.output}
    for node in graph.node:
        used |= used_names(node)
        defined.update(node.output)
    return used - defined - {""}


def used_names(node: NodeProto) -> set[str]:
    """The values that a node reads, those that its subgraphs capture included."""
    names = set(node.input)
    for graph in subgraphs(node):
        names |= free_names(graph)
    return names - {""}


def inner_names(node: NodeProto) -> set[str]:
    """The values that nodes of a node's subgraphs give, at any depth."""
    nodes = [each for graph in subgraphs(node) for each in graph.node]
    return {name for each in nodes for name in (*each.output, *inner_names(each)) if name}


def sort_nodes(graph: GraphProto | FunctionProto, model_name: str) -> None:
    """Order the nodes so that each follows those it reads from, keeping the file's order where that
    is free.

    Raises ModelError with the nodes of one cycle if there is no such order.
    """
    nodes = list(graph.node)
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{producer[name] for name in used_names(node) if name in producer} for node in nodes]
    if all(max(sources, default=-1) < index for index, sources in enumerate(needs)):
        return
    order = _topological_order(needs)
    if len(order) < len(nodes):
        cycle = _find_cycle(needs, set(range(len(nodes))) - set(order))
        path = " -> ".join(describe_node(nodes[index], index) for index in cycle)
        rule = "a graph requires nodes without a cycle"
        raise ModelError(f"{model_name}: {brief(f'{rule}, got {path}')}")
    # Sorting in place moves references, where replacing the list would copy each node; keys are
    # asked for in order.
    rank = {index: position for position, index in enumerate(order)}
    positions = iter([rank[index] for index in range(len(nodes))])
    graph.node.sort(key=lambda _: next(positions))


def _topological_order(needs: Sequence[set[int]]) -> list[int]:
    """Positions in an order of their needs, the lowest free one first; those on or behind a cycle
    are missing.
    """
    waiting = [len(sources) for sources in needs]
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for index, sources in enumerate(needs):
        for source in sources:
            readers[source].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    return order


def _find_cycle(needs: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """A cycle among nodes that wait for each other, in the direction of the data, its first node
    repeated.
    """
    position, seen = min(stuck), dict[int, int]()
    path: list[int] = []
    while position not in seen:
        seen[position] = len(path)
        path.append(position)
        position = min(needs[position] & stuck)
    cycle = path[seen[position] :] + [position]
    return cycle[::-1]
