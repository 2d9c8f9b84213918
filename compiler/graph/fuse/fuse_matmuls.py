"""graph -> graph: matrix products of one operand with several weights become one product.

    x @ a + p,  x @ b + q    ->    slices of  x @ [a b] + [p q]

The weights lie side by side in one tensor of the store, in place of the single ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import erase_unused, only_user
from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.expr import Expr, product
from weft.dialects.graph import OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import ShapeAttr, type_of
from weft.dialects.graph.ops.arithmetic import AddOp
from weft.dialects.graph.ops.matmul import MatmulOp
from weft.dialects.weights import WeightStore

MOST_ROWS = 32
"""Rows of the operand up to which one product wins: what starting each one costs shows. Attentions
of BERT-base take 0.9 of the time at 1 to 32 rows on one thread and less on two, and 1.05 of it at
128, for heads then lie three times as far apart.
"""


@dataclass(frozen=True)
class FuseMatmulsPass(ModulePass):
    """Joins products with weights in each block, where the operand is known to have at most
    `most_rows` rows; of products with biases only those that nothing else uses.
    """

    name = "weft-fuse-matmuls"
    most_rows: int = MOST_ROWS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        blocks = dict.fromkeys(each.parent for each in op.walk() if isinstance(each, MatmulOp))
        for block in blocks:
            if block is not None:
                fuse_matmuls(block, weights, self.most_rows)


class _Product(Struct, frozen=True):
    """A product with a weight, and the sum with a bias behind it, if there is one."""

    product: MatmulOp
    bias: AddOp | None

    @property
    def last(self) -> GraphOp:
        return self.bias or self.product

    @property
    def columns(self) -> int:
        columns = type_of(self.product.rhs).shape[-1].constant
        assert columns is not None, "a weight has a static shape"
        return columns


def fuse_matmuls(block: Block, weights: WeightStore, most_rows: int = MOST_ROWS) -> None:
    """Joins the products of one block in place."""
    groups: dict[tuple[SSAValue, bool], list[_Product]] = {}
    for op in block.ops:
        if isinstance(op, MatmulOp) and _fits(op, weights, most_rows):
            bias = _bias_behind(op, weights)
            groups.setdefault((op.lhs, bias is not None), []).append(_Product(op, bias))
    for members in groups.values():
        if len(members) > 1:
            _join(members, weights)


def _fits(op: MatmulOp, weights: WeightStore, most_rows: int) -> bool:
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    if not lhs.has_rank or lhs.rank < 2 or rhs.rank != 2 or constant_of(op.rhs, weights) is None:
        return False
    rows = product(lhs.shape[:-1]).constant
    return rows is not None and 0 < rows <= most_rows


def _bias_behind(op: MatmulOp, weights: WeightStore) -> AddOp | None:
    """The sum with a constant row that is the only one to use the product."""
    user = only_user(op.result)
    if not isinstance(user, AddOp) or user.result_type.dims != op.result_type.dims:
        return None
    other = _other_operand(user, op.result)
    tensor_type = type_of(other)
    is_row = tensor_type.has_rank and tensor_type.shape[-1:] == op.result_type.shape[-1:]
    if not is_row or tensor_type.size != tensor_type.shape[-1]:
        return None
    return None if constant_of(other, weights) is None else user


def _other_operand(add: AddOp, value: SSAValue) -> SSAValue:
    first, second = add.operands
    return second if first is value else first


def _join(members: Sequence[_Product], weights: WeightStore) -> None:
    first = members[0].product
    b = GraphBuilder(InsertPoint.before(first), OPS_BY_NAME, first.location)

    def side_by_side(role: str, parts: Sequence[SSAValue]) -> SSAValue:
        name = f"{first.onnx_name or 'product'}.{role}"
        (joined,) = evaluate_constants([b.concat(*parts, axis=-1)], [name], weights)
        return joined

    wide = b.matmul(first.lhs, side_by_side("weights", [each.product.rhs for each in members]))
    rows = [_other_operand(each.bias, each.product.result) for each in members if each.bias]
    if rows:
        flat = [Term(b, row).reshape(type_of(row).shape[-1:]).value for row in rows]
        wide = b.add(wide, side_by_side("biases", flat))
    start = 0
    for member in members:
        part = _columns(b, wide, start, member.columns)
        result = member.last.results[0]
        part.name_hint = result.name_hint
        result.replace_all_uses_with(part)
        start += member.columns
    for member in members:
        erase_unused(member.last)


def _columns(b: GraphBuilder, wide: SSAValue, start: int, count: int) -> SSAValue:
    """So many columns of a tensor."""
    shape = type_of(wide).shape
    starts = ShapeAttr((*(Expr.of(0) for _ in shape[1:]), Expr.of(start)))
    sizes = ShapeAttr((*shape[:-1], Expr.of(count)))
    return b.slice(wide, starts=starts, sizes=sizes, steps=[1] * len(shape))
