"""Types and constants of StableHLO as those of the graph level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, cast

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    DenseIntOrFPElementsAttr,
    StringAttr,
    TensorType,
    TupleType,
)
from xdsl.ir import Attribute

from weft.dialects.context import MANY
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import BOOL, FLOATS, I2, I4, INTEGERS, STORED, UI2, UI4
from weft.dialects.stablehlo.attributes import TokenType
from weft.dialects.stablehlo.quantized import Quantization, UniformType
from weft.dialects.weights import Array

KNOWN = (*FLOATS, *INTEGERS, BOOL, *STORED)


_BYTES: Mapping[Attribute, Any] = {
    BOOL: np.uint8,
    I2: np.int8,
    I4: np.int8,
    UI2: np.uint8,
    UI4: np.uint8,
}
"""What holds elements below 8 bits in a dense attribute."""


class Declared(Struct, frozen=True):
    """The type that a value is written with: a dim that varies is None."""

    shape: tuple[int | None, ...]
    element: Attribute

    @property
    def static(self) -> tuple[int, ...]:
        """The dims, which do not vary."""
        dims = tuple(dim for dim in self.shape if dim is not None)
        if len(dims) != len(self.shape):
            raise UnsupportedError(f"requires a static shape, got {list(self.shape)}")
        return dims


def declared(written: Attribute) -> Declared:
    """The type of a tensor, or of the real parts of complex numbers. Raises UnsupportedError for
    element types that weft lacks.
    """
    if not isinstance(written, TensorType):
        raise UnsupportedError(f"requires tensors, got {written}")
    written = cast("TensorType[Any]", written)
    element: Attribute = written.element_type
    if isinstance(element, ComplexType):
        element = cast("ComplexType[Any]", element).element_type
    elif isinstance(element, UniformType):
        element = element.data.storage
    if element not in KNOWN:
        raise UnsupportedError(f"requires an element type that weft knows, got {element}")
    dims = (None if dim == DYNAMIC_INDEX else dim for dim in written.get_shape())
    return Declared(tuple(dims), element)


def held_as(written: Attribute) -> Declared:
    """The type of the array that JAX holds for a value: for a token one without elements."""
    return Declared((0,), BOOL) if is_token(written) else declared(written)


def is_complex(written: Attribute) -> bool:
    """Whether a value is a tensor of complex numbers, which the graph has as two of reals."""
    if not isinstance(written, TensorType):
        return False
    return isinstance(cast("TensorType[Any]", written).element_type, ComplexType)


def quantization(written: Attribute) -> Quantization | None:
    """How a tensor is quantised, if it is."""
    if not isinstance(written, TensorType):
        return None
    element: Attribute = cast("TensorType[Any]", written).element_type
    return element.data if isinstance(element, UniformType) else None


def leaves_of(written: Attribute, *, nested: bool = True) -> list[Attribute]:
    """The types of the values of a tuple, and of those in it; of another value its own."""
    if not isinstance(written, TupleType):
        return [written]
    values: list[Attribute] = list(written.types.data)
    return [leaf for each in values for leaf in leaves_of(each)] if nested else values


def parts_of(written: Attribute) -> int:
    """How many tensors of the graph a value is."""
    if isinstance(written, TupleType):
        return sum(parts_of(each) for each in leaves_of(written))
    return 0 if is_token(written) else 2 if is_complex(written) else 1


def attribute_text(value: Attribute | None) -> str:
    """The text of a string attribute, empty for any other."""
    return value.data if isinstance(value, StringAttr) else ""


def is_token(written: Attribute) -> bool:
    """Whether a value only orders effects."""
    return isinstance(written, TokenType)


def constant_array(value: Attribute, wanted: Declared) -> Array:
    """The elements of a constant; one of each dim where one element stands for very many."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        raise UnsupportedError(f"requires dense elements, got {value.name}")
    dtype = numpy_dtype(wanted.element)
    raw = np.frombuffer(value.data.data, _BYTES.get(wanted.element, dtype))
    flat = raw != 0 if wanted.element == BOOL else raw.astype(dtype)
    pairs = is_complex(cast("Any", value).type)
    parts = (2,) if pairs else ()
    shape = (*wanted.static, *parts)
    if flat.size == prod(parts) and prod(wanted.static) >= MANY:
        return flat.reshape((*(1 for _ in wanted.static), *parts))
    if flat.size != prod(shape):
        raise ModelError(f"requires {list(shape)} elements, got {flat.size}")
    return flat.reshape(shape)


def dense_integers(value: Attribute) -> Array:
    """A small tensor of integers that an attribute holds."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        raise ModelError(f"requires dense integers, got {value}")
    get: Callable[[], object] = value.get_values
    return np.array(get(), np.int64).reshape(value.get_shape())
