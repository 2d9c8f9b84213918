"""A readable view of loop nests: loops by name, bounds, accesses; edits of expressions.

Everything here looks at or edits the IR; nothing decides whether an edit is legal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import cast

from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Expr, Extremum
from weft.dialects.expr_text import is_value, unbind
from weft.dialects.interval import Range
from weft.dialects.loop.arithmetic import ON_NUMBERS, IndexOp
from weft.dialects.loop.ops import (
    AccessOp,
    AllocOp,
    ForOp,
    IfOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    SubscriptedOp,
    WhileOp,
    enclosing_loops,
)
from weft.dialects.loop.program import WEIGHTS, KernelOp, ViewOp, size_ranges
from weft.dialects.loop.types import BufferType, ExprsAttr

Carrier = SubscriptedOp | IndexOp | ForOp
"""The operations that carry integer expressions."""


class Bound(Struct, frozen=True):
    """An atom with its least and greatest value, both attained; None where unknown."""

    atom: Atom
    least: Expr | None
    greatest: Expr | None


def loops_in(root: Operation) -> list[ForOp]:
    """The loops inside an operation, itself excluded, in program order."""
    found: list[ForOp] = []
    _collect_loops(root, found)
    return found


def _collect_loops(root: Operation, found: list[ForOp]) -> None:
    # Several times as fast as Operation.walk(), and asked for by every primitive.
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if op.regions:
                    if type(op) is ForOp:
                        found.append(op)
                    _collect_loops(op, found)


def only_loop(block: Block) -> ForOp | None:
    """The loop that is all a block holds, else None."""
    first = block.first_op
    return first if type(first) is ForOp and first is block.last_op else None


def perfect_nest(loop: ForOp) -> list[ForOp]:
    """The loop and those that are each the whole body of the one before."""
    nest = [loop]
    while (inner := only_loop(nest[-1].body.block)) is not None:
        nest.append(inner)
    return nest


def accesses_in(root: Operation) -> list[AccessOp]:
    """The loads and stores inside an operation, itself included, in program order."""
    found: list[AccessOp] = [root] if isinstance(root, AccessOp) else []
    _collect_accesses(root, found)
    return found


_ACCESSES = (LoadOp, StoreOp)
_OF_KNOWN_EFFECT = frozenset((ForOp, LoadOp, StoreOp, PrefetchOp, IndexOp, AllocOp))


def _collect_accesses(root: Operation, found: list[AccessOp]) -> None:
    for region in root.regions:
        for block in region.blocks:
            op = block.first_op  # as `block.ops` does, in half the time
            while op is not None:
                if op.regions:
                    _collect_accesses(op, found)
                elif type(op) in _ACCESSES:
                    found.append(cast(AccessOp, op))
                op = op.next_op


def child_loops(parent: ForOp | KernelOp) -> list[ForOp]:
    """The loops right inside a loop or a kernel, in program order."""
    return [op for op in parent.body.block.ops if type(op) is ForOp]


def loads_in(root: Operation) -> list[LoadOp]:
    """The loads inside an operation, itself included, in program order."""
    return [access for access in accesses_in(root) if type(access) is LoadOp]


def stores_in(root: Operation) -> list[StoreOp]:
    """The stores inside an operation, itself included, in program order."""
    return [access for access in accesses_in(root) if type(access) is StoreOp]


def accesses_to(buffer: SSAValue, root: Operation) -> list[AccessOp]:
    """The loads and stores of one buffer inside an operation, in program order."""
    return [access for access in accesses_in(root) if access.buffer is buffer]


def root_buffer(value: SSAValue) -> SSAValue:
    """The argument, weight or allocation that a value is, or is a view of."""
    while type(value) is OpResult and type(value.op) is ViewOp:
        value = value.op.source
    return value


def is_inside(op: Operation, ancestor: Operation) -> bool:
    """Whether an operation is, or lies anywhere within, another."""
    current: Operation | None = op
    while current is not None and current is not ancestor:
        current = current.parent_op()
    return current is not None


def child_in(block: Block, op: Operation) -> Operation | None:
    """The operation of the block that is or contains `op`; None where `op` is elsewhere."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def value_block(value: SSAValue) -> Block | None:
    """The block in which a value is defined."""
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def is_defined_inside(value: SSAValue, ancestor: Operation) -> bool:
    """Whether a value is defined in a region of the operation."""
    block = value_block(value)
    parent = None if block is None else block.parent_op()
    return parent is not None and is_inside(parent, ancestor)


def subscripts(access: AccessOp) -> tuple[Expr, ...]:
    """The logical subscripts, with the results of `loop.index` replaced by what they compute."""
    index = access.index
    if vars(access).get("without_index_ops") is index:
        return index
    for expr in index:  # most mention no such result
        for atom in expr.atoms():
            if type(atom) is OpResult and type(atom.op) is IndexOp:
                return tuple(expand(each) for each in index)
    vars(access)["without_index_ops"] = index
    return index


def element_address(access: AccessOp) -> Expr:
    """The position in storage of what is accessed, over the loops' indices, as simple as their
    bounds allow.
    """
    asked = access.buffer_type, subscripts(access)
    kept = vars(access).get("address")
    if kept is None or kept[0] is not asked[0] or kept[1] is not asked[1]:
        vars(access)["address"] = kept = *asked, asked[0].address(asked[1])
    address: Expr = kept[2]
    if not address.has_operators():
        return address
    return address.simplify(index_ranges(address, size_ranges(access)))


def subscript_atoms(access: AccessOp) -> set[Atom]:
    """What the subscripts depend on: indices of loops, loaded values and sizes."""
    return {atom for expr in subscripts(access) for atom in expr.atoms()}


def is_indexed_by_loops(access: AccessOp) -> bool:
    """Whether loops and sizes alone, and no loaded values, say which element is accessed: only then
    is it known in an iteration what a later one accesses.
    """
    indices: set[Atom] = {loop.index for loop in enclosing_loops(access)}
    return all(atom in indices for atom in subscript_atoms(access) if is_value(atom))


def indexed_dims(access: AccessOp, loop: ForOp) -> list[int]:
    """The dims of the buffer whose subscripts depend on the index of a loop."""
    return [dim for dim, expr in enumerate(subscripts(access)) if loop.index in expr.atoms()]


def expand(expr: Expr) -> Expr:
    """The expression with the results of `loop.index` replaced by what they compute."""
    if expr.constant is not None:
        return expr
    computed: dict[Atom, Expr] = {
        atom: expand(atom.owner.value)
        for atom in expr.atoms()
        if type(atom) is OpResult and type(atom.op) is IndexOp
    }
    return expr.substitute(computed) if computed else expr


def bounds_of(loops: Iterable[ForOp]) -> list[Bound]:
    """Least and greatest index of each loop over those around it."""
    bounds: list[Bound] = []
    for loop in loops:
        lower = loop.lower
        last = _last(lower, loop.extent, loop.step.data)
        bounds.append(Bound(loop.index, expand(lower), expand(last)))
    return bounds


@lru_cache(maxsize=1 << 12)
def _last(lower: Expr, extent: Expr, step: int) -> Expr:
    return lower + (extent - 1) * step


def extreme(expr: Expr, bounds: Sequence[Bound], *, greatest: bool) -> Expr | None:
    """The greatest (or least) value over the bounds, innermost last; None if not provable."""
    ranges: dict[Atom, Range] | None = None
    atoms = set(expr.atoms())
    for bound in reversed(bounds):
        if bound.atom not in atoms:
            continue
        factor = expr.coefficient(bound.atom)
        if factor.constant is None and ranges is None:
            ranges = ranges_of(bounds)
        low, high = factor.range(ranges or {})
        rising = low is not None and low >= 0
        if not expr.is_affine_in(bound.atom) or not (rising or (high is not None and high <= 0)):
            return None
        value = bound.greatest if rising == greatest else bound.least
        if value is None:
            return None
        expr = expr.substitute({bound.atom: value})
        atoms = set(expr.atoms())
    return expr


def ranges_of(
    bounds: Sequence[Bound], sizes: Mapping[Atom, Range] | None = None
) -> dict[Atom, Range]:
    """The bounds as numbers, as far as they are; `sizes` are those of named sizes."""
    ranges: dict[Atom, Range] = dict(sizes or {})
    for bound in bounds:
        low = None if bound.least is None else bound.least.range(ranges)[0]
        high = None if bound.greatest is None else bound.greatest.range(ranges)[1]
        ranges[bound.atom] = (low, high)
    return ranges


def index_ranges(expr: Expr, ranges: dict[Atom, Range]) -> dict[Atom, Range]:
    """The ranges, with those of the loops' indices that an expression depends on, and on which
    their bounds do: of what `ranges_around` gives what it needs.
    """
    for value in values_in(expr):
        block = value.owner
        loop = block.parent_op() if isinstance(block, Block) else None
        if value in ranges or not isinstance(loop, ForOp):
            continue
        (lower, upper), step = exprs_of(loop), loop.step.data
        if lower.constant is not None and upper.constant is not None:
            iterations = max(0, -(-(upper.constant - lower.constant) // step))
            ranges[value] = lower.constant, lower.constant + (iterations - 1) * step
            continue
        lower, last = expand(lower), expand(_last(lower, loop.extent, step))
        index_ranges(last, index_ranges(lower, ranges))
        ranges[value] = lower.range(ranges)[0], last.range(ranges)[1]
    return ranges


def ranges_around(op: Operation) -> dict[Atom, Range]:
    """The bounds of the loops around an operation, and of its kernel's sizes, as numbers."""
    return ranges_of(bounds_of(enclosing_loops(op)), size_ranges(op))


def most_iterations(loop: ForOp) -> int | None:
    """A number that a loop's iterations never exceed, where there is one."""
    extent = loop.extent
    return extent.range(ranges_around(loop))[1] if extent.constant is None else extent.constant


def least_iterations(loop: ForOp) -> int:
    """A number of iterations that a loop always has at least."""
    bounds = bounds_of(enclosing_loops(loop))
    ranges = ranges_of(bounds, size_ranges(loop))
    ends = [extreme(part, bounds, greatest=False) for part in minimum_of(loop.extent)]
    lows = [None if end is None else end.range(ranges)[0] for end in ends]
    return max(0, min(low or 0 for low in lows))


def minimum_of(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression that is a `min`, such as the length of a ragged tile."""
    match list(expr.terms.items()):
        case [((Extremum("min", operands),), 1)]:
            return operands
        case _:
            return (expr,)


def value_of(atom: Atom) -> SSAValue:
    """The value that an atom is; in a kernel's expressions, atoms are sizes and values."""
    assert isinstance(atom, SSAValue), f"{atom} is no value of a kernel"
    return cast(SSAValue, atom)


def values_in(expr: Expr) -> list[SSAValue]:
    """The values that an expression depends on, each once, in order of appearance."""
    atoms = dict.fromkeys(expr.atoms())
    return [atom for atom in atoms if is_value(atom)]


def describe(op: Operation) -> str:
    """A load, store or loop the way it prints, for messages."""
    if isinstance(op, AccessOp):
        index = ", ".join(expr.format(value_name) for expr in op.index)
        return f"{op.name} of {value_name(op.buffer)}[{index}]"
    return f"loop %{op.index.name_hint}" if isinstance(op, ForOp) else op.name


def value_name(value: Atom) -> str:
    """A value's name as the IR prints it, as far as it has one."""
    if isinstance(value, SSAValue):
        return f"%{value.name_hint or '?'}"
    return str(value)


def exprs_of(op: Carrier) -> tuple[Expr, ...]:
    """The expressions that an operation carries, over SSA values."""
    if isinstance(op, ForOp):
        return op.lower, op.upper
    return (op.value,) if isinstance(op, IndexOp) else op.index


def set_exprs(op: Carrier, exprs: Sequence[Expr]) -> None:
    """Replaces the expressions that an operation carries."""
    formals, values = unbind(exprs)
    fixed = len(op.operands) - len(op.operands_)
    op.operands = [*op.operands[:fixed], *values]
    name = "subscripts" if isinstance(op, SubscriptedOp) else "expr"
    op.properties["bounds" if isinstance(op, ForOp) else name] = ExprsAttr(tuple(formals))


def redirect(access: AccessOp, buffer: SSAValue, index: Sequence[Expr]) -> None:
    """Has an access load from, or store to, another buffer at other subscripts."""
    access.operands = [buffer if old is access.buffer else old for old in access.operands]
    set_exprs(access, index)


def reallocate(allocation: AllocOp, type: BufferType, before: Operation) -> AllocOp:
    """Allocates a buffer of another type in the scope and under the name of an allocation."""
    new = AllocOp.of(type, allocation.scope.data)
    new.result.name_hint = allocation.result.name_hint
    Rewriter.insert_op(new, InsertPoint.before(before))
    return new


def replace_index(index: SSAValue, expr: Expr) -> None:
    """Replaces an index by an expression in every use, simplified under the loops around."""
    ranges: dict[Block | None, dict[Atom, Range]] = {}
    # Loops first: their bounds are what the ranges around the others are made of.
    users = list(dict.fromkeys(use.operation for use in index.uses))
    for user in sorted(users, key=lambda user: not isinstance(user, ForOp)):
        if isinstance(user, SubscriptedOp | IndexOp | ForOp):
            exprs = exprs_of(user)
            here: dict[Atom, Range] = {}
            if any(each.has_operators() for each in (expr, *exprs)):
                if isinstance(user, ForOp) or user.parent not in ranges:
                    ranges[user.parent] = ranges_around(user)
                here = ranges[user.parent]
            set_exprs(user, [old.substitute({index: expr}, here) for old in exprs])
        else:
            _materialize(user, index, expr)


def _materialize(user: Operation, index: SSAValue, expr: Expr) -> None:
    """Computes the expression in front of an operation that takes the index as a plain operand."""
    computed = IndexOp.of(expr)
    computed.result.name_hint = index.name_hint
    Rewriter.insert_op(computed, InsertPoint.before(user))
    user.operands = [computed.result if old is index else old for old in user.operands]


def rename_values(root: Operation, values: Mapping[SSAValue, SSAValue]) -> None:
    """Replaces operands by other values in an operation and all inside it."""
    for op in root.walk():
        if any(operand in values for operand in op.operands):
            op.operands = [values.get(operand, operand) for operand in op.operands]


def new_loop(extent: Expr | int, name: str, like: ForOp | None = None) -> ForOp:
    """An empty loop from zero; it may reassociate what the loop that it is like may."""
    loop = ForOp.of(0, extent, reduction=None if like is None else combiner_of(like))
    loop.index.name_hint = name
    return loop


def combiner_of(loop: ForOp) -> str | None:
    """What a loop is marked as a reduction of, `add` for one; None without the mark."""
    return None if loop.reduction is None else loop.reduction.data


def weight_arguments(kernel: KernelOp) -> set[SSAValue]:
    """The kernel's arguments that are weights in every call."""
    marked = kernel.attributes.get(WEIGHTS)
    if not isa(marked, ArrayAttr[IntAttr]):
        return set()
    return {kernel.body.block.args[position.data] for position in marked}


def move_ops(ops: Sequence[Operation], block: Block) -> None:
    """Moves operations to the end of a block, in their order."""
    for op in ops:
        op.detach()
        block.add_op(op)


def is_simple(op: Operation) -> bool:
    """Whether an operation is neither a branch, a `while`, nor unknown to the legality test."""
    return type(op) in _OF_KNOWN_EFFECT or _is_scalar(type(op))


def is_pure(op: Operation) -> bool:
    """Whether an operation only computes a value from its operands."""
    return type(op) is IndexOp or _is_scalar(type(op))


@cache
def _is_scalar(operation: type[Operation]) -> bool:
    own = issubclass(operation, ON_NUMBERS)
    return own or operation.name.startswith(("arith.", "math."))


def is_branch(op: Operation) -> bool:
    """Whether what an operation holds may not run, or may run more than once."""
    return isinstance(op, IfOp | WhileOp)
