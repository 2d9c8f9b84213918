"""When a process that imports or uses the compiler looks for cycles among its objects: importing
and compiling make millions of small ones that stay, of which few are in cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

COLLECTION_THRESHOLDS: Final = (400_000, 50, 100)


@contextmanager
def rare_collections() -> Generator[None]:
    """Lets the interpreter look for cycles rarely, unless it does so even more rarely."""
    before = gc.get_threshold()
    gc.set_threshold(*max(before, COLLECTION_THRESHOLDS))
    try:
        yield
    finally:
        gc.set_threshold(*before)
