"""ONNX TensorProto -> NumPy array: a view of the file's bytes where the element type allows it."""

import math
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from onnx import TensorProto, TensorShapeProto, TypeProto, helper

from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.extent import is_allowed, too_large

Array = npt.NDArray[np.generic]

DTYPES: dict[int, np.dtype[np.generic]] = {
    number: helper.tensor_dtype_to_np_dtype(number)
    for number in TensorProto.DataType.values()
    if number != TensorProto.UNDEFINED
}

# Element types that a file packs tighter than a byte, little end first, and that an array holds one
# to a byte.
PACKED_BITS: dict[int, int] = {
    TensorProto.UINT2: 2,
    TensorProto.INT2: 2,
    TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.FLOAT6E2M3: 6,
    TensorProto.FLOAT6E3M2: 6,
}
# Of these, the ones that `int32_data` stores packed bytes of; six-bit floats have an entry of their
# own each.
PACKED_ENTRIES = frozenset(number for number, bits in PACKED_BITS.items() if bits != 6)

UNKNOWN_DIM = -1

FLOAT_FIELD = frozenset({TensorProto.FLOAT, TensorProto.COMPLEX64})
DOUBLE_FIELD = frozenset({TensorProto.DOUBLE, TensorProto.COMPLEX128})
UINT64_FIELD = frozenset({TensorProto.UINT32, TensorProto.UINT64})
COMPLEX = frozenset({TensorProto.COMPLEX64, TensorProto.COMPLEX128})


class ExternalRange(Struct, frozen=True):
    """The bytes of one tensor in a file beside the model."""

    path: Path
    offset: int
    length: int


def tensor_array(
    tensor: TensorProto, base_dir: Path | None = None, payload: memoryview | None = None
) -> Array:
    """The tensor's elements, read-only: a memory map of external data, else a view of `payload` or
    of its own bytes.

    `payload` stands for `raw_data` where the loader has taken that out of the proto. Only types
    below a byte, bool, strings and the typed fields (`float_data`, ...) are copied. Raises
    ModelError if the bytes do not fit the shape.
    """
    check_tensor(tensor, payload)
    dtype, dims = DTYPES[tensor.data_type], tuple(tensor.dims)
    if is_external(tensor):
        return _decode_bytes(
            _map_external(external_range(tensor, base_dir)), tensor.data_type, dims
        )
    if tensor.data_type == TensorProto.STRING:
        strings = np.array(list(tensor.string_data), dtype=np.object_)
        return _read_only(strings.reshape(dims))
    if payload is not None or tensor.HasField("raw_data"):
        stored = np.frombuffer(tensor.raw_data if payload is None else payload, dtype=np.uint8)
        return _decode_bytes(stored, tensor.data_type, dims)
    return _read_only(_decode_entries(tensor, dtype, dims))


def check_tensor(tensor: TensorProto, payload: memoryview | None = None) -> None:
    """Raise ModelError unless type, dims and stored size agree; external bytes are judged by
    `external_range`.
    """
    who = describe(tensor)
    if tensor.data_type not in DTYPES:
        raise ModelError(f"{who} requires a known element type, got {tensor.data_type}")
    count = element_count(tensor.dims, who)
    if is_external(tensor):
        return
    if tensor.data_type == TensorProto.STRING and (payload is not None or tensor.raw_data):
        raise ModelError(f"{who} requires strings as such, got raw bytes")
    stored, expected = _stored_entries(tensor, payload), _expected_entries(tensor, payload, count)
    if stored != expected:
        unit = "bytes" if payload is not None or tensor.HasField("raw_data") else "entries"
        shape = "x".join(map(str, tensor.dims)) or "scalar"
        raise ModelError(f"{who} requires {expected} {unit} for its shape {shape}, got {stored}")


def element_count(dims: Sequence[int], who: str) -> int:
    """The product of `dims`; raises ModelError if one is negative, UnsupportedError if they are too
    large.
    """
    if any(dim < 0 for dim in dims):
        raise ModelError(f"{who} requires dimensions of at least 0, got {list(dims)}")
    if not is_allowed(dims, 1):
        raise UnsupportedError(str(too_large(who, list(dims))))
    return math.prod(dims)


def is_stated(dim: TensorShapeProto.Dimension) -> bool:
    """Whether a dim says a size; some converters write -1 for one that varies."""
    return dim.HasField("dim_value") and dim.dim_value != UNKNOWN_DIM


def fits_declared(declared: TypeProto.Tensor, shape: Sequence[int]) -> bool:
    """Whether a shape has the rank that is declared, and the dims that are stated."""
    dims = declared.shape.dim
    stated = zip(dims, shape, strict=False)
    same = all(not is_stated(each) or each.dim_value == dim for each, dim in stated)
    return not declared.HasField("shape") or (same and len(dims) == len(shape))


def byte_size(data_type: int, count: int) -> int:
    """Bytes that `count` elements take in a file."""
    bits = PACKED_BITS.get(data_type)
    return -(-count * bits // 8) if bits else count * DTYPES[data_type].itemsize


def is_external(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


def describe(tensor: TensorProto) -> str:
    return f"tensor '{tensor.name}'" if tensor.name else "a tensor without a name"


def external_range(tensor: TensorProto, base_dir: Path | None) -> ExternalRange:
    """Where an external tensor lies; raises ModelError if that is outside the model's folder or its
    file.
    """
    who = describe(tensor)
    if tensor.data_type == TensorProto.STRING:
        raise ModelError(f"{who} requires strings inside the model file, got external data")
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _external_path(entries.get("location", ""), base_dir, who)
    size = path.stat().st_size
    expected = byte_size(tensor.data_type, element_count(tensor.dims, who))
    offset = _decimal(entries.get("offset", "0"), "offset", who)
    length = _decimal(entries.get("length", str(expected)), "length", who)
    if length != expected:
        raise ModelError(f"{who} requires {expected} bytes for its shape, got a length of {length}")
    if offset + length > size:
        got = f"bytes {offset} to {offset + length} of {size}"
        raise ModelError(f"{who} requires external data within '{path.name}', got {got}")
    return ExternalRange(path, offset, length)


def _external_path(location: str, base_dir: Path | None, who: str) -> Path:
    if base_dir is None:
        raise ModelError(
            f"{who} requires a model read from a file for its external data, got bytes"
        )
    parts = PurePosixPath(location)
    leaves = parts.is_absolute() or PureWindowsPath(location).drive or ".." in parts.parts
    if not location or leaves or "\\" in location or "\0" in location:
        rule = "an external location inside the model's folder"
        raise ModelError(f"{who} requires {rule}, got {location!r}")
    folder = base_dir.resolve()
    try:
        path = (folder / parts).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{who} requires its external file, got no {location!r}") from error
    if not path.is_relative_to(folder):
        raise ModelError(f"{who} requires no link out of the model's folder, got {location!r}")
    if not path.is_file():
        raise ModelError(f"{who} requires a regular external file, got {location!r}")
    return path


def _decimal(text: str, key: str, who: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ModelError(f"{who} requires a decimal {key} of external data, got {text[:40]!r}")
    return int(text)


def _map_external(where: ExternalRange) -> npt.NDArray[np.uint8]:
    if where.length == 0:
        return np.zeros(0, dtype=np.uint8)
    return np.memmap(where.path, np.uint8, "r", where.offset, (where.length,))


def _decode_bytes(stored: npt.NDArray[np.uint8], data_type: int, dims: tuple[int, ...]) -> Array:
    dtype, bits = DTYPES[data_type], PACKED_BITS.get(data_type)
    if bits:
        return _read_only(_unpack(stored, bits, math.prod(dims)).view(dtype).reshape(dims))
    if data_type == TensorProto.BOOL:
        return _read_only((stored != 0).reshape(dims))
    return _read_only(stored.view(dtype).reshape(dims))


def _unpack(stored: npt.NDArray[np.uint8], bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Little-endian fields of `bits` bits, one to a byte: 0b1011_0001 in 4 bits becomes 0b0001,
    0b1011.
    """
    if bits == 6:
        digits = np.unpackbits(stored, bitorder="little")[: count * 6].reshape(count, 6)
        return np.packbits(digits, axis=1, bitorder="little").reshape(count)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = (stored[:, None] >> shifts) & np.uint8(2**bits - 1)
    return fields.reshape(-1)[:count]


def _decode_entries(
    tensor: TensorProto, dtype: np.dtype[np.generic], dims: tuple[int, ...]
) -> Array:
    data_type = tensor.data_type
    if data_type in FLOAT_FIELD:
        return np.array(tensor.float_data, dtype=np.float32).view(dtype).reshape(dims)
    if data_type in DOUBLE_FIELD:
        return np.array(tensor.double_data, dtype=np.float64).view(dtype).reshape(dims)
    if data_type == TensorProto.INT64:
        return np.array(tensor.int64_data, dtype=np.int64).reshape(dims)
    if data_type in UINT64_FIELD:
        return np.array(tensor.uint64_data, dtype=np.uint64).astype(dtype).reshape(dims)
    entries = np.array(tensor.int32_data, dtype=np.int32)
    return _decode_int32(entries, data_type, math.prod(dims)).reshape(dims)


def _decode_int32(entries: npt.NDArray[np.int32], data_type: int, count: int) -> Array:
    """`int32_data` holds small integers by value, small floats by their bits, and packed types byte
    by byte.
    """
    dtype = DTYPES[data_type]
    if data_type in PACKED_ENTRIES:
        per_byte = 8 // PACKED_BITS[data_type]
        packed = entries.astype(np.uint8)
        return _unpack(packed, PACKED_BITS[data_type], packed.size * per_byte)[:count].view(dtype)
    if data_type == TensorProto.BOOL:
        return entries != 0
    if dtype.kind in "iu" and data_type not in PACKED_BITS:
        return entries.astype(dtype)
    low_bits = entries.astype(np.uint16 if dtype.itemsize == 2 else np.uint8)
    return (low_bits & np.uint8(0x3F) if data_type in PACKED_BITS else low_bits).view(dtype)


def _stored_entries(tensor: TensorProto, payload: memoryview | None) -> int:
    data_type = tensor.data_type
    if data_type == TensorProto.STRING:
        return len(tensor.string_data)
    if payload is not None:
        return len(payload)
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    if data_type in FLOAT_FIELD:
        return len(tensor.float_data)
    if data_type in DOUBLE_FIELD:
        return len(tensor.double_data)
    if data_type == TensorProto.INT64:
        return len(tensor.int64_data)
    return len(tensor.uint64_data if data_type in UINT64_FIELD else tensor.int32_data)


def _expected_entries(tensor: TensorProto, payload: memoryview | None, count: int) -> int:
    data_type = tensor.data_type
    if data_type == TensorProto.STRING:
        return count
    if payload is not None or tensor.HasField("raw_data"):
        return byte_size(data_type, count)
    if data_type in PACKED_ENTRIES:
        return byte_size(data_type, count)
    return count * 2 if data_type in COMPLEX else count


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
