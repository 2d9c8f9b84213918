"""The blocks of channels in which onnxruntime's optimiser stores filters and images: a model whose
nodes do not say how large they are -> the same model, whose nodes do.

A file is made for one CPU, and its blocks are as many channels as onnxruntime takes there, 8 or 16.
Filters that fit one of the two alone tell which it is, for all, and so does an image that has so
many channels that those of its filter are whole blocks of one size only; else the user has to.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import NodeProto

from weft.compiler.frontend.onnx.graph import all_nodes
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.signature import SymbolNames
from weft.dialects.errors import ModelError, OptionError, UnsupportedError

DOMAIN = "com.microsoft.nchwc"
BLOCK = "channel_block"
"""The attribute that nodes have from here on."""

SIZES = (8, 16)

KEEPING = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Relu", "Upsample")
"""Nodes whose image has the channels of what they read first."""


def state_blocks(model: LoadedModel, symbols: SymbolNames) -> None:
    """Gives each node on blocks the size of these: what the user says that `channel_block` is, else
    what the filters tell.

    Raises ModelError for filters that fit none, OptionError for a size that does not fit, and
    UnsupportedError where nothing tells.
    """
    nodes = [node for node in all_nodes(model.proto) if node.domain == DOMAIN]
    if not nodes:
        return
    filters = list(_filters(model, nodes))
    padded = list(_padded(model, nodes))
    fitting = [
        size
        for size in SIZES
        if all(_fits(size, *each) for each in filters)
        and all(results == -(-channels // size) * size for results, channels in padded)
    ]
    if not fitting:
        rule = "requires filters in blocks of 8 or of 16 channels"
        raise ModelError(f"{model.name}: {DOMAIN} {rule}, got {filters}")
    size = _stated(symbols.given(BLOCK), fitting, f"{model.name}: {DOMAIN}")
    for node in nodes:
        node.attribute.add(name=BLOCK, i=size, type="INT")


def _stated(given: int | None, fitting: list[int], who: str) -> int:
    """The size of blocks, of those that fit."""
    choices = " or ".join(map(str, fitting))
    if given is not None and given not in fitting:
        raise OptionError(f"{who} requires the {BLOCK} {choices}, got {given}")
    if given is None and len(fitting) > 1:
        # What onnxruntime does with such a file depends on the CPU that it runs on.
        rule = f"requires the size of blocks as one of dims, {BLOCK}={choices}"
        raise UnsupportedError(f"{who} {rule}, got filters that fit both")
    return fitting[0] if given is None else given


def _filters(model: LoadedModel, nodes: list[NodeProto]) -> Iterator[tuple[int, int, int]]:
    """How many channels filters make and read, and in how many groups."""
    for node in nodes:
        stored = model.initializers.get(node.input[1]) if len(node.input) > 1 else None
        if node.op_type == "Conv" and stored is not None and len(stored.tensor.dims) > 2:
            groups = next((each.i for each in node.attribute if each.name == "group"), 1)
            results, inputs, *_ = stored.tensor.dims
            yield results, inputs, groups


def _padded(model: LoadedModel, nodes: list[NodeProto]) -> Iterator[tuple[int, int]]:
    """How many channels filters make, whole blocks of them, and how many of these an image has."""
    producers = {name: node for node in all_nodes(model.proto) for name in node.output}

    def before(node: NodeProto) -> NodeProto | None:
        return producers.get(next(iter(node.input), ""))

    for node in nodes:
        if node.op_type == "ReorderOutput":
            source = before(node)
            while source is not None and source.op_type in KEEPING:
                source = before(source)
            channels = next((each.i for each in node.attribute if each.name == "channels"), 0)
            for results, _, _ in _filters(model, [source] if source is not None else []):
                yield results, channels


def is_blocked(size: int, results: int, inputs: int, groups: int) -> bool:
    """Whether a filter is in blocks of the channels that it reads too: not one for each channel,
    nor one on an image of fewer channels than a block has, which is in none.
    """
    return inputs >= size if groups == 1 else (inputs, results) != (1, groups)


def _fits(size: int, results: int, inputs: int, groups: int) -> bool:
    blocked = is_blocked(size, results, inputs, groups)
    return results % size == 0 and (inputs % size == 0 or not blocked)
