"""ATen's linear algebra: factors, and systems that they solve. Conventions are LAPACK's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from weft.compiler.frontend import matrices
from weft.compiler.frontend.matrices import Loop
from weft.compiler.frontend.torch.operands import (
    AtenTable,
    broadcast_shape,
    computed,
    entry,
)
from weft.compiler.frontend.torch.ops.views import strided
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, F64, I32, I64
from weft.dialects.graph.linalg.triangular import transposed
from weft.dialects.graph.regions.effects import AssertOp


def loop_of(b: GraphBuilder) -> Loop:
    """Loops at a builder's end; their indices have names that no size of torch's has."""
    block = b.builder.insertion_point.block
    return lambda count, state, step: matrices.repeated(
        b, f"iteration_{sum(1 for _ in block.ops)}", count, state, step
    )


def _checked(*given: Term) -> None:
    """Refuses matrices that are not of f32 or f64."""
    for x in given:
        if x.type.element not in (F32, F64):
            raise UnsupportedError(f"linear algebra requires f32 or f64, got {x.type.element}")


def _diagonal(x: Term) -> Term:
    *lead, rows, columns = x.shape
    flat = x.reshape([*lead, rows * columns])
    return strided(flat, len(lead), 0, minimum([rows, columns]), columns + 1)


def _identity(x: Term) -> Term:
    """Ones on the diagonal of square matrices."""
    places = counted(x.b, x.shape[-1])
    one = places.insert(1).equals(places.insert(0)).cast(x.type.element)
    return one.expand(x.shape)


def _lead(a: Term, x: Term) -> list[Expr]:
    """The axes in front of two stacks of matrices together."""
    return broadcast_shape(a.shape[:-2], x.shape[:-2])


def _half(x: Term, *, lower: bool, k: int = 0) -> Term:
    return x.of(x.b.trilu(x.value, upper=not lower, k=k))


def _first(held: Term) -> Term:
    """The number, from 1 on, of the first that holds along the last axis; 0 if none does."""
    axis = len(held.shape) - 1
    numbers = counted(held.b, held.shape[-1]) + 1
    if held.shape[-1] == 0:
        return Term(held.b, held.b.constant_of(0, I32)).expand(held.shape[:-1])
    behind = size_term(held.b, held.shape[-1] + 1, I64)
    found = held.where(numbers, behind)
    found = found.of(found.b.reduce_min(found.value, axes=[axis], keepdims=False))
    return found.equals(behind).where(0, found).cast(I32)


# Cholesky -------------------------------------------------------------------------------------


def cholesky_ex(
    b: GraphBuilder, x: Term, upper: bool = False, check_errors: bool = False
) -> tuple[Term, Term]:
    """The triangular factor, and the number of the first column that is not positive."""
    _checked(x)
    found = x.of(b.cholesky((transposed(x) if upper else x).value))
    info = _first(_diagonal(found).math("is_nan"))
    return (transposed(found) if upper else found), info


def cholesky(b: GraphBuilder, x: Term, upper: bool = False) -> Term:
    """The triangular factor; a matrix that is not positive definite is an error of the call."""
    found, info = cholesky_ex(b, x, upper)
    if 0 in info.shape:
        return found
    worst = info.of(b.reduce_max(info.value, axes=list(range(len(info.shape))), keepdims=False))
    text = "cholesky requires positive definite matrices, got one that is not in column {}"
    column = worst.cast(I64)
    b.builder.insert(AssertOp.of(column.equals(0).value, text, [column.value], b.location))
    return found


def cholesky_solve(b: GraphBuilder, x: Term, factor: Term, upper: bool = False) -> Term:
    """`a` times the result is `x`, by the factor of `a`."""
    lower = transposed(factor) if upper else factor
    middle = solve_triangular(b, lower, x, upper=False)
    return solve_triangular(b, transposed(lower), middle, upper=True)


def cholesky_inverse(b: GraphBuilder, x: Term, upper: bool = False) -> Term:
    """The inverse of the matrix whose factor is given."""
    factor = _half(x, lower=not upper)
    return cholesky_solve(b, _identity(x), factor, upper)


# Triangular systems ---------------------------------------------------------------------------


def solve_triangular(
    b: GraphBuilder,
    a: Term,
    x: Term,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Term:
    """`a @ result = x`, or `result @ a = x`."""
    _checked(a)
    if not left:
        a, x, upper = transposed(a), transposed(x), not upper
    lead = _lead(a, x)
    x = x.expand([*lead, *x.shape[-2:]])
    if 0 in x.shape:
        return x if left else transposed(x)
    a = a.expand([*lead, *a.shape[-2:]])
    found = x.of(b.triangular_solve(a.value, x.value, lower=not upper, unit=unitriangular))
    return found if left else transposed(found)


def triangular_solve(
    b: GraphBuilder,
    x: Term,
    a: Term,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Term, Term]:
    """The older form, which hands the matrix back too."""
    matrix = transposed(a) if transpose else a
    found = solve_triangular(b, matrix, x, upper=upper != transpose, unitriangular=unitriangular)
    return found, a.expand([*found.shape[:-2], *a.shape[-2:]])


# LU -------------------------------------------------------------------------------------------


def lu_factor(
    b: GraphBuilder, x: Term, pivot: bool = True, check_errors: bool = False
) -> tuple[Term, Term, Term]:
    """Both factors in one matrix, the rows that were exchanged, and the first pivot that is 0."""
    _checked(x)
    found, pivots, _ = matrices.lu(loop_of(b), x, pivot=pivot)
    return found, (pivots + 1).cast(I32), _first(_diagonal(found).equals(0))


def _lower_part(x: Term) -> Term:
    """The lower factor: ones on its diagonal."""
    rows, columns = x.shape[-2:]
    count = minimum([rows, columns])
    low = _half(x, lower=True, k=-1).part(len(x.shape) - 1, 0, count)
    places = counted(x.b, rows).insert(1).equals(counted(x.b, count).insert(0))
    return low + places.cast(x.type.element)


def _upper_part(x: Term) -> Term:
    count = minimum(x.shape[-2:])
    return _half(x, lower=False).part(len(x.shape) - 2, 0, count)


def _permutation(order: Term, like: Term) -> Term:
    """The matrix `p` with `a = p @ l @ u`, by the order of the rows of `a`."""
    places = counted(order.b, order.shape[-1]).insert(1)
    return places.equals(matrices.row(order)).cast(like.type.element)


def lu(b: GraphBuilder, x: Term, pivot: bool = True) -> tuple[Term, Term, Term]:
    """`p`, `l` and `u`."""
    _checked(x)
    found, _, order = matrices.lu(loop_of(b), x, pivot=pivot)
    p = _permutation(order, x) if pivot else x.number(0).expand([0])
    return p, _lower_part(found), _upper_part(found)


def lu_unpack(
    b: GraphBuilder, x: Term, pivots: Term, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Term, Term, Term]:
    """`p`, `l` and `u` of factors in one matrix."""
    _checked(x)
    none = x.number(0).expand([0])
    p = _permutation(_order(b, pivots, x.shape[-2]), x) if unpack_pivots else none
    return (p, _lower_part(x), _upper_part(x)) if unpack_data else (p, none, none)


def _order(b: GraphBuilder, pivots: Term, rows: Expr) -> Term:
    return matrices.order_of(loop_of(b), pivots.cast(I64) - 1, rows)


def lu_solve(
    b: GraphBuilder, x: Term, pivots: Term, right: Term, left: bool = True, adjoint: bool = False
) -> Term:
    """The solution of a system by its factors."""
    if not left:
        return transposed(lu_solve(b, x, pivots, transposed(right), True, not adjoint))
    return _solved(b, x, _order(b, pivots, x.shape[-2]), right, adjoint=adjoint)


def _solved(b: GraphBuilder, x: Term, order: Term, right: Term, *, adjoint: bool) -> Term:
    """The solution by both factors and the order of rows."""
    _checked(x)
    lead = _lead(x, right)
    right = right.expand([*lead, *right.shape[-2:]])
    if 0 in right.shape:
        return right
    order = order.expand([*lead, order.shape[-1]])
    x = x.expand([*lead, *x.shape[-2:]])
    if not adjoint:
        right = matrices.exchanged(right, order)
        middle = solve_triangular(b, x, right, upper=False, unitriangular=True)
        return solve_triangular(b, x, middle, upper=True)
    flipped = transposed(x)
    middle = solve_triangular(b, flipped, right, upper=False)
    found = solve_triangular(b, flipped, middle, upper=True, unitriangular=True)
    count = shape_attr([order.shape[-1]])
    sorted_back = order.of(
        b.argsort(order.value, axis=len(order.shape) - 1, descending=False, count=count)
    )
    return matrices.exchanged(found, sorted_back)


def solve(
    b: GraphBuilder, a: Term, right: Term, left: bool = True, check_errors: bool = False
) -> tuple[Term, Term, Term, Term]:
    """The solution of a system, and the factors."""
    _checked(a)
    factors, pivots, order = matrices.lu(loop_of(b), a)
    vector = len(right.shape) == 1 or right.shape == a.shape[:-1]
    columns = matrices.column(right) if vector else right
    if left or vector:
        found = _solved(b, factors, order, columns, adjoint=False)
    else:
        found = transposed(_solved(b, factors, order, transposed(columns), adjoint=True))
    if vector:
        found = found.reshape(found.shape[:-1])
    return found, factors, (pivots + 1).cast(I32), _first(_diagonal(factors).equals(0))


def inverse(b: GraphBuilder, x: Term, check_errors: bool = False) -> tuple[Term, Term]:
    """The inverse, and the first pivot that is 0."""
    found, _, _, info = solve(b, x, _identity(x))
    return found, info


def _parity(pivots: Term) -> Term:
    """-1 of an odd number of exchanges."""
    axis = len(pivots.shape) - 1
    same = pivots.equals(counted(pivots.b, pivots.shape[-1]))
    odd = same.math("logical_not").cast(I64).sum([axis]).modulo(2)
    return 1 - odd * 2


def determinant(b: GraphBuilder, x: Term) -> tuple[Term, Term, Term]:
    """The determinant, and the factors."""
    _checked(x)
    factors, pivots, _ = matrices.lu(loop_of(b), x)
    diagonal = _diagonal(factors)
    total = diagonal.of(
        b.reduce_prod(diagonal.value, axes=[len(diagonal.shape) - 1], keepdims=False)
    )
    return total * _parity(pivots).cast(x.type.element), factors, (pivots + 1).cast(I32)


def sign_and_log(b: GraphBuilder, x: Term) -> tuple[Term, Term, Term, Term]:
    """The sign of the determinant, the logarithm of its size, and the factors."""
    _checked(x)
    factors, pivots, _ = matrices.lu(loop_of(b), x)
    diagonal = _diagonal(factors)
    axis = len(diagonal.shape) - 1
    signs = diagonal.math("sign")
    sign = signs.of(b.reduce_prod(signs.value, axes=[axis], keepdims=False))
    logs = diagonal.math("abs").math("log").sum([axis])
    return sign * _parity(pivots).cast(x.type.element), logs, factors, (pivots + 1).cast(I32)


# QR -------------------------------------------------------------------------------------------


def geqrf(b: GraphBuilder, x: Term) -> tuple[Term, Term]:
    """`r` above reflections, and their factors."""
    _checked(x)
    return matrices.householder(loop_of(b), x)


def _first_columns(x: Term, rows: Expr, columns: Expr) -> Term:
    """The first columns of the identity matrix."""
    down, across = counted(x.b, rows).insert(1), counted(x.b, columns).insert(0)
    one = down.equals(across).cast(x.type.element)
    return one.expand([*x.shape[:-2], rows, columns])


def householder_product(b: GraphBuilder, x: Term, tau: Term) -> Term:
    """The first columns of the product of reflections."""
    _checked(x)
    rows, columns = x.shape[-2:]
    start = _first_columns(x, rows, columns)
    return matrices.reflected(loop_of(b), x, tau, start, backward=True)


def qr(b: GraphBuilder, x: Term, mode: str = "reduced") -> tuple[Term, Term]:
    """An orthogonal factor and an upper triangular one."""
    packed, factors = geqrf(b, x)
    rows, columns = x.shape[-2:]
    count = rows if mode == "complete" else minimum([rows, columns])
    r = _half(packed, lower=False)
    r = r.part(len(r.shape) - 2, 0, count)
    if mode == "r":
        return x.number(0).expand([0]), r
    start = _first_columns(x, rows, count)
    return matrices.reflected(loop_of(b), packed, factors, start, backward=True), r


def ormqr(
    b: GraphBuilder, x: Term, tau: Term, other: Term, left: bool = True, transpose: bool = False
) -> Term:
    """The product of reflections, or its transpose, times another matrix."""
    _checked(x)
    if not left:
        return transposed(ormqr(b, x, tau, transposed(other), True, not transpose))
    return matrices.reflected(loop_of(b), x, tau, other, backward=not transpose)


# Functions of matrices ------------------------------------------------------------------------

_TERMS: Final = 18
"""Of the series of the exponential, of matrices whose norm is at most 1."""

_DOUBLINGS: Final = 16


def matrix_exp(b: GraphBuilder, x: Term) -> Term:
    """The exponential; of halves it is computed in f32."""
    return computed(b, partial(_exponential, b), x)


def _exponential(b: GraphBuilder, x: Term) -> Term:
    """By a series of the matrix halved often enough, and squares of it."""
    _checked(x)
    if 0 in x.shape:
        return x
    rank = len(x.shape)
    sums = x.math("abs").sum([rank - 2])
    norm = sums.of(b.reduce_max(sums.value, axes=[rank - 2], keepdims=False))
    size = norm.maximum(1.0).math("log") * 1.4426950408889634
    halvings = size.math("ceil").minimum(float(_DOUBLINGS))
    scale = matrices.column(matrices.column(norm.of(b.pow(norm.number(2).value, halvings.value))))
    small = x / scale
    total = one = _identity(x)
    for term in range(_TERMS, 0, -1):
        total = one + small.matmul(total) * (1 / term)

    def step(state: Sequence[Term], index: Term) -> list[Term]:
        (work,) = state
        more = index.cast(x.type.element) < Term(index.b, halvings.value)
        return [matrices.column(matrices.column(more)).where(work.matmul(work), work)]

    return loop_of(b)(_DOUBLINGS, [total], step)[0]


TABLE: Final[AtenTable] = {
    **entry(cholesky_ex, "linalg_cholesky_ex.default"),
    **entry(cholesky, "cholesky.default"),
    **entry(cholesky_solve, "cholesky_solve.default"),
    **entry(cholesky_inverse, "cholesky_inverse.default"),
    **entry(solve_triangular, "linalg_solve_triangular.default"),
    **entry(triangular_solve, "triangular_solve.default"),
    **entry(lu_factor, "linalg_lu_factor_ex.default"),
    **entry(lu, "linalg_lu.default"),
    **entry(lu_unpack, "lu_unpack.default"),
    **entry(lu_solve, "linalg_lu_solve.default"),
    **entry(solve, "_linalg_solve_ex.default"),
    **entry(inverse, "linalg_inv_ex.default"),
    **entry(determinant, "_linalg_det.default"),
    **entry(sign_and_log, "_linalg_slogdet.default"),
    **entry(geqrf, "geqrf.default"),
    **entry(householder_product, "linalg_householder_product.default"),
    **entry(qr, "linalg_qr.default"),
    **entry(ormqr, "ormqr.default"),
    **entry(matrix_exp, "linalg_matrix_exp.default"),
}
