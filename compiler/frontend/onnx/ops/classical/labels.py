"""ONNX's operators that look keys up: encoders of labels and of categories.

Strings are numbers of the model's vocabulary, as keys and as values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from onnx import TensorProto
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.ops.classical.rows import DOMAIN
from weft.compiler.frontend.onnx.strings.vocabulary import UNUSED, tensor_texts
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.dtypes import element_type
from weft.dialects.graph.core.types import BOOL, F32, I64, type_of
from weft.dialects.graph.regions.effects import AssertOp
from weft.dialects.weights import Array

MOST_COMPARED = 8
"""Keys up to which each is compared; more are searched."""

DEFAULTS = {"int64s": -1, "floats": -0.0}


class Listed(Struct, frozen=True):
    """Keys or values, and whether they are strings, as numbers."""

    array: Array
    are_strings: bool = False


def import_label_encoder(node: OnnxNode) -> Sequence[SSAValue]:
    """The value that belongs to each element as a key, or the default."""
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if len(keys.array) != len(values.array):
        got = f"{len(keys.array)} and {len(values.array)}"
        raise ModelError(f"requires a value for each key, got {got}")
    return [_mapped(node, keys, values, _default(node, values))]


def _mapped(node: OnnxNode, keys: Listed, values: Listed, default: Array) -> SSAValue:
    """The values of the operand's elements."""
    same = element_type(keys.array.dtype) == node.type().element
    if not same or keys.are_strings != node.has_strings(0):
        got = "strings" if keys.are_strings else keys.array.dtype
        raise ModelError(f"requires keys of the type of its operand, got {got}")
    if values.are_strings:
        node.give_strings(0)
    return _looked_up(node, *_sorted(keys.array, values.array), default)


def _listed(node: OnnxNode, role: str) -> Listed:
    """Keys or values, of whichever type they are listed in."""
    if node.has(f"{role}_strings"):
        return Listed(node.text_numbers(f"{role}_strings"), are_strings=True)
    if node.has(f"{role}_tensor"):
        stored = node.attribute(f"{role}_tensor").t
        if stored.data_type == TensorProto.STRING:
            return Listed(node.numbers_of_texts(tensor_texts(stored).reshape(-1)), True)
        array = tensor_array(stored, node.base_dir).reshape(-1)
        if array.dtype.kind not in "iuf":
            raise UnsupportedError(
                f"requires {role} that are numbers or strings, got {array.dtype}"
            )
        return Listed(array)
    if node.has(f"{role}_int64s"):
        return Listed(np.array(node.attribute(f"{role}_int64s").ints, np.int64))
    return Listed(np.array(node.attribute(f"{role}_floats").floats, np.float32))


def _default(node: OnnxNode, listed: Listed) -> Array:
    """The value of what is no key."""
    values = listed.array
    if listed.are_strings:
        if node.has("default_tensor"):
            return node.numbers_of_texts(
                tensor_texts(node.attribute("default_tensor").t).reshape(-1)
            )
        return node.numbers_of_texts([node.text("default_string", UNUSED)])
    if node.has("default_tensor"):
        given = tensor_array(node.attribute("default_tensor").t, node.base_dir)
        return given.reshape(-1)[:1].astype(values.dtype)
    if values.dtype.kind == "f":
        return np.array([node.real("default_float", DEFAULTS["floats"])], values.dtype)
    return np.array([node.integer("default_int64", int(DEFAULTS["int64s"]))], values.dtype)


def _sorted(keys: Array, values: Array) -> tuple[Array, Array]:
    """Keys in order, NaN last, each once; raises UnsupportedError where one has two values: the
    versions of ONNX differ in which of them counts.
    """
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    again = np.array([_same(a, b) for a, b in zip(keys[1:], keys[:-1], strict=True)], bool)
    for position in np.flatnonzero(again):
        if not _same(values[position], values[position + 1]):
            raise UnsupportedError(f"requires one value for each key, got two for {keys[position]}")
    kept = np.concatenate([[True], ~again]) if len(keys) else np.zeros(0, bool)
    return keys[kept], values[kept]


def _same(one: np.generic, other: np.generic) -> bool:
    return bool(one == other or (one != one and other != other))


def _looked_up(node: OnnxNode, keys: Array, values: Array, default: Array) -> SSAValue:
    """The values of the operand's elements among sorted keys."""
    b, element = node.b, element_type(values.dtype)
    value = node.operand(0)
    fallback = node.b.constant_of(default[0], element)
    if len(keys) and keys[-1] != keys[-1]:
        own = b.constant_of(values[-1], element)
        fallback = b.where(b.is_nan(value), own, fallback)
        keys, values = keys[:-1], values[:-1]
    if not len(keys):
        return b.where(b.equal(value, value), fallback, fallback)
    if len(keys) > MOST_COMPARED:
        return searched(node, value, keys, values, fallback)
    for key, found in zip(keys, values, strict=True):
        is_key = b.equal(value, b.constant_of(key, type_of(value).element))
        fallback = b.where(is_key, b.constant_of(found, element), fallback)
    return fallback


def searched(
    node: OnnxNode, value: SSAValue, keys: Array, values: Array, fallback: SSAValue
) -> SSAValue:
    """The values of elements among sorted keys, by halving: the last of the keys that are not above
    the element, which may be the element.

    The table has a power of two of keys; those behind the last repeat it.
    """
    b = node.b
    size = 1 << (len(keys) - 1).bit_length()
    table = node.constant(np.pad(keys, (0, size - len(keys)), mode="edge"))
    numbers = node.constant(np.pad(values, (0, size - len(keys)), mode="edge"))
    position = b.filled(0, node.cast(value, I64))
    while size > 1:
        size //= 2
        further = b.add(position, node.scalar(size, I64))
        not_above = b.less_equal(b.gather(table, further, axis=0), value)
        position = b.where(not_above, further, position)
    is_key = b.equal(b.gather(table, position, axis=0), value)
    return b.where(is_key, b.gather(numbers, position, axis=0), fallback)


def import_category_mapper(node: OnnxNode) -> Sequence[SSAValue]:
    """The number of each string, or the string of each number."""
    texts = Listed(node.text_numbers("cats_strings"), are_strings=True)
    numbers = Listed(np.array(node.attribute("cats_int64s").ints, np.int64))
    if len(texts.array) != len(numbers.array):
        got = f"{len(texts.array)} and {len(numbers.array)}"
        raise ModelError(f"requires a string for each number, got {got}")
    if node.has_strings(0):
        default = np.array([node.integer("default_int64", int(DEFAULTS["int64s"]))])
        return [_mapped(node, texts, numbers, default)]
    default = node.numbers_of_texts([node.text("default_string", UNUSED)])
    return [_mapped(node, numbers, texts, default)]


def import_one_hot_encoder(node: OnnxNode) -> Sequence[SSAValue]:
    """1 where the element, as an integer, is the category, in a new last axis; where `zeros` is 0
    each element has to be one of them.
    """
    b, shape = node.b, node.shape()
    if node.has("cats_strings") != node.has_strings(0):
        raise ModelError("requires categories of the type of its operand, got others")
    if node.has("cats_strings"):
        categories = node.constant(node.text_numbers("cats_strings"))
    else:
        categories = node.constant(np.array(node.attribute("cats_int64s").ints, np.int64))
    element = node.reshape(node.cast(node.operand(0), I64), [*shape, 1])
    found = b.equal(element, categories)
    if not node.flag("zeros", default=True):
        _require_all(node, found)
    return [node.cast(found, F32)]


def _require_all(node: OnnxNode, found: SSAValue) -> None:
    """Ends a call in which an element is no category."""
    b, rank = node.b, type_of(found).rank
    assert rank is not None, "the operand's rank is known"
    counts = b.op("reduce_max", node.cast(found, I64), axes=[rank - 1], keepdims=False).results[0]
    least = b.op("reduce_min", counts, axes=list(range(rank - 1)), keepdims=False).results[0]
    held = node.cast(least, BOOL)
    text = "one-hot encoder requires elements that are categories, got another"
    b.builder.insert(AssertOp.of(held, text, [], b.location))


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.CategoryMapper": import_category_mapper,
    f"{DOMAIN}.LabelEncoder": import_label_encoder,
    f"{DOMAIN}.OneHotEncoder": import_one_hot_encoder,
}
