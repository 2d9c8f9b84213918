"""Weights that are stored in fewer bits than they are used with: scales go behind what reads them.

    x @ (f32(w) * s)           ->   (x @ f32(w)) * s
    gather(f32(w) * s, rows)   ->   f32(gather(w, rows)) * gather(s, rows)

A table is not dequantised as a whole for a few of its rows then, and a product reads the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.graph.match import only_user
from weft.compiler.graph.simplify.rewrites.expressions import Match, Operator, Rewrite, Value, graph
from weft.dialects.expr import Expr
from weft.dialects.graph import ConstantOp, GraphOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import F32, I8, UI8, type_of
from weft.dialects.graph.ops.arithmetic import AddOp, MulOp, SubOp
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.graph.ops.matmul import GemmOp, MatmulOp
from weft.dialects.graph.reindexing.gather import GatherOp

LEAST_STORED = 1 << 14
"""Weights of bytes, of which fewer are floats that L1 has room for."""


def _scaled_behind(m: Match) -> Term | None:
    """The product of the weights before they are scaled, and its bias behind the scale."""
    product, weights, scale = m.operators["product"], m.op("weights", CastOp), m["s"]
    ones = [1] * (product.result_type.rank - 2)
    if not _is_by_channels(product, weights, scale.shape):
        return None

    def in_channels(parameter: Term) -> Term:
        is_vector = isinstance(product, ConvOp) and parameter.shape
        return parameter.reshape((*parameter.shape, *ones)) if is_vector else parameter

    factor = scale.reshape([dim for dim in scale.shape if dim != 1])
    result = m.again(product, product.operands[0], weights.result) * in_channels(factor)
    for bias in product.operands[2:]:
        beta = product.scales[1] if isinstance(product, GemmOp) else 1.0
        result = result + in_channels(Term(m.b, bias)) * beta
    return result


def _is_by_channels(product: GraphOp, weights: CastOp, scale: Sequence[Expr]) -> bool:
    """Whether scales of such a shape differ between the channels of a product's result alone."""
    rank = weights.result_type.rank
    varies = {rank - len(scale) + at for at, dim in enumerate(scale) if dim != 1}
    return varies <= {_channels(product) % rank}


def stays_stored(op: GraphOp, *, strict: bool) -> bool:
    """Whether floats are made of the bytes of a constant, which are no few, for the weights of one
    matrix product alone, which reads the bytes. Scales go behind it, unless it is `strict`.
    """
    if not isinstance(op, CastOp) or op.to != F32 or type_of(op.operand).element not in (I8, UI8):
        return False
    user, size = only_user(op.results[0]), op.result_type.size.constant or 0
    if not isinstance(op.operand.owner, ConstantOp) or size < LEAST_STORED:
        return False
    if isinstance(user, MulOp) and not strict:
        scales = [each for each in user.operands if each is not op.results[0]]
        product = only_user(user.results[0])
        return (
            len(scales) == 1
            and isinstance(scales[0].owner, ConstantOp)
            and _multiplies(product, user.results[0])
            and _is_by_channels(product, op, type_of(scales[0]).shape)
        )
    return _multiplies(user, op.results[0])


def _multiplies(product: Operation | None, weights: SSAValue) -> TypeGuard[GraphOp]:
    """Whether an operator is a matrix product by these weights."""
    return isinstance(product, MatmulOp | GemmOp) and product.operands[1] is weights


def _channels(product: GraphOp) -> int:
    """The axis of a product's weights that is one of its result."""
    is_first = isinstance(product, ConvOp) or (
        isinstance(product, GemmOp) and product.transposes[1]
    )
    return 0 if is_first else -1


def _rows_behind(m: Match) -> Term | None:
    """Rows of what the table is computed of, and the same computed of them."""
    table = m.op("gather", GatherOp).operand
    return _rows_of(m, table, type_of(table).shape) if _is_stored(table) else None


def _is_stored(value: SSAValue) -> bool:
    """Whether a value is a constant or an argument, or computed for one reader, element by element,
    of some.
    """
    op = value.owner
    if isinstance(op, ElementwiseOp):
        return only_user(value) is not None and all(_is_stored(each) for each in op.operands)
    return isinstance(op, ConstantOp | Block)


def _rows_of(m: Match, value: SSAValue, shape: Sequence[Expr]) -> Term:
    """What a gather takes of a value that is broadcast to a shape."""
    gather, op = m.op("gather", GatherOp), value.owner
    if isinstance(op, ElementwiseOp):
        return m.again(op, *[_rows_of(m, each, shape).value for each in op.operands])
    own, axis = type_of(value).shape, gather.position
    dims = (*[Expr.of(1)] * (len(shape) - len(own)), *own)
    term = Term(m.b, value).reshape(dims)
    if dims[axis] == shape[axis]:
        return m.again(gather, term.value, gather.indices)
    count = type_of(gather.indices).rank
    return term.reshape((*dims[:axis], *[Expr.of(1)] * count, *dims[axis + 1 :]))


stored, parameter, rows = Value("stored"), Value("s", is_constant=True), Value("rows")
widened = Operator((CastOp,), (stored,), {"to": F32})
weights = Operator((CastOp,), (Value("w", is_constant=True),), {"to": F32}).named("weights")
scaled = graph.mul(weights.alone(), parameter).alone()
product = Operator((MatmulOp, GemmOp, ConvOp), (Value("x"), scaled)).named("product")
scaled_table = Operator((MulOp, SubOp, AddOp), (widened.alone(), parameter)).alone()
gathers = [graph.gather(table, rows).named("gather") for table in (widened.alone(), scaled_table)]

STORED_WEIGHTS = (
    Rewrite("product of scaled weights", product, _scaled_behind, exact=False, elements=(F32,)),
    Rewrite("rows of a widened table", gathers[0], _rows_behind, elements=(F32,)),
    Rewrite("rows of a scaled table", gathers[1], _rows_behind, elements=(F32,)),
)
