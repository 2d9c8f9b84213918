"""ATen's operators on complex numbers, which are pairs of tensors of reals: those that treat both
parts alike are the table's on each, the others have a form of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from xdsl.ir import Attribute

from weft.compiler.frontend.fourier import Transform
from weft.compiler.frontend.stablehlo.ops import complex_functions as functions
from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair
from weft.compiler.frontend.stablehlo.ops.elementwise import atan2
from weft.compiler.frontend.torch.operands import (
    AtenFunction,
    AtenTable,
    broadcast_shape,
    entry,
    promoted,
)
from weft.compiler.frontend.torch.ops import views
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, joined, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F64
from weft.dialects.weights import Array

Complex = Pair | Term | complex


class ComplexElement(Struct, frozen=True):
    """The element type of complex numbers, by that of their parts."""

    part: Attribute


def is_complex(value: Any) -> bool:
    """Whether an argument, or something in its list, is complex."""
    if isinstance(value, list | tuple):
        return any(map(is_complex, value))
    return isinstance(value, Pair | ComplexElement | complex)


def on_parts(value: Term | Pair, function: Callable[[Term], Term]) -> Any:
    """A function of a tensor, or of both parts of a complex one."""
    if isinstance(value, Pair):
        return Pair(function(value.real), function(value.imag))
    return function(value)


def separated(pairs: Term) -> Pair:
    """Complex numbers whose parts a last axis holds."""
    axis = len(pairs.shape) - 1
    first, second = (pairs.part(axis, at, 1).reshape(pairs.shape[:-1]) for at in (0, 1))
    return Pair(first, second)


def interleaved(z: Pair) -> Term:
    """The opposite."""
    axis = len(z.real.shape)
    return joined([part.insert(axis) for part in (z.real, z.imag)], axis)


def _part(value: Any, at: int, counts: bool) -> Any:
    """What one of both computations takes: reals that count as complex have no imaginary part."""
    if isinstance(value, list | tuple):
        return [_part(each, at, counts) for each in value]
    if isinstance(value, ComplexElement):
        return value.part
    if isinstance(value, complex) and not counts:
        raise UnsupportedError(f"requires a real number, got {value}")
    if isinstance(value, Pair | complex):
        return value.imag if at else value.real
    if not at or not counts or value is None:
        return value
    return value.number(0).expand(value.shape) if isinstance(value, Term) else 0


def _pair(found: Any, other: Any) -> Any:
    if isinstance(found, Term):
        return Pair(found, other)
    return [Pair(*each) for each in zip(found, other, strict=True)]


def _by_parts(function: AtenFunction, counting: Sequence[int] = ()) -> AtenFunction:
    """An operator on the real parts, then on the imaginary ones; reals in `counting` positions
    count as complex, others are operands of both.
    """

    def build(b: GraphBuilder, *given: Any, **named: Any) -> Any:
        found = [
            function(
                b,
                *(_part(each, at, number in counting) for number, each in enumerate(given)),
                **{name: _part(each, at, False) for name, each in named.items()},
            )
            for at in (0, 1)
        ]
        return _pair(*found)

    return build


def _without_imaginary(of_reals: AtenFunction, b: GraphBuilder, *given: Any, **named: Any) -> Pair:
    """What an operator makes of sizes and types."""
    parts = {name: _part(each, 0, True) for name, each in named.items()}
    found = of_reals(b, *(_part(each, 0, True) for each in given), **parts)
    assert isinstance(found, Term), "it makes one tensor"
    return Pair(found, found.number(0).expand(found.shape))


def _lifted(b: GraphBuilder, *given: Complex) -> list[Pair]:
    """Operands as pairs of one element type."""
    flat = promoted(b, *(_part(each, at, True) for each in given for at in (0, 1)))
    return [Pair(*flat[at : at + 2]) for at in range(0, len(flat), 2)]


def _formula(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """A function of complex numbers, in f64 and rounded once."""

    def build(b: GraphBuilder, *given: Complex) -> Pair:
        pairs = _lifted(b, *given)
        element = pairs[0].real.type.element
        found = function(*(Pair(z.real.cast(F64), z.imag.cast(F64)) for z in pairs))
        return Pair(found.real.cast(element), found.imag.cast(element))

    return build


def _scaled(
    function: AtenFunction, of_reals: AtenFunction, b: GraphBuilder, x: Complex, other: Complex
) -> Any:
    """A product or quotient, whose second operand may be real."""
    if is_complex(other):
        return function(b, x, other)
    return _by_parts(of_reals, (0,))(b, x, other)


def _product(b: GraphBuilder, x: Complex, other: Complex) -> Pair:
    first, second = _lifted(b, x, other)
    return first * second


def _multiplied(of_reals: AtenFunction, b: GraphBuilder, x: Complex, other: Complex) -> Any:
    """A product, of which either operand may be real."""
    given = (x, other) if is_complex(x) else (other, x)
    return _scaled(_product, of_reals, b, *given)


def _unary(function: Callable[[Pair], Any], b: GraphBuilder, z: Complex) -> Any:
    return function(*_lifted(b, z))


def _pulled_back(slope: Callable[[Pair], Pair], b: GraphBuilder, dy: Complex, y: Complex) -> Pair:
    """A cotangent through a function whose derivative is one of its result."""
    upstream, result = _lifted(b, dy, y)
    return upstream * functions.conjugate(slope(result))


def _power(b: GraphBuilder, x: Complex, exponent: Complex) -> Pair:
    return _product(b, x, x) if exponent == 2 else _formula(functions.power)(b, x, exponent)


def _bilinear(of_reals: AtenFunction, b: GraphBuilder, x: Complex, other: Complex) -> Any:
    """A product of matrices, of which real ones are made."""
    if not (is_complex(x) and is_complex(other)):
        return _by_parts(of_reals)(b, x, other)
    first, second = _lifted(b, x, other)

    def times(p: Term, q: Term) -> Any:
        return of_reals(b, p, q)

    return Pair(
        times(first.real, second.real) - times(first.imag, second.imag),
        times(first.real, second.imag) + times(first.imag, second.real),
    )


def _of_magnitudes(of_reals: AtenFunction, b: GraphBuilder, z: Pair, *given: Any) -> Any:
    return of_reals(b, functions.magnitude(z), *given)


def _either(of_reals: AtenFunction, b: GraphBuilder, z: Pair) -> Any:
    first, second = of_reals(b, z.real), of_reals(b, z.imag)
    assert isinstance(first, Term), "it says of each element whether it holds"
    assert isinstance(second, Term), "it says of each element whether it holds"
    return first | second


def _converted(
    of_reals: AtenFunction, b: GraphBuilder, x: Complex, dtype: Any = None, **_: object
) -> Any:
    """The elements as another type, of reals as complex numbers or the other way round."""
    if dtype is None or isinstance(dtype, ComplexElement):
        return _by_parts(of_reals, (0,))(b, x, dtype)
    return of_reals(b, _part(x, 0, True), dtype)


def _equal(b: GraphBuilder, x: Complex, other: Complex) -> Term:
    first, second = _lifted(b, x, other)
    return first.real.equals(second.real) & first.imag.equals(second.imag)


def _of_parts(b: GraphBuilder, real: Term, imag: Term) -> Pair:
    dims = broadcast_shape(real.shape, imag.shape)
    return Pair(*(part.expand(dims) for part in promoted(b, real, imag)))


def _polar(b: GraphBuilder, size: Term, angle: Term) -> Pair:
    return _of_parts(b, size * angle.math("cos"), size * angle.math("sin"))


def _angle(z: Pair) -> Term:
    return atan2(z.imag.cast(F64), z.real.cast(F64)).cast(z.real.type.element)


# Fourier transforms ---------------------------------------------------------------------------

Stored = Callable[[Array], Term]
"""Makes a tensor of a table of numbers."""


def _transformed(
    stored: Stored, parts: Sequence[Term], axes: Sequence[int], sign: int, kept: Sequence[Expr]
) -> Sequence[Term]:
    transform = Transform(stored, parts[0].type.element, sign)
    for axis, count in zip(axes, kept, strict=True):
        parts = transform(parts, count, axis)
    return parts


def _normalized(parts: Sequence[Term], sizes: Sequence[Expr], normalization: int) -> list[Term]:
    """Divided by the root of the number of elements (1), or by it (2)."""
    if not normalization:
        return list(parts)
    count = size_term(parts[0].b, product(sizes), parts[0].type.element)
    by = count.math("sqrt") if normalization == 1 else count
    return [each / by for each in parts]


def _axes_and_sizes(z: Pair | Term, dim: Sequence[int]) -> tuple[list[int], list[Expr]]:
    """The last one first, of which half of the frequencies may do."""
    axes = [each % len(z.shape) for each in reversed(dim)]
    return axes, [z.shape[axis] for axis in axes]


def _of_reals(
    stored: Stored, _: GraphBuilder, x: Term, dim: Sequence[int], normalization: int, onesided: bool
) -> Pair:
    """Of the last axis the frequencies up to the middle one, or all."""
    axes, sizes = _axes_and_sizes(x, dim)
    kept = [sizes[0] // 2 + 1 if onesided else sizes[0], *sizes[1:]]
    found = _transformed(stored, [x], axes, -1, kept)
    return Pair(*_normalized(found, sizes, normalization))


def _of_pairs(
    stored: Stored, _: GraphBuilder, z: Pair, dim: Sequence[int], normalization: int, forward: bool
) -> Pair:
    axes, sizes = _axes_and_sizes(z, dim)
    found = _transformed(stored, (z.real, z.imag), axes, -1 if forward else 1, sizes)
    return Pair(*_normalized(found, sizes, normalization))


def _to_reals(
    stored: Stored,
    b: GraphBuilder,
    z: Pair,
    dim: Sequence[int],
    normalization: int,
    last_dim_size: ExprLike,
) -> Term:
    """Of the frequencies up to the middle one of the last axis."""
    (last, *others), (_, *sizes) = _axes_and_sizes(z, dim)
    rank, size = len(z.shape), Expr.of(last_dim_size)
    parts = _transformed(stored, (z.real, z.imag), others, 1, sizes)
    order = [*(axis for axis in range(rank) if axis != last), last]
    transform = Transform(stored, parts[0].type.element, 1)
    found = transform.real_inverse([each.transpose(order) for each in parts], size)
    whole = found * size_term(b, size, found.type.element)
    (scaled,) = _normalized([whole], [*sizes, size], normalization)
    return scaled.transpose([order.index(axis) for axis in range(rank)])


_FOURIER: Final[Mapping[str, Callable[..., Any]]] = {
    "aten._fft_r2c.default": _of_reals,
    "aten._fft_c2c.default": _of_pairs,
    "aten._fft_c2r.default": _to_reals,
}

# The tables -----------------------------------------------------------------------------------

_FORMULAS: Final[Mapping[str, Callable[..., Pair]]] = {
    "acos": functions.inverse_cosine, "acosh": functions.inverse_hyperbolic_cosine,
    "asin": functions.inverse_sine, "asinh": functions.inverse_hyperbolic_sine,
    "atan": functions.inverse_tangent, "atanh": functions.inverse_hyperbolic_tangent,
    "cos": functions.cosine, "cosh": functions.hyperbolic_cosine, "exp": functions.exponential,
    "expm1": functions.exponential_minus_one, "log": functions.logarithm,
    "log1p": functions.log_plus_one, "rsqrt": functions.reciprocal_root, "sgn": functions.sign,
    "sigmoid": functions.logistic, "sin": functions.sine, "sinh": functions.hyperbolic_sine,
    "sqrt": functions.square_root, "tan": functions.tangent, "tanh": functions.hyperbolic_tangent,
}  # fmt: skip

_COUNTING: Final[Mapping[str, Sequence[int]]] = {
    "add.Tensor": (0, 1), "add.Scalar": (0, 1), "sub.Tensor": (0, 1), "sub.Scalar": (0, 1),
    "rsub.Scalar": (0, 1), "rsub.Tensor": (0, 1), "cat.default": (0,), "stack.default": (0,),
    "constant_pad_nd.default": (2,), "copy.default": (1,), "cumsum.default": (0,),
    "empty.memory_format": (), "empty_like.default": (), "empty_permuted.default": (),
    "empty_strided.default": (), "fill.Scalar": (1,), "fill.Tensor": (1,), "full.default": (1,),
    "full_like.default": (1,), "gather.default": (), "index.Tensor": (), "index_add.default": (3,),
    "index_copy.default": (3,), "index_put.default": (2,), "index_select.default": (),
    "masked_fill.Scalar": (2,), "masked_fill.Tensor": (2,), "mean.default": (0,), "mean.dim": (0,),
    "neg.default": (), "new_empty.default": (), "new_empty_strided.default": (),
    "new_full.default": (2,), "new_zeros.default": (), "scalar_tensor.default": (0,),
    "scatter.src": (3,), "scatter.value": (3,), "scatter_add.default": (3,),
    "select_scatter.default": (1,), "slice_scatter.default": (1,), "diagonal_scatter.default": (1,),
    "sum.default": (0,), "sum.dim_IntList": (0,), "triu.default": (), "tril.default": (),
    "where.self": (1, 2), "where.ScalarOther": (1, 2), "where.ScalarSelf": (1, 2),
    "where.Scalar": (1, 2), "zeros.default": (), "zeros_like.default": (),
    "as_strided_scatter.default": (1,), "unfold_backward.default": (), "_unsafe_index.Tensor": (),
    "_unsafe_index_put.default": (2,), "reflection_pad1d.default": (),
}  # fmt: skip
"""Operators that treat both parts alike, and the positions where reals count as complex."""

_REAL_ALONE: Final = (
    "eye.default", "eye.m", "new_ones.default", "ones.default", "ones_like.default",
)  # fmt: skip
_EITHER: Final = ("isinf.default", "isnan.default")
_PRODUCTS: Final = ("bmm.default", "dot.default", "matmul.default", "mm.default", "mv.default")
_OF_REALS: Final[Mapping[str, Callable[..., Any]]] = {
    "mul.Tensor": _multiplied, "mul.Scalar": _multiplied, "_to_copy.default": _converted,
    "div.Tensor": partial(_scaled, _formula(functions.quotient)),
    "div.Scalar": partial(_scaled, _formula(functions.quotient)),
    "linalg_vector_norm.default": _of_magnitudes,
    **dict.fromkeys(_PRODUCTS, _bilinear),
    **dict.fromkeys(_REAL_ALONE, _without_imaginary),
    **dict.fromkeys(_EITHER, _either),
    "prims.convert_element_type.default": _converted,
}  # fmt: skip
"""Operators that are made of those on reals, which come first."""

_COMPLEX: Final[Mapping[str, AtenFunction]] = {
    **{f"aten.{name}.default": _formula(function) for name, function in _FORMULAS.items()},
    **entry(_of_parts, "complex.default"),
    **entry(_polar, "polar.default"),
    **entry(lambda _, x: separated(x), "view_as_complex.default"),
    **entry(partial(_unary, interleaved), "view_as_real.default"),
    **entry(partial(_unary, lambda z: z.real), "real.default"),
    **entry(partial(_unary, lambda z: z.imag), "imag.default"),
    **entry(
        partial(_unary, functions.conjugate),
        "_conj.default", "conj.default", "_conj_physical.default", "conj_physical.default",
    ),
    **entry(partial(_unary, functions.magnitude), "abs.default"),
    **entry(partial(_unary, _angle), "angle.default"),
    **entry(partial(_pulled_back, lambda y: -(y * y).shifted(-1.0)), "tanh_backward.default"),
    **entry(partial(_pulled_back, lambda y: y - y * y), "sigmoid_backward.default"),
    **entry(_equal, "eq.Tensor", "eq.Scalar"),
    **entry(lambda b, z, w: _equal(b, z, w).math("logical_not"), "ne.Tensor", "ne.Scalar"),
    **entry(_power, "pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"),
    **entry(lambda b, z: _formula(functions.quotient)(b, 1, z), "reciprocal.default"),
}  # fmt: skip
"""Operators that have forms of their own."""

OF_PAIRS: Final = frozenset((
    *_FOURIER, "aten.complex.default", "aten.polar.default", "aten.view_as_complex.default",
))  # fmt: skip
"""Operators of which a form is complex whatever their arguments are."""


def complex_form(target: str, table: AtenTable, stored: Stored) -> AtenFunction:
    """The function of an overload some of whose arguments or results are complex; `stored` makes a
    tensor of a table of numbers. Raises UnsupportedError where weft has none.
    """
    name = target.removeprefix("aten.")
    if target in _FOURIER:
        return partial(_FOURIER[target], stored)
    if target in _COMPLEX:
        return _COMPLEX[target]
    if target in table and name in _OF_REALS:
        return partial(_OF_REALS[name], table[target])
    if target in table and (name in _COUNTING or target in views.TABLE and name != "view.dtype"):
        return _by_parts(table[target], _COUNTING.get(name, ()))
    raise UnsupportedError("requires real numbers, got complex ones")
