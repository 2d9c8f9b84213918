"""The weight store: tensors live here by key, beside the IR, which only names them."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from numpy.lib.array_utils import byte_bounds

from weft.dialects.budget import Budget

if TYPE_CHECKING:  # models out of the cache have no need of xDSL
    from xdsl.ir import Attribute

Array = npt.NDArray[Any]

BLOCK_BYTES: Final = 1 << 22
"""How much of a tensor is handled at a time: it stays in a cache from one step to the next."""

SAMPLE: Final = 64
"""Elements that are compared before all are."""


Properties = tuple[tuple[str, "Attribute"], ...]
"""The properties of an operator by name, in the order of the names."""


class Recipe(Struct, frozen=True):
    """How a tensor comes out of others: the result of that number of an operator, on operands that
    are constants (by their properties, which name a key), recipes again, or absent.
    """

    operator: type[Any]
    properties: Properties
    operands: tuple[Recipe | Properties | None, ...]
    result: int = 0


class WeightStore:
    """Logical tensors by key. Arrays are kept as they come (memory maps
    stay maps) and are never written.

    In a `replaceable` store tensors that are given may get other values once the model is compiled:
    what is computed of them has a recipe, and no values decide how the graph looks.
    Tensors that the compiler makes count against the `budget` before they are made.

    While it is `closed` nobody reads values: what is made meanwhile is right for all others, if
    `transpositions`, the answers that were given, are the same.
    """

    def __init__(self, *, replaceable: bool = False, budget: Budget | None = None) -> None:
        self.replaceable = replaceable
        self.budget = Budget() if budget is None else budget
        self._arrays: dict[str, Array] = {}
        self._digests: dict[str, str] = {}
        self._given: set[str] = set()
        self.fixed: dict[str, str] = {}
        """Digests of the model's tensors that stay what they are, by name: their values have
        decided something.
        """
        self._recipes: dict[str, Recipe] = {}
        self._made: dict[Recipe, str] = {}
        self._is_closed = False
        self.transpositions: dict[tuple[str, str], tuple[int, ...] | None] = {}

    @contextmanager
    def closed(self) -> Generator[None]:
        """Forbids to read values until the end of the block."""
        self._is_closed = True
        try:
            yield
        finally:
            self._is_closed = False

    def add(self, name: str, array: Array) -> str:
        """Stores an array; returns its key: the name, made unique where another array has it."""
        key, attempt = name, 0
        while key in self._arrays:
            if self._arrays[key] is array:
                return key
            attempt += 1
            key = f"{name}.{attempt}"
        self._arrays[key] = array
        return key

    def give(self, name: str, array: Array) -> str:
        """Stores a tensor of the model whose values may be replaced; returns its key."""
        key = self.add(name, array)
        self._given.add(key)
        return key

    def fix(self, name: str, array: Array) -> None:
        """Makes a tensor of the model one that stays what it is."""
        self._given.discard(name)
        self.fixed[name] = digest_of(array)

    def derive(self, name: str, array: Array, recipe: Recipe) -> str:
        """Stores what a recipe gives, once; returns its key."""
        if recipe not in self._made:
            key = self.add(name, array)
            self._made[recipe] = key
            self._recipes[key] = recipe
        return self._made[recipe]

    def recipe(self, key: str) -> Recipe | None:
        """How a tensor comes out of given ones, None for one that does not."""
        return self._recipes.get(key)

    def is_given(self, key: str) -> bool:
        """Whether the tensor is one of the model's whose values may be replaced."""
        return key in self._given

    def let_replace(self, keys: Iterable[str]) -> None:
        """Makes the store one in which these tensors may get other values."""
        self.replaceable = True
        self._given |= set(keys)

    def varies(self, key: str) -> bool:
        """Whether the values of a tensor may be others once the model is compiled."""
        return key in self._given or key in self._recipes

    def __getitem__(self, key: str) -> Array:
        assert not self._is_closed, "passes behind the graph read no values of weights"
        return self._arrays[key]

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of a tensor as it is stored."""
        return self._arrays[key].shape

    def bytes(self, key: str) -> int:
        """The bytes of a tensor."""
        return self._arrays[key].nbytes

    def __contains__(self, key: str) -> bool:
        return key in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def digest(self, key: str) -> str:
        """SHA-256 of the dtype and the bytes of a tensor, whatever its shape."""
        if key not in self._digests:
            self._digests[key] = digest_of(self[key])
        return self._digests[key]

    def transposition(self, key: str, other: str) -> tuple[int, ...] | None:
        """The axes with which the first tensor transposed is the second, None if there are none or
        one of the two may get other values.
        """
        if (key, other) not in self.transpositions:
            self.transpositions[key, other] = self._transposition(key, other)
        return self.transpositions[key, other]

    def _transposition(self, key: str, other: str) -> tuple[int, ...] | None:
        if self.varies(key) or self.varies(other):
            return None
        array, wanted = self._arrays[key], self._arrays[other]
        if array.dtype != wanted.dtype or array.size != wanted.size or not array.size:
            return None
        for axes in permutations(range(array.ndim)):
            turned = array.transpose(axes)
            if turned.shape == wanted.shape and _have_same_bytes(turned, wanted):
                return axes
        return None


def _have_same_bytes(array: Array, other: Array) -> bool:
    """Whether two arrays of one shape and dtype are the same memory, or the same bytes."""
    one, two = array.__array_interface__, other.__array_interface__
    if one["data"] == two["data"] and array.strides == other.strides:
        return True
    positions = np.unravel_index(
        np.linspace(0, array.size - 1, SAMPLE, dtype=np.int64), array.shape
    )
    if array[positions].tobytes() != other[positions].tobytes():
        return False
    rows = max(1, BLOCK_BYTES // array[0].nbytes)
    parts = (slice(start, start + rows) for start in range(0, len(array), rows))
    return all(array[part].tobytes() == other[part].tobytes() for part in parts)


def digest_of(array: Array) -> str:
    """SHA-256 of the dtype and the bytes of an array, whatever its shape."""
    hasher = hashlib.sha256(f"{array.dtype.str}{array.dtype.name}".encode())
    for block in byte_blocks(array):
        hasher.update(block.data)
    return hasher.hexdigest()


def release_pages(array: Array) -> None:
    """Lets the system take back the memory of an array that a file is mapped to. Its bytes are read
    again when somebody asks for them; without this all that was ever read is this process's memory.
    """
    mapping: Any = array if array.nbytes >= mmap.PAGESIZE else None
    while isinstance(mapping, np.ndarray):
        mapping = mapping.base
    mapping = getattr(mapping, "obj", mapping)  # a view of memory has an owner, too
    if not isinstance(mapping, mmap.mmap):
        return
    mapped = np.frombuffer(mapping, np.uint8)
    if mapped.flags.writeable:  # what was written to a copy would be gone
        return
    origin, _ = byte_bounds(mapped)
    first, last = (address - origin for address in byte_bounds(array))
    start = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapping.madvise(mmap.MADV_DONTNEED, start, last - start)


def byte_blocks(array: Array) -> Iterator[Array]:
    """The bytes of an array in row-major order, at most BLOCK_BYTES at a time: views of it where it
    is in that order, so that a large transpose is never copied whole.
    """
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, BLOCK_BYTES):
            yield flat[start : start + BLOCK_BYTES]
        return
    rows = BLOCK_BYTES // array[0].nbytes
    for start in range(0, len(array), max(rows, 1)):
        part = array[start : start + rows] if rows else array[start]
        yield from byte_blocks(np.ascontiguousarray(part) if rows else part)
