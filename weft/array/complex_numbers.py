"""`Complex`: an array of complex numbers, which is two arrays of reals of any mode.

Operators that treat both parts alike are computed twice; functions are the formulas of pairs that
front ends have. A slice shows elements by its parts, so views, assignments, derivatives, loops
and batches are those of arrays of reals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, cast

import numpy as np

from weft.array.interleaved import part_dtype
from weft.array.methods import ArrayMethods
from weft.array.operators import ArrayOperators, is_number, users_line
from weft.array.pair_formulas import formula, lexicographic, magnitudes, order_of
from weft.array.views import require_changeable
from weft.dialects.errors import WeftError

LINEAR: Final = frozenset((
    "add", "after", "concat", "cumsum", "expand", "gather", "gather_elements", "gather_nd",
    "identity", "insert_slice", "neg", "pad", "reduce_mean", "reduce_sum", "reshape",
    "round", "scatter_elements", "scatter_nd", "slice", "stop_gradient", "sub", "transpose",
    "trilu", "where",
))  # fmt: skip
"""Operators that treat both parts alike; operands of reals are those of both."""

FORMULAS: Final[Mapping[str, str]] = {
    "acos": "inverse_cosine", "acosh": "inverse_hyperbolic_cosine", "asin": "inverse_sine",
    "asinh": "inverse_hyperbolic_sine", "atan": "inverse_tangent",
    "atanh": "inverse_hyperbolic_tangent", "cos": "cosine", "cosh": "hyperbolic_cosine",
    "div": "quotient", "exp": "exponential", "expm1": "exponential_minus_one", "log": "logarithm",
    "log1p": "log_plus_one", "mul": "product", "pow": "power",
    "sigmoid": "logistic", "sign": "sign", "sin": "sine", "sinh": "hyperbolic_sine",
    "sqrt": "square_root", "tan": "tangent", "tanh": "hyperbolic_tangent",
}  # fmt: skip
"""Operators that are formulas of pairs, by their names there."""

_PRODUCTS: Final = ("einsum", "matmul")
_EITHER: Final = ("is_inf", "is_nan")
"""Operators that hold where they hold of one part."""

_ORDERS: Final = ("less", "less_equal", "greater", "greater_equal")
_MOST_FACTORS: Final = 100
"""Powers up to this one are products, as NumPy's are."""


def from_real(x: Any, dtype: np.dtype[Any]) -> Complex:
    """Reals as complex numbers."""
    real = x.astype(part_dtype(dtype))
    zeros = real.constant(np.zeros((), real.dtype)).broadcast_to(real.shape)
    return Complex((real, zeros.duplicate()))


def complex_of(array: Any, make: Callable[[Any], Any]) -> Complex:
    """NumPy's complex numbers, of whose parts `make` makes tensors."""
    found: Any = np.asarray(array)
    return Complex(
        (make(np.asarray(found.real, order="C")), make(np.asarray(found.imag, order="C")))
    )


def separated(pairs: Any) -> Complex:
    """Complex numbers of a tensor of pairs, of an artifact's input."""
    return Complex((pairs[..., 0], pairs[..., 1]))


class Complex(ArrayMethods):
    """Complex numbers with NumPy's operators, methods, indexing and assignments: what functions of
    weft.numpy give for them, `x + 1j`, and what `weft.Tensor` makes of NumPy's.

    `real` and `imag` are arrays of reals, whose elements they show.
    """

    __slots__ = ("_imag", "_real")

    def __init__(self, parts: Sequence[Any]):
        self._real, self._imag = parts

    @property
    def real(self) -> Any:
        """The real parts, which show its elements; an assignment changes these."""
        return self._real

    @real.setter
    def real(self, value: Any) -> None:
        self._real[...] = value

    @property
    def imag(self) -> Any:
        """The imaginary parts, which show its elements; an assignment changes these."""
        return self._imag

    @imag.setter
    def imag(self, value: Any) -> None:
        self._imag[...] = value

    @property
    def parts(self) -> tuple[Any, Any]:
        """The real and the imaginary one."""
        return self._real, self._imag

    @property
    def has_values(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the elements are there."""
        return self.real.has_values and self.imag.has_values

    @property
    def dtype(self) -> np.dtype[Any]:
        """complex64 or complex128."""
        return np.dtype(np.complex64 if self.real.dtype == np.float32 else np.complex128)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.real.ndim

    @property
    def numbers(self) -> tuple[type, ...]:
        """Types of Python's numbers that become tensors of this dtype before they are operands."""
        return (complex, float, int)

    # Operators --------------------------------------------------------------------------------

    def results(self, name: str, *operands: Any, **attributes: Any) -> list[Any]:
        """All results of a graph operator. Raises WeftError for one that has no complex numbers."""
        given = [each if isinstance(each, ArrayOperators) else self.lifted(each)
                 for each in operands]  # fmt: skip
        if name == "where" and isinstance(given[0], Complex):
            given[0] = given[0].cast(np.dtype(np.bool_))
        if name in LINEAR:
            return [_by_parts(name, given, attributes)]
        if name in FORMULAS:
            halves = [part for each in given for part in cast("Complex", each).parts]
            leading = _leader(halves)
            return [Complex(leading.composed_all(formula, halves, {"name": FORMULAS[name]}))]
        if name in _PRODUCTS:
            return [_multilinear(name, given, attributes)]
        one = self._real_result(name, given, attributes)
        if one is None:
            rule = f"{name} requires real numbers"
            advice = "x.real, x.imag and abs(x) are real"
            raise WeftError(f"{users_line()}: {rule}, got {self.dtype} ({advice})")
        return [one]

    def _real_result(self, name: str, given: Sequence[Any], attributes: Any) -> Any:
        first = cast("Complex", given[0])
        real, imag = first.parts
        if name == "abs":
            return real.composed(magnitudes, (real, imag), {})
        if name == "reciprocal":
            return 1.0 / first
        if name in ("max", "min"):
            second = cast("Complex", given[1])
            ahead = first > second if name == "max" else first < second
            return ahead.op("where", ahead, first, second)
        if name == "reduce_l2":
            return abs(first).op(name, abs(first), **attributes)
        if name == "equal":
            second = cast("Complex", given[1])
            return (real == second.real) & (imag == second.imag)
        if name in _ORDERS:
            halves = [*first.parts, *cast("Complex", given[1]).parts]
            return _leader(halves).composed(lexicographic, halves, {"name": name})
        if name in _EITHER:
            return real.op(name, real, **attributes) | imag.op(name, imag, **attributes)
        if name == "reduce_prod":
            return first._product(**attributes)
        if name == "argsort":
            return order_of(real, imag, **attributes)
        if name == "cast":
            return first.cast(np.dtype(attributes["to"]))
        return None

    def _product(self, axes: Sequence[int], keepdims: bool) -> Complex:
        """Along axes, by halves."""
        found = self
        for axis in axes:
            front = (slice(None),) * axis
            while found.shape[axis] != 1:
                size = found.shape[axis]
                if not isinstance(size, int) or not size:
                    rule = "a product of complex numbers requires a size that is known, and not 0"
                    raise WeftError(f"{users_line()}: {rule}, got {size}")
                half = size // 2
                heads = found[(*front, slice(0, half))] * found[(*front, slice(half, 2 * half))]
                rest = found[(*front, slice(2 * half, None))]
                found = heads.op("concat", heads, rest, axis=axis) if size % 2 else heads
        kept = [size for at, size in enumerate(found.shape) if at not in axes]
        return found if keepdims else found.shaped(tuple(kept))

    def composed(
        self, function: Callable[..., Any], operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """What a function of tensors, one of which is this one, returns."""
        return function(*map(self.lifted, operands), **attributes)

    def constant(self, value: Any) -> Any:
        """A tensor of this kind with the elements of an array."""
        return self.real.constant(value)

    def lifted(self, other: Any) -> Any:
        """A number, an array or a tensor of another kind as a tensor of this kind."""
        if isinstance(other, Complex):
            return Complex([self.real.lifted(each) for each in other.parts])
        if isinstance(other, ArrayOperators) or not is_number(other):
            return self.real.lifted(other)
        return self.constant(np.asarray(other, self.dtype))

    def extent(self, value: Any) -> Any:
        """A size that a program names, as sizes of tensors of this kind are."""
        return self.real.extent(value)

    def require_within(self, size: Any) -> None:
        """Refuses to be an index. Raises WeftError."""
        raise WeftError(f"{users_line()}: an index requires integers, got {self.dtype}")

    def cast(self, wanted: np.dtype[Any]) -> Any:
        """The elements converted; reals lose the imaginary parts, with NumPy's warning."""
        if wanted.kind == "c":
            element = part_dtype(wanted)
            return Complex([each.astype(element) for each in self.parts])
        if wanted == np.bool_:
            return (self.real != 0) | (self.imag != 0)
        text = "Casting complex values to real discards the imaginary part"
        warnings.warn(f"{users_line()}: {text}", np.exceptions.ComplexWarning, stacklevel=2)
        return self.real.astype(wanted)

    def __pow__(self, other: Any) -> Any:
        is_integer = isinstance(other, int | np.integer)
        if (
            not is_integer
            or not -_MOST_FACTORS < (power := int(cast("Any", other))) < _MOST_FACTORS
        ):
            return super().__pow__(other)
        found, base, left = self.lifted(1.0).broadcast_to(self.shape), self, abs(power)
        started = False
        while left:
            if left & 1:
                found, started = (found * base if started else base), True
            left >>= 1
            base = base * base if left else base
        return 1.0 / found if power < 0 else found.duplicate()

    def __floordiv__(self, other: Any) -> Any:
        raise self._unordered("//")

    def __mod__(self, other: Any) -> Any:
        raise self._unordered("%")

    def _unordered(self, sign: str) -> TypeError:
        return TypeError(f"{users_line()}: {sign} requires real numbers, got {self.dtype}")

    # What shows elements ----------------------------------------------------------------------

    def _each(self, function: Callable[[Any], Any]) -> Complex:
        return Complex([function(each) for each in self.parts])

    def shaped(self, shape: Any) -> Complex:
        """Other dims, or one, for the same elements in the same order; one may be -1."""
        return self._each(lambda x: x.shaped(shape))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Complex:
        """Other dims for the same elements in the same order; one may be -1."""
        return self._each(lambda x: x.reshape(*shape, order=order, copy=copy))

    def ravel(self, order: str = "C") -> Complex:
        """All elements along one axis."""
        return self._each(lambda x: x.ravel(order))

    def regrouped(self, shape: Any) -> Complex:
        """Other dims for the same elements, of which NumPy always makes a view."""
        return self._each(lambda x: x.regrouped(shape))

    def broadcast_to(self, shape: Sequence[Any]) -> Complex:
        """The elements repeated along new axes in front and along those of size 1."""
        return self._each(lambda x: x.broadcast_to(shape))

    def transpose(self, *axes: Any) -> Complex:
        """The axes in another order; without one reversed."""
        return self._each(lambda x: x.transpose(*axes))

    def rolled(self, moves: Sequence[tuple[int, Any]]) -> Complex:
        """The elements moved on along axes, by so many places each; the last ones come first."""
        return self._each(lambda x: x.rolled(moves))

    def duplicate(self) -> Complex:
        """An array of its own of the same elements."""
        return self._each(lambda x: x.duplicate())

    def copy(self, order: str = "C") -> Any:
        """Another array of the same elements."""
        return self.duplicate()

    clone = copy

    def __pos__(self) -> Complex:
        return self.duplicate()

    def nonzero(self) -> tuple[Any, ...]:
        """The places of the elements that are not zero, a vector an axis."""
        return self.cast(np.dtype(np.bool_)).nonzero()

    def __getitem__(self, index: Any) -> Any:
        return self._each(lambda x: x[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        given: Any = value if isinstance(value, ArrayOperators) else self.lifted(_array_of(value))
        for x, part in zip(self.parts, given.astype(self.dtype, copy=False).parts, strict=True):
            x[index] = part

    def _in_place(self, found: Any) -> Any:
        if not self.ndim:
            return found
        for x in self.parts:
            require_changeable(x)
        for x, y in zip(self.parts, found.astype(self.dtype).parts, strict=True):
            x._in_place(y)
        return self

    # Statistics -------------------------------------------------------------------------------

    def var(self, *arguments: Any, **named: Any) -> Any:
        """The mean square distance from the mean over axes, which is real."""
        return self.real.var(*arguments, **named) + self.imag.var(*arguments, **named)

    def std(self, *arguments: Any, **named: Any) -> Any:
        """The square root of the variance over axes."""
        return self.var(*arguments, **named) ** 0.5

    def conj(self) -> Complex:
        """The numbers with the other imaginary parts."""
        return Complex((self.real.duplicate(), -self.imag))

    conjugate = conj

    @property
    def pairs(self) -> Any:
        """The parts along a new last axis, as an artifact gives them."""
        columns = [each.shaped((*each.shape, 1)) for each in self.parts]
        return _leader(columns).op("concat", *columns, axis=self.ndim)

    # Python's protocols -----------------------------------------------------------------------

    def numpy(self) -> Any:
        """The elements as an array of NumPy's."""
        found = np.empty(self.shape, self.dtype)
        found.real, found.imag = np.asarray(self.real), np.asarray(self.imag)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __dlpack__(self, **named: Any) -> Any:
        return self.numpy().__dlpack__(**named)

    def __dlpack_device__(self) -> Any:
        return self.real.__dlpack_device__()

    def item(self, *index: Any) -> Any:
        """The one element, or that at an index, as a number of Python's."""
        return complex(self.real.item(*index), self.imag.item(*index))

    def tolist(self) -> Any:
        """Nested lists of Python's numbers."""
        return self.numpy().tolist()

    def __len__(self) -> int:
        return len(self.real)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __bool__(self) -> bool:
        return bool((self.real != 0) | (self.imag != 0))

    def __complex__(self) -> complex:
        return complex(float(self.real), float(self.imag))

    def __float__(self) -> float:
        raise TypeError(f"{users_line()}: float requires a real number, got {self.dtype}")

    __int__ = __float__  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        if not self.has_values:
            return f"Complex({self.real!r}, {self.imag!r})"
        text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return str(self.numpy()) if self.has_values else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self.numpy() if self.ndim else self.item(), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Complex, (self.parts,)


def _array_of(value: Any) -> Any:
    return value if is_number(value) else np.asarray(value)


def _leader(parts: Sequence[Any]) -> Any:
    """The first part without values, or the first one."""
    return next((each for each in parts if not each.has_values), parts[0])


def _by_parts(name: str, given: Sequence[Any], attributes: Mapping[str, Any]) -> Complex:
    """An operator on the real parts, then on the imaginary ones."""
    found: list[Any] = []
    for side in (0, 1):
        operands = [_side(each, side) for each in given]
        found.append(_leader(operands).op(name, *operands, **attributes))
    return Complex(found)


def _side(x: Any, side: int) -> Any:
    """A part of a complex operand; reals are both."""
    return x.parts[side] if isinstance(x, Complex) else x


def _multilinear(name: str, given: Sequence[Any], attributes: Mapping[str, Any]) -> Complex:
    """A product of several operands, of products of their parts: each i squared is -1."""
    real: Any = None
    imag: Any = None
    for sides in product(*((0, 1) if isinstance(each, Complex) else (0,) for each in given)):
        operands = [_side(each, side) for each, side in zip(given, sides, strict=True)]
        term = _leader(operands).op(name, *operands, **attributes)
        turns = sum(sides)
        total = imag if turns % 2 else real
        if total is None:
            total = -term if turns % 4 >= 2 else term
        else:
            total = total - term if turns % 4 >= 2 else total + term
        real, imag = (real, total) if turns % 2 else (total, imag)
    return Complex((real, imag))
