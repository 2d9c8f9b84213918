"""Strings that only a call knows, as numbers: the model's own strings in order are its vocabulary,
and a string is where it stands there, or -1 where it stands nowhere.

What a model compares a string with is in the vocabulary, so that numbers decide each comparison but
that of two strings which are both unknown. Strings are looked up by their hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.graph import all_nodes, nested_graphs
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.node import decode
from weft.compiler.frontend.onnx.strings.letters import changed
from weft.compiler.frontend.onnx.strings.spans import encoded, flat
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.compiler.frontend.onnx.values import Spans
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.classical.strings import hash_of
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64, type_of
from weft.dialects.weights import Array

UNKNOWN = -1
"""The number of a string that is not in the vocabulary."""

UNUSED = "_Unused"
"""What ONNX's encoders give for a key that they lack, unless they say something else."""

NAMES = frozenset({"nodes_modes", "activations"})
"""Attributes whose texts are no elements of tensors."""

SINGLE = frozenset({"default_string", "value_string"})
"""Attributes of one text that is an element."""


class Vocabulary:
    """The strings of a model, sorted."""

    def __init__(self, model: LoadedModel) -> None:
        self.texts = sorted({"", UNUSED, *_texts(model)})
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def numbers(self, texts: Array | Sequence[str]) -> Array:
        """The numbers of strings; raises UnsupportedError for one that the model did not have as
        it was read.
        """
        array = np.asarray(texts, np.object_)
        listed: list[str] = array.reshape(-1).tolist()
        unknown = [text for text in listed if text not in self._numbers]
        if unknown:
            rule = "requires strings that stand in the model, beside those of its inputs"
            raise UnsupportedError(f"{rule}, got {unknown[0]!r}")
        numbers = [self._numbers[text] for text in listed]
        return np.array(numbers, np.int64).reshape(array.shape)

    def find(
        self, b: GraphBuilder, constant: Callable[[Array], SSAValue], spans: Spans
    ) -> SSAValue:
        """The numbers of strings that may be others: the one among sorted hashes that is the
        string's own, or the next below, and then its bytes.
        """
        shape, strings = type_of(spans.ends).dims, flat(b, spans)
        parts = strings.starts, strings.ends, strings.data
        seed, hashes, order = self._hashed()
        size = 1 << (len(order) - 1).bit_length()
        table, place = (
            constant(np.pad(each, (0, size - len(order)), mode="edge")) for each in (hashes, order)
        )
        value = b.hash_strings(*parts, seed=seed)
        position = b.filled(0, value)
        while size > 1:
            size //= 2
            further = b.add(position, b.constant_of(size, I64))
            above = b.less_equal(b.gather(table, further, axis=0), value)
            position = b.where(above, further, position)
        number = b.gather(place, position, axis=0)
        ends, data = encoded(self.texts)
        own = (b.gather(constant(each), number, axis=0) for each in (np.append(0, ends[:-1]), ends))
        same = b.equal_strings(*parts, *own, constant(data))
        return b.reshape(b.where(same, number, b.filled(UNKNOWN, value)), shape=shape)

    def _hashed(self) -> tuple[int, Array, Array]:
        """A seed for which all hashes differ, these in order, and the string of each."""
        encoded = [text.encode() for text in self.texts]
        seed = 0
        while len(set(hashes := [hash_of(text, seed) for text in encoded])) < len(encoded):
            seed += 1
        order = np.argsort(hashes, kind="stable").astype(np.int64)
        return seed, np.array(hashes, np.int64)[order], order


def _texts(model: LoadedModel) -> Iterator[str]:
    """Every string that may be an element of a tensor."""
    inner = (each for graph in nested_graphs(model.proto.graph.node) for each in graph.initializer)
    for tensor in (*(each.tensor for each in model.initializers.values()), *inner):
        yield from tensor_texts(tensor).flat
    for node in all_nodes(model.proto):
        yield from _texts_of_node(node)


def _texts_of_node(node: NodeProto) -> Iterator[str]:
    yield from stop_words(node)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            yield from tensor_texts(attribute.t).flat
        elif attribute.name in SINGLE:
            yield decode(attribute.s)
        elif attribute.name not in NAMES:
            yield from map(decode, attribute.strings)


def stop_words(node: NodeProto) -> list[str]:
    """What a StringNormalizer compares its elements with; of any other node none."""
    if node.op_type != "StringNormalizer":
        return []
    given = {each.name: each for each in node.attribute}
    words = list(map(decode, given["stopwords"].strings)) if "stopwords" in given else []
    action = comparing(given)
    return [changed(word, action) for word in words]


def comparing(given: Mapping[str, AttributeProto]) -> str:
    """The case in which a StringNormalizer of these attributes compares."""
    if "is_case_sensitive" in given and given["is_case_sensitive"].i:
        return "NONE"
    upper = "case_change_action" in given and given["case_change_action"].s == b"UPPER"
    return "UPPER" if upper else "LOWER"


def tensor_texts(tensor: TensorProto) -> Array:
    """The elements of a tensor of strings; of any other none."""
    if tensor.data_type != TensorProto.STRING:
        return np.zeros(0, np.object_)
    stored = tensor_array(tensor)
    texts = np.array([decode(text) for text in stored.reshape(-1).tolist()], np.object_)
    return texts.reshape(stored.shape)
