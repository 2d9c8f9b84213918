"""graph -> graph: what computes with floats of 16 bits computes in f32, and is rounded where it is
stored as it was.

    relu(conv(x, w)) : f16   ->   f16(relu(conv(f32(x), f32(w))))

Results between operators are no longer rounded, so that they are nearer to those of real numbers;
processors multiply f32 and convert the others first, for each time that an element is read.
Arguments, weights and results keep their types, and so does what only moves elements of these.

Where the target multiplies bf16 itself, both factors of a product with a weight are rounded to that
as the model says, and the product adds up in f32:

    y + matmul(x, w) : bf16   ->   bf16(f32(y) + matmul(f32(bf16(x)), f32(w)))
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import erase_unused
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.dialects.graph import OPS_BY_NAME, ConstantOp, ControlOp, GraphOp
from weft.dialects.graph.core.algebra import shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import BF16, F16, F32, type_of
from weft.dialects.graph.ops.cast import BitcastOp, CastOp
from weft.dialects.graph.ops.conv import ConvolutionOp, ConvOp
from weft.dialects.graph.ops.matmul import GemmOp, ProductOp
from weft.dialects.graph.ops.normalize import BatchNormOp, NormalizationOp
from weft.dialects.graph.ops.pool import PoolOp
from weft.dialects.graph.ops.reduce import ReductionOp
from weft.dialects.graph.ops.softmax import ExponentialOp
from weft.dialects.graph.quantized.exact_products import exprs_of
from weft.dialects.graph.reindexing.movement import IndexMapOp, PassThroughOp
from weft.dialects.graph.reindexing.slicing import ConcatOp, SplitOp

HALVES = (F16, BF16)

BF16_TERMS = 2
"""Numbers of 16 bits in a word."""

COMPUTING = (
    ElementwiseOp, ProductOp, GemmOp, ConvolutionOp, PoolOp, ReductionOp, ExponentialOp,
    NormalizationOp, BatchNormOp,
)  # fmt: skip
"""Operators that are worth a conversion of what they read."""

PRODUCTS = (ProductOp, GemmOp, ConvolutionOp)
"""Of factors, which are their first operands."""

FACTORS = 2

MOVING = (IndexMapOp, ConcatOp, SplitOp)
"""Operators that move elements of f32 where all that they read is there as such."""

KEPT = (CastOp, BitcastOp, PassThroughOp)
"""Elementwise operators that say what type a value has."""


class WidenHalvesPass(ModulePass):
    """Rewrites every function, and regions of control flow each by itself."""

    name = "weft-widen-halves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        multiplies = multiplies_bf16(target_of(op))
        for function in op.ops:
            if isinstance(function, FuncOp):
                _Widener(multiplies).widen(function.body.block)


class _Widener(Struct):
    """What is there in f32, by the value of 16 bits that it was: computed so, or converted; and
    whether the target multiplies bf16.
    """

    multiplies: bool
    wide: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    converted: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def widen(self, block: Block) -> None:
        """Rewrites a block in its order, so that operands come first."""
        for op in list(block.ops):
            if isinstance(op, ControlOp):
                for region in op.regions:
                    _Widener(self.multiplies).widen(region.block)
            elif isinstance(op, GraphOp) and self._pays(op):
                self._rewrite(op)
        for narrow in list(self.wide):
            if isinstance(narrow.owner, CastOp):
                erase_unused(narrow.owner)

    def _pays(self, op: GraphOp) -> bool:
        halves = _halves(op.operands)
        if isinstance(op, COMPUTING):
            return bool(halves) and not isinstance(op, KEPT)
        there = all(each in self.wide or isinstance(each.owner, ConstantOp) for each in halves)
        return isinstance(op, MOVING) and there and any(each in self.wide for each in halves)

    def _rewrite(self, op: GraphOp) -> None:
        b = GraphBuilder(InsertPoint.before(op), OPS_BY_NAME, op.location)
        factors, properties = self._factors(op), dict(op.properties)
        if factors and isinstance(op, ConvOp):
            factors = [_padded(b, factors[0], properties), factors[1]]
        operands = [b.cast(each, to=F32) for each in factors]
        operands += [
            self._in_f32(b, each) if _halves([each]) else each
            for each in op.operands[len(factors) :]
        ]
        made = type(op).create(operands=operands, properties=properties, location=op.location)
        made.set_results()
        b.builder.insert(made)
        for old, new in zip(op.results, made.results, strict=True):
            new.name_hint = old.name_hint
            value = b.cast(new, to=type_of(old).element) if _halves([old]) else new
            self.wide[value] = new
            old.replace_all_uses_with(value)
        erase_unused(op)

    def _factors(self, op: GraphOp) -> Sequence[SSAValue]:
        """The factors of a product that stay in bf16: those of one with a weight."""
        if not self.multiplies or not isinstance(op, PRODUCTS):
            return ()
        factors = op.operands[:FACTORS]
        own = all(type_of(each).element == BF16 for each in factors)
        return factors if own and any(map(_is_stored, factors)) else ()

    def _in_f32(self, b: GraphBuilder, value: SSAValue) -> SSAValue:
        if value in self.wide:
            return self.wide[value]
        if value not in self.converted:
            self.converted[value] = b.cast(value, to=F32)
        return self.converted[value]


def _padded(b: GraphBuilder, image: SSAValue, properties: dict[str, Attribute]) -> SSAValue:
    """The image within the padding of a convolution, which has none then: a kernel's own copy of it
    would be of f32.
    """
    pads = exprs_of(properties.pop("pads", None))
    if all(pad == 0 for pad in pads):
        return image
    before, behind = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    return b.pad(image, pads=shape_attr([0, 0, *before, 0, 0, *behind]), mode="constant")


def multiplies_bf16(target: Target) -> bool:
    """Whether a target has instructions for products of bf16."""
    return target.has_dot_products(BF16_TERMS)


def extends_factor(op: GraphOp) -> bool:
    """Whether an operator makes f32 of bf16 for products alone of two such factors, which targets
    that multiply bf16 read as they are.
    """
    if not _extends_bf16(op):
        return False
    users = [(use.operation, use.index) for use in op.results[0].uses]
    return all(
        isinstance(user, PRODUCTS)
        and index < FACTORS
        and all(_extends_bf16(each.owner) for each in user.operands[:FACTORS])
        for user, index in users
    )


def _extends_bf16(op: Operation | Block) -> bool:
    """Whether an operator is a conversion from bf16 to f32."""
    return isinstance(op, CastOp) and type_of(op.operand).element == BF16 and op.to == F32


def _is_stored(value: SSAValue) -> bool:
    """Whether a value is a weight or an argument, or elements of one in another order."""
    while isinstance(value.owner, (IndexMapOp, PassThroughOp)):
        value = value.owner.operands[0]
    return isinstance(value.owner, (ConstantOp, Block))


def _halves(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [value for value in values if type_of(value).element in HALVES]
