"""ONNX file bytes -> a small model without weights, and the weights' bytes as views of the file.

protobuf copies every payload it parses. A model is mostly initialisers, so this walk over the wire
format takes their `raw_data` out first: what protobuf then parses is small, and a weight stays a
page of the mapped file.
"""

from collections.abc import Iterator

from msgspec import Struct

from weft.dialects.errors import ModelError

MODEL_GRAPH = 7
GRAPH_INITIALIZER = 5
TENSOR_RAW_DATA = 9

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5


class Field(Struct, frozen=True):
    """One field of a message: its number, its wire type, its whole extent and the extent of its
    value.
    """

    number: int
    wire_type: int
    start: int
    value: int
    stop: int


class SplitModel(Struct, frozen=True):
    """A serialised model without its initialisers, and each of those as (header, payload)."""

    skeleton: bytes
    initializers: tuple[tuple[bytes, memoryview | None], ...]


def split_model(data: memoryview, name: str) -> SplitModel:
    """Separate the top-level initialisers from a serialised ModelProto; raises ModelError if it is
    damaged.
    """
    skeleton = bytearray()
    initializers: list[tuple[bytes, memoryview | None]] = []
    for field in _fields(data, name):
        if field.number == MODEL_GRAPH and field.wire_type == LENGTH_DELIMITED:
            graph = _without_initializers(data[field.value : field.stop], name, initializers)
            skeleton += _tag(MODEL_GRAPH) + _varint(len(graph)) + graph
        else:
            skeleton += data[field.start : field.stop]
    return SplitModel(bytes(skeleton), tuple(initializers))


def _without_initializers(
    graph: memoryview, name: str, initializers: list[tuple[bytes, memoryview | None]]
) -> bytearray:
    kept = bytearray()
    for field in _fields(graph, name):
        if field.number == GRAPH_INITIALIZER and field.wire_type == LENGTH_DELIMITED:
            initializers.append(_split_tensor(graph[field.value : field.stop], name))
        else:
            kept += graph[field.start : field.stop]
    return kept


def _split_tensor(tensor: memoryview, name: str) -> tuple[bytes, memoryview | None]:
    """The tensor's bytes without `raw_data`, and the last `raw_data`, as protobuf would keep it."""
    header, payload = bytearray(), None
    for field in _fields(tensor, name):
        if field.number == TENSOR_RAW_DATA and field.wire_type == LENGTH_DELIMITED:
            payload = tensor[field.value : field.stop]
        else:
            header += tensor[field.start : field.stop]
    return bytes(header), payload


def _fields(data: memoryview, name: str) -> Iterator[Field]:
    position = 0
    while position < len(data):
        start = position
        tag, position = _read_varint(data, position, name)
        number, wire_type = tag >> 3, tag & 7
        value, stop = _extent(data, position, wire_type, name)
        if number == 0 or stop > len(data):
            raise _damaged(name, f"a field that ends at byte {stop} of {len(data)}")
        yield Field(number, wire_type, start, value, stop)
        position = stop


def _extent(data: memoryview, position: int, wire_type: int, name: str) -> tuple[int, int]:
    if wire_type == VARINT:
        return position, _read_varint(data, position, name)[1]
    if wire_type == LENGTH_DELIMITED:
        length, value = _read_varint(data, position, name)
        return value, value + length
    if wire_type in (FIXED64, FIXED32):
        return position, position + (8 if wire_type == FIXED64 else 4)
    raise _damaged(name, f"wire type {wire_type}")


def _read_varint(data: memoryview, position: int, name: str) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[position : position + 10]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, position + count + 1
    raise _damaged(name, "an integer without an end")


def _tag(number: int) -> bytes:
    return _varint(number << 3 | LENGTH_DELIMITED)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _damaged(name: str, got: str) -> ModelError:
    return ModelError(f"{name}: an ONNX file requires a whole protobuf message, got {got}")
