"""What an engine gives: a model that is ready to run on arrays that are already in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from weft.dialects.errors import WeftError
from weft.dialects.weights import Array

Inputs = Mapping[str, Array]


class PeerLacks(WeftError):
    """A model that a peer cannot run; the message says what it lacks."""


class Session(Struct, frozen=True):
    """`call()` runs the model once, whole, and returns what the engine returns;
    `arrays` brings that into NumPy arrays in the order of the model's outputs. `base_bytes` is what
    the process had before the model's own memory, where that is told apart.
    """

    call: Callable[[], Any]
    arrays: Callable[[Any], list[Array]]
    base_bytes: int = 0
