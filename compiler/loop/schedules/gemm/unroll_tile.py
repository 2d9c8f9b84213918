"""Unrolls the loops of a register tile: rows and K as copies of the body, columns as vectors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.loop.layouts import is_in_blocks
from weft.compiler.loop.nest import accesses_in, loops_in
from weft.compiler.loop.primitives import tile, unroll, vectorize
from weft.compiler.loop.strides import stride
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp

UNROLLED_K = (4, 5, 3, 2)
"""Iterations of a loop over K that are unrolled, as many as divide it."""


def unroll_tile(nest: Sequence[ForOp], lanes: int, *, rows: bool = True) -> None:
    """Unrolls the loops of a tile, the innermost one over contiguous columns as vectors, and that
    over rows if wanted.
    """
    columns = next((loop for loop in reversed(nest) if _is_contiguous(loop)), None)
    for loop in nest:
        if loop is columns:
            vectorize(loop, min(lanes, 1 << ((loop.extent.constant or lanes) - 1).bit_length()))
        if rows or loop is columns:
            unroll(loop)


def _is_contiguous(loop: ForOp) -> bool:
    """Whether consecutive iterations access neighbouring elements of the tile. Where the last dim
    of a tile is one element, loops over other dims do so too.
    """
    return all(stride(access, loop) == 1 for access in register_accesses(loop))


def register_accesses(loop: ForOp) -> list[AccessOp]:
    """The accesses inside a loop to buffers in registers."""
    return [access for access in accesses_in(loop) if _is_register(access.buffer)]


def _is_register(buffer: SSAValue) -> bool:
    return isinstance(buffer.owner, AllocOp) and buffer.owner.scope.data == "registers"


def unroll_k(top: ForOp, lanes: int = 1) -> None:
    """Unrolls a few iterations of each loop over K inside a loop: counting takes up a part of the
    instructions beside the few multiply-adds of a small tile. Of channels in a blocked layout it is
    a block, whose elements are contiguous.
    """
    for loop in [top, *loops_in(top)]:
        inside, count = loops_in(loop), loop.extent.constant
        unrolled = bool(inside) and all(each.unroll is not None for each in inside)
        if loop.reduction is None or loop.unroll is not None or count is None or not unrolled:
            continue
        # Only divisors of the length are tried: a remainder would be another copy of the tile.
        accesses = accesses_in(loop) if lanes > 1 else []
        blocked = any(is_in_blocks(access, loop, lanes) for access in accesses)
        sizes = (lanes, *UNROLLED_K) if blocked else UNROLLED_K
        most = count if blocked else count - 1
        size = next((n for n in sizes if count % n == 0 and n <= most), None)
        if size == count:
            unroll(loop)
        elif size is not None:
            unroll(tile(loop, size).inner)
