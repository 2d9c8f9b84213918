"""Places of workspace buffers for a fuzzer: each has pages of its own between pages of nobody.

    | guard | buffer .... | guard | .... buffer | guard |
             side "before"         side "after"

The caller makes the guard pages inaccessible, so that a kernel that strays from one buffer traps.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.dialects.expr import Expr

GUARD_PAGE = 1 << 16
"""Bytes between two buffers, and what their pages are filled up to: a multiple of the pages of any
system, which have 4 to 64 KiB.
"""

GUARD_SIDES = ("before", "after")
"""Which end of each buffer lies against a guard page."""


def guarded_offsets(sizes: Sequence[Expr], side: str) -> tuple[list[Expr], Expr]:
    """The offset of each buffer of these sizes in bytes, and the size of the arena."""
    assert side in GUARD_SIDES, f"a guarded side is one of {GUARD_SIDES}, not {side}"
    offsets: list[Expr] = []
    end = Expr.of(GUARD_PAGE)
    for size in sizes:
        pages = (size + (GUARD_PAGE - 1)) // GUARD_PAGE * GUARD_PAGE
        offsets.append(end + pages - size if side == "after" else end)
        end = end + pages + GUARD_PAGE
    return offsets, end
