"""What a contraction or a window computes, as numbers, for plans to be made for: how long its loops
are, which of its operands each of them indexes, and how.

Nothing here changes the kernel, nor keeps any of its operations: `Nests` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd, prod
from typing import Final, Literal, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace
from xdsl.dialects import arith
from xdsl.dialects.builtin import NoneAttr, StringAttr
from xdsl.ir import Attribute, Block, SSAValue

from weft.compiler.loop.layouts import lane_stride
from weft.compiler.loop.nest import (
    element_address,
    loads_in,
    stores_in,
    subscripts,
    weight_arguments,
)
from weft.dialects.expr import Expr, product
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import ROWS, KernelOp
from weft.dialects.loop.scalar import width

Rows = Literal["any", "few", "many"]
"""How many rows the calls of a kernel have whose rows vary: less than FEW_ROWS, or no less."""

FEW_ROWS: Final = 8
"""Fewer may take longer with panels that are packed in the call, which are read once."""

_EXTENSIONS = (arith.ExtFOp, arith.SIToFPOp, arith.UIToFPOp)


class Along(Struct, frozen=True):
    """How a loop indexes an operand: the elements from one iteration to the next, and between the
    lanes of a vector along the loop, None where that varies; and the dims of the buffer. Where it
    is one dim, `multiple` divides all that is added to the loop's index there, and is 0 if that is
    nothing. `slides` says that a reduction indexes the same dim, as the taps of a window do.
    """

    step: Expr | None
    lanes: Expr | None
    dims: tuple[int, ...] = ()
    multiple: int = 0
    slides: bool = False


class Operand(Struct, frozen=True, kw_only=True):
    """A buffer as the loops read or write it, one `Along` for each loop. `bits` are those of an
    element in memory, `computed_bits` those of it as it is multiplied; `size` is in elements, None
    where that is dynamic. One that `is_extended` is of narrow floats or of integers, which are
    loaded and made wider floats and nothing else.
    """

    along: tuple[Along, ...]
    bits: int
    computed_bits: int
    size: int | None
    is_weight: bool = False
    is_local: bool = False
    is_row_major: bool = True
    is_extended: bool = False
    as_rows: bool = True
    """Whether rows of a tile may be of it: of products in words, if it has words in memory."""

    def indexed_by(self, loop: int) -> bool:
        """Whether a loop chooses the element."""
        return bool(self.along[loop].dims)

    def is_flat(self, loop: int) -> bool:
        """Whether a loop indexes two neighbouring dims as if these were one, in a row-major buffer,
        as columns do the rows of an image.
        """
        dims = self.along[loop].dims
        return self.is_row_major and len(dims) == 2 and dims[1] == dims[0] + 1

    def bytes_apart(self, loop: int | None) -> int:
        """How far apart the elements along a loop are; 0 where that varies, or there is no loop."""
        step = None if loop is None else self.along[loop].step
        return 0 if step is None else (step.constant or 0) * self.bits // 8

    @property
    def bytes(self) -> int:
        """The size in memory; 0 where that is dynamic."""
        return (self.size or 0) * self.bits // 8


class Pieces(NamedTuple):
    """In how many pieces a tile's rows are read of a factor, of bytes beside each other: one for
    each term, of windows one for all taps of an axis, which starts anywhere in a line. They are
    some bytes `apart` for each of so many `terms`.
    """

    number: int
    of_windows: bool
    apart: int
    terms: int


class Problem(Struct, frozen=True, kw_only=True):
    """`T[..] += X[..] * Y[..]`, or a window that combines what it loads: the extents of the outer
    loops, in the order of the result's dims, then of the reductions, and the operands. `stored` is
    what memory gets at last of each element of the result, and `read` what is loaded for that
    beside the sum, such as what is added to it. `lanes` are those of a vector of the widest
    element. Where `terms` is more than 1, an element of a factor is so many of the kernel's, whose
    products one instruction adds up. `rows` says how many the kernel's calls have where these vary.
    """

    extents: tuple[Expr, ...]
    outer: int
    factors: tuple[Operand, ...]
    result: Operand
    stored: Operand
    lanes: int
    terms: int = 1
    read: tuple[Operand, ...] = ()
    rows: Rows = "any"

    @property
    def reductions(self) -> range:
        """The positions of the reductions."""
        return range(self.outer, len(self.extents))

    @property
    def depth(self) -> int | None:
        """How many terms each sum has; None where that is dynamic."""
        return self.extent_of(self.reductions)

    def extent_of(self, loops: Iterable[int]) -> int | None:
        """How many iterations some loops have together; None where that is dynamic."""
        return product(self.extents[loop] for loop in loops).constant

    def rows_of(self, factor: Operand) -> int | None:
        """How often each element of a factor is read."""
        return self.extent_of(n for n in range(len(self.extents)) if not factor.indexed_by(n))

    def pieces_of(self, factor: Operand, rows: int | None) -> Pieces:
        """The pieces in which rows along a loop are read of a factor whose extents are constant."""
        depth, channels, *_ = self.depth or 0, *self.reductions
        if rows is None or not factor.along[rows].slides:
            return Pieces(
                depth, of_windows=False, apart=factor.bytes_apart(self.reductions[-1]), terms=depth
            )
        axis = set(factor.along[rows].dims)
        taps = prod(
            self.extents[n].constant or 1
            for n in self.reductions
            if axis & set(factor.along[n].dims)
        )
        terms = self.extents[channels].constant or 1
        return Pieces(
            depth // taps, of_windows=True, apart=factor.bytes_apart(channels), terms=terms
        )

    def bytes_of(self, factor: Operand) -> int | None:
        """The bytes of all that is read of a factor, where it is multiplied."""
        own = self.extent_of(n for n in range(len(self.extents)) if factor.indexed_by(n))
        return None if own is None else own * factor.computed_bits // 8


class Nests(NamedTuple):
    """The operations of a Problem: the outer loops of each of its nests (what initialises the
    result, the reduction, what reads the result), its reductions, the loads of its factors, and
    the buffer of its result; `words` says which factors have the words of dot products in memory,
    None where the innermost reduction is not over such.
    """

    outer: list[list[ForOp]]
    reductions: list[ForOp]
    factors: tuple[LoadOp, ...]
    result: SSAValue
    words: tuple[bool, bool] | None = None


def problem_of(
    kernel: KernelOp,
    factors: Sequence[LoadOp],
    store: StoreOp,
    lanes: int,
    words: Sequence[bool] | None = None,
) -> Problem:
    """The Problem of a nest that combines what it loads of factors into what it stores; of words,
    which some factors have in memory, the innermost loop is a part.
    """
    loops = enclosing_loops(store)
    terms = 1
    if words is not None:
        *loops, inner = loops
        terms = inner.extent.constant or 1
    weights = weight_arguments(kernel)
    accesses = (*factors, store)
    operands = [
        _operand(access, loops, lanes, is_weight=access.buffer in weights) for access in accesses
    ]
    for side, as_rows in enumerate(words or ()):
        operands[side] = _in_words(operands[side], terms, as_rows=as_rows)
    return Problem(
        extents=tuple(loop.extent for loop in loops),
        outer=sum(loop.reduction is None for loop in loops),
        factors=tuple(operands[:-1]),
        result=operands[-1],
        stored=operands[-1],
        lanes=lanes,
        terms=terms,
        rows=_rows_of(kernel),
    )


def _rows_of(kernel: KernelOp) -> Rows:
    """How many rows the calls have that a version of a kernel is for."""
    noted = kernel.attributes.get(ROWS)
    return cast(Rows, noted.data) if isinstance(noted, StringAttr) else "any"


def with_last_nest(problem: Problem, nests: Nests) -> Problem:
    """The problem with what the last of its nests stores, and reads beside the sums, which are in
    registers.
    """
    nest, loops = nests.outer[-1][0], [*nests.outer[-1], *nests.reductions]
    read = [
        load
        for load in loads_in(nest)
        if load.buffer is not nests.result
        and isinstance(load.buffer.owner, Block)
        and all(loop.reduction is None for loop in enclosing_loops(load))
    ]
    stored, *others = (
        _operand(access, loops, problem.lanes, is_weight=False)
        for access in (stores_in(nest)[-1], *read)
    )
    return replace(problem, stored=stored, read=tuple(others))


def _in_words(operand: Operand, terms: int, *, as_rows: bool) -> Operand:
    """A factor whose elements are words; how far apart these are is known where memory has them."""

    def distance(elements: Expr | None) -> Expr | None:
        whole = as_rows and elements is not None and elements % terms == 0
        return elements // terms if whole and elements is not None else None

    return replace(
        operand,
        along=tuple(
            replace(each, step=distance(each.step), lanes=distance(each.lanes))
            if each.dims
            else each
            for each in operand.along
        ),
        bits=operand.bits * terms,
        computed_bits=operand.bits * terms,
        size=None if operand.size is None else operand.size // terms,
        as_rows=as_rows,
    )


def _operand(access: AccessOp, loops: Sequence[ForOp], lanes: int, *, is_weight: bool) -> Operand:
    buffer_type = access.buffer_type
    return Operand(
        along=tuple(_along(access, loops, lanes)),
        bits=width(buffer_type.element),
        computed_bits=width(computed_type(access)),
        size=buffer_type.size.constant,
        is_weight=is_weight,
        is_local=isinstance(access.buffer.owner, AllocOp),
        is_row_major=isinstance(buffer_type.layout, NoneAttr),
        is_extended=is_extended(access.buffer),
    )


def _along(access: AccessOp, loops: Sequence[ForOp], lanes: int) -> Iterator[Along]:
    exprs = subscripts(access)
    address = element_address(access)
    atoms = [set(expr.atoms()) for expr in exprs]
    taps = {loop.index for loop in loops if loop.reduction is not None}
    row_major = isinstance(access.buffer_type.layout, NoneAttr)
    for loop in loops:
        dims = tuple(dim for dim, inside in enumerate(atoms) if loop.index in inside)
        step = address.coefficient(loop.index) if address.is_affine_in(loop.index) else None
        yield Along(
            step,
            step if row_major else lane_stride(access, loop, lanes),
            dims,
            divisor_of(exprs[dims[0]] - Expr.atom(loop.index)) if len(dims) == 1 else 1,
            any(atoms[dim] & taps for dim in dims),
        )


def divisor_of(expr: Expr) -> int:
    """The largest number that divides an expression whatever its atoms are; 0 for nothing."""
    return gcd(*expr.terms.values())


def computed_type(access: AccessOp) -> Attribute:
    """The type in which an operand's elements are multiplied."""
    if isinstance(access, LoadOp):
        (use, *_) = access.result.uses
        if isinstance(use.operation, _EXTENSIONS):
            return use.operation.results[0].type
        return access.result.type
    return access.buffer_type.element


def is_extended(buffer: SSAValue) -> bool:
    """Whether the elements of a buffer are only loaded and made wider floats."""
    accesses = [use.operation for use in buffer.uses]
    return all(
        isinstance(access, LoadOp)
        and all(isinstance(use.operation, _EXTENSIONS) for use in access.result.uses)
        for access in accesses
    )
