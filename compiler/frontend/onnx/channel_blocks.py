"""The blocks of channels in which onnxruntime's optimiser stores filters and images: a model whose
nodes do not say how large they are -> the same model, whose nodes do.

A file is made for one CPU, and its blocks are as many channels as onnxruntime takes there, 8 or 16.
Filters that fit one of the two alone tell which it is, for all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from onnx import NodeProto

from weft.compiler.frontend.onnx.graph import all_nodes
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.target.target import Target
from weft.dialects.errors import ModelError, ModelWarning, UnsupportedError

DOMAIN = "com.microsoft.nchwc"
BLOCK = "channel_block"
"""The attribute that nodes have from here on."""

SIZES = (8, 16)


def state_blocks(model: LoadedModel, target: Target | None) -> None:
    """Gives each node on blocks the size of these. Where the filters fit both sizes, it is that of
    the `target`, for which such files are made, with a ModelWarning.

    Raises ModelError for filters that fit none, UnsupportedError where nothing tells.
    """
    nodes = [node for node in all_nodes(model.proto) if node.domain == DOMAIN]
    if not nodes:
        return
    filters = list(_filters(model, nodes))
    fitting = [size for size in SIZES if all(_fits(size, *each) for each in filters)]
    if not fitting:
        rule = "requires filters in blocks of 8 or of 16 channels"
        raise ModelError(f"{model.name}: {DOMAIN} {rule}, got {filters}")
    size = fitting[0] if len(fitting) == 1 else _size_for(target, model.name)
    for node in nodes:
        node.attribute.add(name=BLOCK, i=size, type="INT")


def _filters(model: LoadedModel, nodes: list[NodeProto]) -> Iterator[tuple[int, int, int]]:
    """How many channels filters make and read, and in how many groups."""
    for node in nodes:
        stored = model.initializers.get(node.input[1]) if len(node.input) > 1 else None
        if node.op_type == "Conv" and stored is not None and len(stored.tensor.dims) > 2:
            groups = next((each.i for each in node.attribute if each.name == "group"), 1)
            results, inputs, *_ = stored.tensor.dims
            yield results, inputs, groups


def is_blocked(size: int, results: int, inputs: int, groups: int) -> bool:
    """Whether a filter is in blocks of the channels that it reads too: not one for each channel,
    nor one on an image of fewer channels than a block has, which is in none.
    """
    return inputs >= size if groups == 1 else (inputs, results) != (1, groups)


def _fits(size: int, results: int, inputs: int, groups: int) -> bool:
    blocked = is_blocked(size, results, inputs, groups)
    return results % size == 0 and (inputs % size == 0 or not blocked)


def _size_for(target: Target | None, name: str) -> int:
    rule = f"{name}: {DOMAIN} requires filters that tell the size of blocks"
    if target is None:
        raise UnsupportedError(f"{rule}, got some that fit 8 and 16")
    size = 16 if target.vector_bytes == 64 or target.arch == "aarch64" else 8
    said = f"{size} is taken, as onnxruntime does on {target.name}"
    warnings.warn(f"{rule}, got some that fit 8 and 16; {said}", ModelWarning, stacklevel=2)
    return size
