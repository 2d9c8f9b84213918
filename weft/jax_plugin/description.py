"""What the plugin's native code has to know of a program beside its code."""

from __future__ import annotations

from msgspec import Struct


class Description(Struct, frozen=True):
    """The number of inputs, and of results the API's numbers of types, the dims and the bytes."""

    name: str
    inputs: int
    numbers: list[int]
    dims: list[list[int]]
    sizes: list[int]
