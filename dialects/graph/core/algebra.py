"""`Term`: a graph value with Python's operators, so that a composition reads like its formula."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue

from weft.dialects.expr import Expr, ExprLike
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64, Shape, ShapeAttr, TensorType, type_of


class Term(Struct, frozen=True, eq=False):
    """A tensor and the builder that inserts what is computed from it.

    A Python number beside it counts as a scalar of its element type; tensors are broadcast.
    """

    b: GraphBuilder
    value: SSAValue

    @property
    def type(self) -> TensorType:
        """The tensor's type."""
        return type_of(self.value)

    @property
    def shape(self) -> Shape:
        """The tensor's dims."""
        return self.type.shape

    def of(self, value: SSAValue) -> Term:
        """Another value under the same builder."""
        return Term(self.b, value)

    def number(self, number: float) -> Term:
        """A scalar of this element type."""
        return self.of(self.b.constant_of(number, self.type.element))

    def _apply(self, name: str, *others: Term | float) -> Term:
        values = [x.value if isinstance(x, Term) else self.number(x).value for x in others]
        return self.of(self.b.op(name, self.value, *values).results[0])

    def __add__(self, other: Term | float) -> Term:
        return self._apply("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self._apply("sub", other)

    def __mul__(self, other: Term | float) -> Term:
        return self._apply("mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._apply("div", other)

    def __radd__(self, other: float) -> Term:
        return self.number(other) + self

    def __rsub__(self, other: float) -> Term:
        return self.number(other) - self

    def __rmul__(self, other: float) -> Term:
        return self.number(other) * self

    def __rtruediv__(self, other: float) -> Term:
        return self.number(other) / self

    def __neg__(self) -> Term:
        return self._apply("neg")

    def __and__(self, other: Term) -> Term:
        return self._apply("logical_and", other)

    def __or__(self, other: Term) -> Term:
        return self._apply("logical_or", other)

    def __lt__(self, other: Term | float) -> Term:
        return self._apply("less", other)

    def __le__(self, other: Term | float) -> Term:
        return self._apply("less_equal", other)

    def __gt__(self, other: Term | float) -> Term:
        return self._apply("greater", other)

    def __ge__(self, other: Term | float) -> Term:
        return self._apply("greater_equal", other)

    def equals(self, other: Term | float) -> Term:
        """Where the elements are equal."""
        return self._apply("equal", other)

    def maximum(self, other: Term | float) -> Term:
        """The greater elements."""
        return self._apply("max", other)

    def minimum(self, other: Term | float) -> Term:
        """The lesser elements."""
        return self._apply("min", other)

    def modulo(self, other: Term | float) -> Term:
        """The remainder with the divisor's sign; integers alone."""
        values = other.value if isinstance(other, Term) else self.number(other).value
        return self.of(self.b.mod(self.value, values, fmod=False))

    def where(self, then: Term | float, otherwise: Term | float) -> Term:
        """The first where this bool holds, else the second; one of them at least is a tensor."""
        like = then if isinstance(then, Term) else otherwise
        assert isinstance(like, Term), "a choice between numbers has no element type"
        values = [
            x.value if isinstance(x, Term) else like.number(x).value for x in (then, otherwise)
        ]
        return self.of(self.b.where(self.value, *values))

    def math(self, name: str) -> Term:
        """A unary operator by its name: `floor`, `exp`, `sqrt`, ..."""
        return self._apply(name)

    def cast(self, element: Attribute) -> Term:
        """The elements as another type; itself where they have that."""
        if self.type.element == element:
            return self
        return self.of(self.b.cast(self.value, to=element))

    def reshape(self, shape: Sequence[ExprLike]) -> Term:
        """The elements under other dims; itself where they are the same."""
        wanted = shape_attr(shape)
        return (
            self if self.type.dims == wanted else self.of(self.b.reshape(self.value, shape=wanted))
        )

    def expand(self, shape: Sequence[ExprLike]) -> Term:
        """Broadcast to dims."""
        wanted = shape_attr(shape)
        return (
            self if self.type.dims == wanted else self.of(self.b.expand(self.value, shape=wanted))
        )

    def insert(self, *axes: int) -> Term:
        """With dims of 1, so that they are at these axes of the result, in ascending order."""
        shape = list(self.shape)
        for axis in axes:
            shape.insert(axis, Expr.of(1))
        return self.reshape(shape)

    def transpose(self, order: Sequence[int]) -> Term:
        """The axes in that order; itself where they are in it."""
        if list(order) == list(range(len(order))):
            return self
        return self.of(self.b.transpose(self.value, permutation=list(order)))

    def sum(self, axes: Sequence[int], *, keepdims: bool = False) -> Term:
        """Added up over axes."""
        return self.of(self.b.reduce_sum(self.value, axes=list(axes), keepdims=keepdims))

    def matmul(self, other: Term) -> Term:
        """The matrix product."""
        return self.of(self.b.matmul(self.value, other.value))

    def take(self, indices: Term, axis: int) -> Term:
        """Slices along an axis by their indices."""
        return self.of(self.b.gather(self.value, indices.value, axis=axis))

    def flip(self, axis: int) -> Term:
        """The elements in the opposite order along an axis."""
        starts, steps = [Expr.of(0)] * len(self.shape), [1] * len(self.shape)
        starts[axis], steps[axis] = self.shape[axis] - 1, -1
        sizes = shape_attr(self.shape)
        return self.of(
            self.b.slice(self.value, starts=shape_attr(starts), sizes=sizes, steps=steps)
        )

    def part(self, axis: int, start: ExprLike, size: ExprLike, step: int = 1) -> Term:
        """So many elements along an axis, the first one at `start`, `step` apart."""
        starts, sizes = [Expr.of(0)] * len(self.shape), list(self.shape)
        starts[axis], sizes[axis] = Expr.of(start), Expr.of(size)
        if sizes == list(self.shape):
            return self
        return self.of(
            self.b.slice(
                self.value,
                starts=shape_attr(starts),
                sizes=shape_attr(sizes),
                steps=[step if dim == axis else 1 for dim in range(len(sizes))],
            )
        )


def shape_attr(dims: Sequence[ExprLike]) -> ShapeAttr:
    """The attribute of a list of dims, which may be empty."""
    return ShapeAttr(tuple(Expr.of(dim) for dim in dims))


def joined(terms: Sequence[Term], axis: int) -> Term:
    """Tensors one after the other along an axis; a single one is the result."""
    first = terms[0]
    if len(terms) == 1:
        return first
    return first.of(first.b.concat(*(term.value for term in terms), axis=axis))


def counted(b: GraphBuilder, size: ExprLike, element: Attribute = I64) -> Term:
    """`0, 1, ...` below a size."""
    start, delta = b.constant_of(0, element), b.constant_of(1, element)
    return Term(b, b.range(start, delta, size=shape_attr([size])))


def size_term(b: GraphBuilder, size: ExprLike, element: Attribute) -> Term:
    """A size as a scalar of an element type."""
    number = Expr.of(size).constant
    if number is not None:
        return Term(b, b.constant_of(number, element))
    return Term(b, b.dims(values=shape_attr([size]), scalar=UnitAttr())).cast(element)
