"""How contexts of this thread reach other ranks: the table that `m_create` is given."""

from __future__ import annotations

import threading
from typing import Any, Final, Protocol


class Heap(Protocol):
    """Where workspaces of collectives are."""

    def workspace(self, size: int, shared: int) -> Any:
        """Memory at an `address` of so many bytes, of which others reach the first ones; None where
        there is none left.
        """
        ...


class Reached(threading.local):
    """The address of a `weft_communication` and what keeps it alive; none in a program that runs
    alone. `heap` gives memory that other processes reach, if some do.
    """

    table: int = 0
    holder: object = None
    heap: Heap | None = None


REACHED: Final = Reached()
