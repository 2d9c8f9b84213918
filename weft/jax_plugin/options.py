"""JAX's serialised options of a compilation, of which weft reads how many devices there are."""

from __future__ import annotations

from collections.abc import Iterator

_BUILD_OPTIONS, _REPLICAS, _PARTITIONS = 3, 4, 5
"""Numbers of fields: of `CompileOptionsProto`, and of `ExecutableBuildOptionsProto` in it."""

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


def device_counts(options: bytes) -> tuple[int, int]:
    """The numbers of replicas and of partitions."""
    build = dict(_fields(options)).get(_BUILD_OPTIONS, b"")
    found = dict(_fields(build)) if isinstance(build, bytes) else {}
    counts = (found.get(each, 1) for each in (_REPLICAS, _PARTITIONS))
    replicas, partitions = (each if isinstance(each, int) and each > 0 else 1 for each in counts)
    return replicas, partitions


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers: numbers, and bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[wire]
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
