"""Dot products: a `dot` loop of four products of bytes becomes one operation on the 32 bits that
the bytes of each lane are.

    for j vector(16):  for k < 4 dot:  acc[j] += x[k] * y[4*j + k]   ->   vpdpbusd acc, x.., y[0:64]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir
from msgspec import Struct
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from weft.compiler.loop_to_llvm.index import varies
from weft.compiler.loop_to_llvm.memory.emitter import MemoryEmitter
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.scalar.elements import I8, I32, intrinsic, lanes_of, splat
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp

REGISTERS = (4, 8, 16)
"""Lanes of 32 bits of the vector registers there are."""

Locate = Callable[[AccessOp, Mapping[SSAValue, Expr]], tuple[Storage, Expr]]
"""Where an access is, for given indices."""


class DotProduct(Struct, frozen=True, eq=False):
    """The operations of a `dot` loop: the loads of both factors, and the load and the store of what
    they are added to.
    """

    unsigned: LoadOp
    signed: LoadOp
    total: LoadOp
    store: StoreOp

    @staticmethod
    def of(loop: ForOp) -> DotProduct:
        """The operations of a loop that is marked so, and has therefore nothing else."""
        store = loop.body.block.last_op
        assert isinstance(store, StoreOp), "a dot loop ends with its store"
        loads = [op for op in loop.body.block.ops if isinstance(op, LoadOp)]
        (total,) = [load for load in loads if load.buffer is store.buffer]
        unsigned, signed = (
            next(load for load in loads if load is not total and _extended_by(load, extension))
            for extension in (arith.ExtUIOp, arith.ExtSIOp)
        )
        return DotProduct(unsigned, signed, total, store)


class DotProductEmitter(Struct, frozen=True):
    """Emits `dot` loops inside a vector loop."""

    memory: MemoryEmitter
    target: Target
    lanes: Lanes

    def emit(self, loop: ForOp, first: Expr, locate: Locate) -> bool:
        """Emits a loop, whose first index is given; false, and nothing emitted, where lanes fill no
        register that the target multiplies so, or words of several lanes begin between two.
        """
        count = self.lanes.count
        if (
            not self.target.has_dot_products
            or count not in REGISTERS
            or count > self.target.lanes(4)
        ):
            return False
        product = DotProduct.of(loop)
        places = [
            locate(access, {loop.index: first})
            for access in (product.unsigned, product.signed, product.total, product.store)
        ]
        ranges = self.memory.frame.ranges
        if any(varies(each) and each.simplify(ranges) % 4 != 0 for _, each in places[:2]):
            return False
        words = [self.memory.load_word(*place, self.lanes) for place in places[:2]]
        builder = self.memory.frame.builder
        total = self.memory.load(*places[2], self.lanes)
        factors = [splat(builder, word, count) for word in words]
        self.memory.store(*places[3], emit_dot(builder, self.target, total, *factors), self.lanes)
        return True


def _extended_by(load: LoadOp, extension: type[arith.ExtUIOp | arith.ExtSIOp]) -> bool:
    return all(isinstance(use.operation, extension) for use in load.result.uses)


def emit_dot(
    builder: ir.IRBuilder, target: Target, total: ir.Value, unsigned: ir.Value, signed: ir.Value
) -> ir.Value:
    """`total` plus the products of the four bytes of each lane, modulo 2^32; all are vectors of
    lanes of 32 bits. The target has dot products of so many lanes.
    """
    lanes = lanes_of(total)
    if target.has_dot_instruction(lanes):
        as_bytes = ir.VectorType(I8, 4 * lanes)
        factors = [builder.bitcast(each, as_bytes) for each in (unsigned, signed)]
        name = f"x86.avx512.vpdpbusd.{32 * lanes}"
        return intrinsic(builder, name, total.type, [total, *factors])
    # Two products of 16 bits each: of the even bytes, then of the odd ones. Products of bytes are
    # not summed in 16 bits, where two of them do not fit.
    for lows, highs in zip(
        _halves(builder, unsigned, signed=False), _halves(builder, signed, signed=True), strict=True
    ):
        total = builder.add(total, _multiply_add(builder, [lows, highs]))
    return total


def _halves(builder: ir.IRBuilder, words: ir.Value, *, signed: bool) -> list[ir.Value]:
    """The even and the odd bytes of each lane, extended to 16 bits."""
    pairs = builder.bitcast(words, ir.VectorType(ir.IntType(16), 2 * lanes_of(words)))
    eight = ir.Constant(pairs.type, [8] * pairs.type.count)
    shift = builder.ashr if signed else builder.lshr
    return [shift(builder.shl(pairs, eight), eight), shift(pairs, eight)]


def _multiply_add(builder: ir.IRBuilder, factors: Sequence[ir.Value]) -> ir.Value:
    """The sums of the products of neighbouring 16 bits, in 32."""
    count = lanes_of(factors[0]) // 2
    names = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
    return intrinsic(builder, names[count], ir.VectorType(I32, count), list(factors))
