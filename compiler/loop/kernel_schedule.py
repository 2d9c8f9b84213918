"""How one kernel is to be scheduled: the record that files, searches and options are made of."""

from __future__ import annotations

from msgspec import Struct


class KernelSchedule(Struct, frozen=True):
    """How a kernel, named by its hash, is to be scheduled: calls of primitives, as text such as
    `tile{loop="i" size=6}`.
    """

    kernel: str
    steps: tuple[str, ...]
