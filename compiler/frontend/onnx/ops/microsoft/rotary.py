"""onnxruntime's rotary embeddings: pairs of numbers turned by angles that depend on their place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, counted, joined
from weft.dialects.graph.core.types import F32, I64

Angles = tuple[Term, Term]
"""Cosines and sines, for each pair of columns."""


def rotated(x: Term, angles: Angles, width: Expr, *, interleaved: bool = False) -> Term:
    """Four dims, of the last of which the first `width` columns are pairs that are turned: of the
    first and the second half, or of neighbours. The angles are broadcast to the other dims.
    """
    half, (cos, sin) = width // 2, angles
    whole, batch = x.part(3, 0, width), x.shape[:3]
    if interleaved:
        pairs = whole.reshape((*batch, half, 2))
        left, right = (pairs.part(4, at, 1).reshape((*batch, half)) for at in (0, 1))
    else:
        left, right = whole.part(3, 0, half), whole.part(3, half, half)
    turned = [left * cos - right * sin, right * cos + left * sin]
    if interleaved:
        turned = [joined([each.insert(4) for each in turned], 4).reshape((*batch, width))]
    rest = [] if width == x.shape[3] else [x.part(3, width, x.shape[3] - width)]
    return joined([*turned, *rest], 3)


def angles_at(tables: Angles, positions: Term, width: Expr) -> Angles:
    """Rows of tables for rows of heads `[batch, steps, heads, size]`; the positions are `[batch,
    steps]`, or `[1, steps]` for all.
    """
    cos, sin = (table.part(1, 0, width // 2).take(positions, 0).insert(2) for table in tables)
    return cos, sin


def angles_of(positions: Term, width: int, element: Attribute) -> Angles:
    """Those of positions `[steps]`, where no table is given: a pair turns by `10000 ** (-2 * i /
    width)` from a position to the next.
    """
    powers = np.float32(10000) ** (-np.arange(0, width, 2, dtype=np.float32) / width)
    turns = positions.cast(F32).insert(1) * positions.of(positions.b.constant_of(powers, F32))
    return turns.math("cos").cast(element), turns.math("sin").cast(element)


def import_rotary_embedding(node: OnnxNode) -> Sequence[SSAValue]:
    """Rotary embeddings of `[batch, steps, columns]`, or of `[batch, heads, steps, size]`."""
    if node.real("scale", 1.0) != 1 or node.flag("is_packed_batching"):
        raise UnsupportedError("requires a scale of 1 and batches that are not packed, got others")
    x, tables = Term(node.b, node.operand(0)), tables_of(node, 2)
    width = node.integer("rotary_embedding_dim", 0)
    is_flat = len(x.shape) == 3
    if is_flat:
        heads = node.integer("num_heads", 0)
        if width and not heads:
            raise ModelError("requires num_heads beside rotary_embedding_dim, got none")
        batch, steps, columns = x.shape
        size = columns // heads if heads > 0 else tables[0].shape[1] * 2
        if size == 0 or (columns % size).constant != 0:
            raise ModelError(f"requires columns of whole heads, got {columns} of {size}")
        x = x.reshape((batch, steps, columns // size, size))
    else:
        x = x.transpose([0, 2, 1, 3])
    positions = _positions(node, x.shape[1])
    interleaved = node.flag("interleaved")
    width = Expr.of(width) if width else x.shape[3]
    turned = rotated(x, angles_at(tables, positions, width), width, interleaved=interleaved)
    result = turned.reshape(node.shape()) if is_flat else turned.transpose([0, 2, 1, 3])
    return [result.value]


def tables_of(node: OnnxNode, position: int) -> Angles:
    """Operands that are the cosines and the sines of positions."""
    cos, sin = (Term(node.b, node.operand(at)) for at in (position, position + 1))
    return cos, sin


def _positions(node: OnnxNode, steps: Expr) -> Term:
    """The place of each step, given as such, or as that of the first one of all rows."""
    given = Term(node.b, node.operand(1))
    if len(given.shape) == 2:
        return given
    return given.reshape(()) + counted(node.b, steps, I64).insert(0)


IMPORTERS = importers(
    {
        "RotaryEmbedding": Signature(
            import_rotary_embedding,
            "x:F:bs.|b.s. position_ids:I:1|bs cos:F:pe sin:F:pe",
            "interleaved is_packed_batching num_heads rotary_embedding_dim scale",
        )
    }
)
