"""program -> a proof: what a naive program computes for one value of a size is the start of what it
computes for every greater value.

A buffer *starts alike* when each element within its shape for the lesser size has one value for
both. Inputs do, since a caller pads them; this module shows that every operation keeps it so. Loops
may only gain iterations at their end, and these may only write behind the lesser shape; nothing may
compute with the size itself. Every operator is covered, as its loops are all that is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from xdsl.ir import Operation, SSAValue

from weft.dialects.expr import Atom, Expr, Extremum, Quotient, Symbol, product
from weft.dialects.interval import Range
from weft.dialects.loop.arithmetic import IndexedOp, IndexOp
from weft.dialects.loop.dynamic import CopyOp, RequireEqualOp
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, ViewOp, nodes_around
from weft.dialects.loop.types import BufferType, buffer_type_of


class Dependence(Struct, frozen=True):
    """Where rows stop being independent: the node of the model, as far as it is known, and why."""

    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node}, {self.reason}"


class RowProof(Struct):
    """The walk through one program for one of its sizes."""

    program: ProgramOp
    kernels: dict[str, KernelOp]
    size: str
    seen: dict[tuple[str, str], str | None] = field(
        default_factory=dict[tuple[str, str], str | None]
    )

    def dependence(self) -> Dependence | None:
        """The first operation that does not keep buffers starting alike; None if all do."""
        for op in self.program.walk():
            reason = self._reason(op)
            if reason is not None:
                return Dependence(_node(op), reason)
        return None

    def _reason(self, op: Operation) -> str | None:
        match op:
            case ProgramOp():
                return _first(_shape_reason(value, self.size) for value in op.body.block.args)
            case CallOp():
                return self._call_reason(op)
            case ViewOp():
                shapes = buffer_type_of(op.source).shape, buffer_type_of(op.result).shape
                if not keeps_rows(*shapes, self.size):
                    return f"which reshapes so that {self.size} is not outermost"
                return None
            case ForOp() if _mentions(op.upper, self.size):
                return f"which runs for {self.size} iterations"
            case RequireEqualOp() if any(_mentions(each, self.size) for each in op.sizes.data):
                return f"which computes with the value of {self.size}"
            case CopyOp():
                return None
            case _:
                return _op_reason(op, self.size)

    def _call_reason(self, call: CallOp) -> str | None:
        """What a kernel does to the size, under the name that it has there."""
        kernel = self.kernels[call.kernel]
        for name, expr in zip(kernel.symbol_names, call.sizes.data, strict=True):
            if not _mentions(expr, self.size):
                continue
            if expr.symbols() != [self.size] or not grows_with(expr, self.size):
                return f"which takes {expr} for a size"
            key = kernel.sym_name.data, name
            if key not in self.seen:
                self.seen[key] = _kernel_reason(kernel, name)
            reason = self.seen[key]
            if reason is not None:
                return reason.format(self.size)
        return None


def _kernel_reason(kernel: KernelOp, size: str) -> str | None:
    """Why a kernel does not keep buffers starting alike, `{}` being the size; None if it does."""
    reasons = (_op_reason(op, size) for op in kernel.walk() if op is not kernel)
    arguments = (_shape_reason(value, size) for value in kernel.body.block.args)
    found = _first(arguments) or _first(reasons)
    return None if found is None else found.replace(size, "{}")


def _op_reason(op: Operation, size: str) -> str | None:
    computes = f"which computes with the value of {size}"
    match op:
        case ForOp():
            if _mentions(op.lower, size) or not grows_with(op.upper, size):
                return computes
        case AllocOp():
            return _shape_reason(op.result, size)
        case StoreOp() if not _writes_behind(op, size):
            return f"which combines elements along {size}"
        case AccessOp() if any(_mentions(each, size) for each in op.subscripts.data):
            return computes
        case IndexOp() | IndexedOp() if _mentions(op.expr.data[0], size):
            return computes
        case _:
            pass
    return None


def _shape_reason(value: SSAValue, size: str) -> str | None:
    if not isinstance(value.type, BufferType):
        return None
    if all(grows_with(dim, size) for dim in buffer_type_of(value).shape):
        return None
    return f"where a dim does not grow with {size}"


def _writes_behind(store: StoreOp, size: str) -> bool:
    """Whether what a store writes in iterations that only a greater size has is stored behind the
    shape for the lesser one.
    """
    loops = enclosing_loops(store)
    alloc = store.buffer.owner
    own = enclosing_loops(alloc) if isinstance(alloc, Operation) else []
    ranges: dict[Atom, Range] = {loop.index: _index_range(loop) for loop in loops}
    pairs = list(zip(store.index, store.buffer_type.shape, strict=True))
    for loop in loops:
        if loop in own or not _mentions(loop.upper, size):
            continue  # every iteration of it has the buffer for itself
        if not any(_leaves(loop, subscript, dim, ranges) for subscript, dim in pairs):
            return False
    return True


def _leaves(loop: ForOp, subscript: Expr, dim: Expr, ranges: dict[Atom, Range]) -> bool:
    """Whether a subscript is outside of its dim from the end of the loop on."""
    slope = subscript.coefficient(loop.index).constant
    if slope is None or slope < 1 or not subscript.is_affine_in(loop.index):
        return False
    at_end = subscript.substitute({loop.index: loop.upper})
    low, _ = (at_end - dim).range(ranges)
    return low is not None and low >= 0


def _index_range(loop: ForOp) -> Range:
    low, last = loop.lower.constant, loop.upper.constant
    return low, None if last is None else last - 1


def grows_with(expr: Expr, size: str) -> bool:
    """Whether the expression never falls where the size rises; other sizes are at least 0."""
    symbol = Symbol(size)
    for monomial, factor in expr.terms.items():
        if not any(_atom_mentions(atom, symbol) for atom in monomial):
            continue
        low, _ = Expr({monomial: 1}).range({})
        if factor < 0 or low is None or low < 0:
            return False
        if not all(_atom_grows(atom, size) for atom in monomial):
            return False
    return True


def _atom_grows(atom: Atom, size: str) -> bool:
    if not _atom_mentions(atom, Symbol(size)):
        return True
    match atom:
        case Symbol():
            return True
        case Extremum():
            return all(grows_with(each, size) for each in atom.operands)
        case Quotient():
            return (atom.divisor.constant or 0) > 0 and grows_with(atom.dividend, size)
        case _:
            return False


def _atom_mentions(atom: Atom, symbol: Symbol) -> bool:
    return symbol in Expr({(atom,): 1}).atoms()


def _mentions(expr: Expr, size: str) -> bool:
    return size in expr.symbols()


def keeps_rows(source: Sequence[Expr], target: Sequence[Expr], size: str) -> bool:
    """Whether a reshape keeps every element at a logical index that the size does not change: in
    each group of dims that become each other, it is in the outermost alone.
    """
    left, right = ([dim for dim in shape if dim != 1] for shape in (source, target))
    while left or right:
        ours, theirs = _group(left, right)
        inner = (*left[1:ours], *right[1:theirs])
        if any(_mentions(dim, size) for dim in inner):
            return False
        left, right = left[ours:], right[theirs:]
    return True


def _group(left: Sequence[Expr], right: Sequence[Expr]) -> tuple[int, int]:
    """How many dims in front of both shapes have one product; all where no fewer are known to."""
    ours, theirs = min(1, len(left)), min(1, len(right))
    while ours < len(left) or theirs < len(right):
        first, second = product(left[:ours]), product(right[:theirs])
        if first == second:
            break
        if ours < len(left) and first != 0 and second % first == 0:
            ours += 1
        elif theirs < len(right) and second != 0 and first % second == 0:
            theirs += 1
        else:
            return len(left), len(right)
    return ours, theirs


def _first(reasons: Iterator[str | None]) -> str | None:
    return next((each for each in reasons if each is not None), None)


def _node(op: Operation) -> str:
    """The nodes of the model that an operation, or the one around it, came from."""
    if names := nodes_around(op):
        return f"node {' and '.join(repr(name) for name in names)}"
    return op.kernel if isinstance(op, CallOp) else op.name
