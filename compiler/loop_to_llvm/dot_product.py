"""Dot products: a `dot` loop of four products of bytes, or two of bf16, becomes one operation on
the 32 bits that these are in each lane.

    for j vector(16):  for k < 4 dot:  acc[j] += x[k] * y[4*j + k]   ->   vpdpbusd acc, x.., y[0:64]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from weft.compiler.loop_to_llvm.index import varies
from weft.compiler.loop_to_llvm.memory.emitter import MemoryEmitter
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.scalar.dot_bytes import REGISTERS, emit_dot, emit_dot_of_floats
from weft.compiler.loop_to_llvm.scalar.elements import splat
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp
from weft.dialects.loop.scalar import is_float, width

Locate = Callable[[AccessOp, Mapping[SSAValue, Expr]], tuple[Storage, Expr]]
"""Where an access is, for given indices."""


class DotProduct(Struct, frozen=True, eq=False):
    """The operations of a `dot` loop: the loads of both factors, of bytes the unsigned one first,
    and the load and the store of what they are added to.
    """

    lhs: LoadOp
    rhs: LoadOp
    total: LoadOp
    store: StoreOp

    @staticmethod
    def of(loop: ForOp) -> DotProduct:
        """The operations of a loop that is marked so, and has therefore nothing else."""
        store = loop.body.block.last_op
        assert isinstance(store, StoreOp), "a dot loop ends with its store"
        loads = [op for op in loop.body.block.ops if isinstance(op, LoadOp)]
        (total,) = [load for load in loads if load.buffer is store.buffer]
        lhs, rhs = sorted((load for load in loads if load is not total), key=_is_signed)
        return DotProduct(lhs, rhs, total, store)

    @property
    def terms(self) -> int:
        """How many elements fill a word."""
        return 32 // width(self.lhs.buffer_type.element)


class DotProductEmitter(Struct, frozen=True):
    """Emits `dot` loops inside a vector loop."""

    memory: MemoryEmitter
    target: Target
    lanes: Lanes

    def emit(self, loop: ForOp, first: Expr, locate: Locate) -> bool:
        """Emits a loop, whose first index is given; false, and nothing emitted, where lanes fill no
        register that the target multiplies so, or words of several lanes begin between two.
        """
        count, product = self.lanes.count, DotProduct.of(loop)
        if (
            not self.target.has_dot_products(product.terms)
            or count not in REGISTERS
            or count > self.target.lanes(4)
        ):
            return False
        places = [
            locate(access, {loop.index: first})
            for access in (product.lhs, product.rhs, product.total, product.store)
        ]
        ranges = self.memory.frame.ranges
        if any(
            varies(each) and each.simplify(ranges) % product.terms != 0 for _, each in places[:2]
        ):
            return False
        words = [self.memory.load_word(*place, self.lanes) for place in places[:2]]
        builder = self.memory.frame.builder
        total = self.memory.load(*places[2], self.lanes)
        factors = [splat(builder, word, count) for word in words]
        if is_float(product.store.buffer_type.element):
            total = emit_dot_of_floats(builder, total, *factors)
        else:
            total = emit_dot(builder, self.target, total, *factors)
        self.memory.store(*places[3], total, self.lanes)
        return True


def _is_signed(load: LoadOp) -> bool:
    """Whether an element is a signed byte; floats are not told apart."""
    return all(isinstance(use.operation, arith.ExtSIOp) for use in load.result.uses)
