"""Dot products: a `dot` loop of four products of bytes becomes one operation on the 32 bits that
the bytes of each lane are.

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
from weft.compiler.loop_to_llvm.scalar.dot_bytes import REGISTERS, emit_dot
from weft.compiler.loop_to_llvm.scalar.elements import splat
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp

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
