"""Tensors in the layouts that kernels read: elements go where the expression of a layout says."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.dialects.expr import Atom, Expr, Operand, Quotient, Remainder
from weft.dialects.weights import Array


def lay_out(source: Array, address: Expr, target: Array) -> None:
    """Writes each element of a tensor to the position in dense storage that `address` gives for its
    indices, the operands of the expression; no two elements have the same.

        d0 floordiv 16 * 48 + d0 mod 16 + d1 * 16, [35, 3]
        -> two blocks that are 48 apart of 16 neighbours, three times 16 apart; then one of 3
    """
    blocks = _blocks(address, source.shape)
    if blocks is None:
        indices = zip(_operands(source), np.indices(source.shape), strict=True)
        values = cast("Mapping[Atom, Any]", dict(indices))
        target[address.evaluate(values)] = source
        return
    strides: list[int] = []
    for axis, block in enumerate(blocks):
        first, following, second = (
            address.evaluate(dict.fromkeys(_operands(source), 0) | {Operand(axis): index})
            for index in (0, 1, block)
        )
        strides += (second - first) * target.itemsize, (following - first) * target.itemsize
    for part in product(*map(_parts, source.shape, blocks)):
        starts = [start for start, _, _ in part]
        sizes = [size for _, *two in part for size in two]
        begin = address.evaluate(dict(zip(_operands(source), starts, strict=True)))
        read = source[tuple(slice(start, start + count * size) for start, count, size in part)]
        as_strided(target[begin:], sizes, strides)[...] = read.reshape(sizes)


def _operands(source: Array) -> list[Atom]:
    return [Operand(axis) for axis in range(source.ndim)]


def _blocks(address: Expr, shape: tuple[int, ...]) -> list[int] | None:
    """How many indices of each dimension a block has, all where it has no blocks; None where an
    address is no sum of multiples of blocks and of places in them.
    """
    found: dict[Expr, set[int | None]] = {
        Expr.of(Operand(axis)): set() for axis in range(len(shape))
    }
    for monomial in address.terms:
        for atom in monomial:
            if isinstance(atom, Quotient | Remainder) and atom.dividend in found:
                found[atom.dividend].add(atom.divisor.constant)
            elif not isinstance(atom, Operand):
                return None
        if len(monomial) > 1:
            return None
    if any(None in sizes or len(sizes) > 1 for sizes in found.values()):
        return None
    return [
        next(iter(sizes)) or 1 if sizes else max(extent, 1)
        for sizes, extent in zip(found.values(), shape, strict=True)
    ]


def _parts(extent: int, block: int) -> list[tuple[int, int, int]]:
    """The whole blocks of a dimension and what is left: where each starts, how many blocks, of how
    many indices.
    """
    whole = extent // block
    parts = [(0, whole, block), (whole * block, 1, extent % block)]
    return [part for part in parts if part[1] * part[2]]
