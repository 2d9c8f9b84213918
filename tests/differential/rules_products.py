"""Rules: products of matrices, and linear algebra on matrices that are far from singular."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.writer import Rule, Unfit, Value, Writer


def product(w: Writer) -> Value:
    """Matrices with vectors and matrices."""
    x = w.floats(low=1)
    y = w.pick(lambda each: each.dtype == x.dtype and each.rank in (1, 2)
               and (each.dims[0] == x.dims[-1]))  # fmt: skip
    dims = [*x.dims[:-1], *y.dims[1:]]
    form = w.random.random()
    text = f"{x} @ {y}" if form < 0.7 else f"wnp.matmul({x}, {y}) * 0.3"
    return w.put(text, x.dtype, dims)


def batches(w: Writer) -> Value:
    """Stacks of matrices times their transposes."""
    x = w.floats(low=2)
    text = w.random.choice(["{x} @ {x}.mT", "wnp.tanh({x}) @ wnp.sin({x}).mT"])
    return w.put(text.format(x=x), x.dtype, [*x.dims[:-1], x.dims[-2]])


def summed(w: Writer) -> Value:
    """Einstein's sums."""
    x = w.pick(lambda each: each.is_float and each.rank == 2)
    y = w.beside(x, same=True)
    equation, dims = w.random.choice([
        ("ij,ij->i", x.dims[:1]), ("ij,ij->", ()), ("ij,kj->ik", (x.dims[0], x.dims[0])), ("ij,ik->kj", x.dims[1:] * 2),
        ("ij,ij->ji", x.dims[::-1]),
    ])  # fmt: skip
    return w.put(f"wnp.einsum('{equation}', {x}, {y})", x.dtype, dims)


def contracted(w: Writer) -> Value:
    """Other products."""
    x = w.floats(low=1)
    y = w.beside(x, same=True)
    form = w.random.randrange(4)
    if form == 0:
        return w.put(f"wnp.vecdot({x}, {y})", x.dtype, x.dims[:-1])
    if form == 1 and x.rank == 1:
        return w.put(f"wnp.linalg.outer({x}, {y})", x.dtype, [*x.dims, *y.dims])
    if form == 2 and x.rank == 2:
        return w.put(f"wnp.tensordot({x}, {y}, axes=([0], [0]))", x.dtype, [x.dims[1], y.dims[1]])
    if form == 3 and x.dims[-1] == 3:
        return w.like(f"wnp.linalg.cross({x}, {y})", x)
    raise Unfit


def gemm(w: Writer) -> Value:
    """A product with an addend and scales."""
    w.operator_only()
    x = w.pick(lambda each: each.is_float and each.rank == 2)
    y = w.beside(x, same=True)
    addend = w.random.choice([f"{x}.sum(axis=1)", f"{x}.sum(axis=1, keepdims=True)", f"{x}.sum()"])
    text = f"{x}.op('gemm', {x}, {y}, {addend}, alpha=0.5, beta=2.0, transpose_a=False, transpose_b=True)"
    return w.put(text, x.dtype, [x.dims[0], x.dims[0]])


def regular(w: Writer, x: Value) -> str:
    """A text of matrices near a multiple of the identity."""
    diagonal = f"wnp.tril(wnp.triu(wnp.ones_like({x})))"
    text = w.random.choice(["0.2 * wnp.tanh({x}) + {d} * {k}", "wnp.sin({x}) * 0.2 - {d} * {k}",
                            "0.1 * {x} * ({x} > -2.0) * ({x} < 2.0) + {d} * {k}"])  # fmt: skip
    largest = max(rows[-1] for rows in w.extents(x.dims))
    return text.format(x=x, d=diagonal, k=float(2 + largest // 6))


def solved(w: Writer) -> Value:
    """Systems of equations."""
    x = w.square()
    right = w.pick(lambda each: each.dtype == x.dtype and each.rank == x.rank
                   and each.dims[:-1] == x.dims[:-1])  # fmt: skip
    return w.like(f"wnp.linalg.solve({regular(w, x)}, {right})", right)


def solved_plainly(w: Writer) -> Value:
    """A system out of an argument, or of a sum, as programs have it."""
    x = w.square()
    size = max(rows[-1] for rows in w.extents(x.dims))
    if size > 3 or x.rank > 2:
        raise Unfit
    right = w.pick(lambda each: each.dtype == x.dtype and each.rank == 2
                   and each.dims[0] == x.dims[0])  # fmt: skip
    return w.like(
        f"wnp.linalg.solve({x} + 4.0 * wnp.tril(wnp.triu(wnp.ones_like({x}))), {right})", right
    )


def inverse(w: Writer) -> Value:
    """Inverses."""
    x = w.square()
    return w.like(f"wnp.linalg.inv({regular(w, x)})", x)


def determinant(w: Writer) -> Value:
    """Determinants and their logarithms."""
    x = w.square()
    text = w.random.choice(["wnp.linalg.slogdet({m})[1]", "wnp.linalg.det(({m}) / {k})"])
    scale = float(2 + max(rows[-1] for rows in w.extents(x.dims)) // 6)
    return w.put(text.format(m=regular(w, x), k=scale), x.dtype, x.dims[:-2])


def graph_determinant(w: Writer) -> Value:
    """The determinant as one operator of the graph."""
    w.graph_only()
    x = w.square()
    if max(rows[-1] for rows in w.extents(x.dims)) > 4:
        raise Unfit
    return w.put(f"{x}.op('det', {regular(w, x)})", x.dtype, x.dims[:-2])


def root(w: Writer) -> Value:
    """Cholesky factors."""
    x = w.square()
    matrix = f"wnp.tanh({x}) @ wnp.tanh({x}).mT + 2.0 * wnp.tril(wnp.triu(wnp.ones_like({x})))"
    upper = w.random.choice(["", "", ", upper=True"])
    return w.like(f"wnp.linalg.cholesky({matrix}{upper})", x)


def of_matrix(w: Writer) -> Value:
    """Powers, diagonals, traces and norms."""
    x = w.square()
    form = w.random.randrange(4)
    if form == 0:
        return w.like(f"wnp.linalg.matrix_power(wnp.tanh({x}) * 0.5, {w.random.choice([2, 3])})", x)
    if form == 1:
        return w.put(f"wnp.linalg.diagonal({x})", x.dtype, x.dims[:-1])
    if form == 2:
        return w.put(f"wnp.linalg.trace({x})", x.dtype, x.dims[:-2])
    if any(not rows[-1] for rows in w.extents(x.dims)):
        raise Unfit
    return w.put(f"wnp.linalg.matrix_norm({x})", x.dtype, x.dims[:-2])


PRODUCTS: Sequence[Rule] = (product, product, product, batches, summed, summed, contracted, gemm)

LINEAR_ALGEBRA: Sequence[Rule] = (
    solved, solved, solved_plainly, inverse, determinant, graph_determinant, root, of_matrix,
)  # fmt: skip
