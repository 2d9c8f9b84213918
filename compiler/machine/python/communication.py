"""How contexts of this thread reach other ranks: the table that `m_create` is given."""

from __future__ import annotations

import threading
from typing import Final


class Reached(threading.local):
    """The address of a `weft_communication` and what keeps it alive; none in a program that runs
    alone.
    """

    table: int = 0
    holder: object = None


REACHED: Final = Reached()
