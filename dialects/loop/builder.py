"""`LoopBuilder`: what an operator's `lower` writes its naive loop nest with.

with b.loops(shape, "ij") as (i, j):
    b.store(y, (i, j), b.load(x, (i, j)) + 1.0)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Atom, Expr, ExprLike
from weft.dialects.expr_text import INDEX
from weft.dialects.loop.arithmetic import IndexOp
from weft.dialects.loop.ops import AllocOp, ForOp, IfOp, LoadOp, StoreOp
from weft.dialects.loop.scalar import Number, Scalar, compute_type, constant
from weft.dialects.loop.types import buffer, buffer_type_of

Index = Sequence[ExprLike]
IndexMap = Callable[[Sequence[Expr]], Sequence[Expr]]
"""What an index of one tensor is in another one."""

Buffers = Sequence[SSAValue]
"""Of the operands or the results of an operator that is lowered."""


class LoopBuilder:
    """Writes loops, accesses and scalar arithmetic at the end of a kernel's body.

    `strict` withdraws the permission to reassociate floating-point reductions.
    """

    def __init__(self, block: Block, *, strict: bool = False):
        self.builder = Builder(InsertPoint.at_end(block))
        self.strict = strict
        self._literals: dict[SSAValue, Number] = {}
        self._views: dict[SSAValue, tuple[SSAValue, IndexMap]] = {}
        self.sizes: dict[Atom, Expr] = {}
        """What named sizes are here, where they are no sizes of the kernel."""

    def _known(self, expr: ExprLike) -> Expr:
        expr = Expr.of(expr)
        return expr.substitute(self.sizes) if self.sizes else expr

    @contextmanager
    def loops(
        self, extents: Sequence[ExprLike], names: str = "ijklmnpq"
    ) -> Generator[tuple[Expr, ...]]:
        """A nest of loops from zero to each extent;
        yields the indices, one per extent, 0 for an extent of 1.
        """
        with self._nest(extents, names, None) as indices:
            yield indices

    @contextmanager
    def reduce(
        self, extents: Sequence[ExprLike], combiner: str, names: str = "rstuvw"
    ) -> Generator[tuple[Expr, ...]]:
        """Loops whose iterations only combine into the same elements with `add`,
        `mul`, `max`, `min`, `and` or `or`.
        """
        with self._nest(extents, names, None if self.strict else combiner) as indices:
            yield indices

    @contextmanager
    def _nest(
        self, extents: Sequence[ExprLike], names: str, reduction: str | None
    ) -> Generator[tuple[Expr, ...]]:
        outside = self.builder.insertion_point
        indices: list[Expr] = []
        for position, extent in enumerate(extents):
            if extent == 1:
                indices.append(Expr.of(0))
                continue
            loop = self.builder.insert(ForOp.of(0, self._known(extent), reduction=reduction))
            loop.index.name_hint = names[position % len(names)] + (
                "" if position < len(names) else str(position)
            )
            indices.append(Expr.atom(loop.index))
            self.builder.insertion_point = InsertPoint.at_end(loop.body.block)
        yield tuple(indices)
        self.builder.insertion_point = outside

    @contextmanager
    def when(self, condition: Scalar) -> Generator[None]:
        """A branch that runs where the condition holds."""
        outside = self.builder.insertion_point
        branch = IfOp.build(operands=[condition.value], regions=[[Block()], [Block()]])
        self.builder.insert(branch)
        self.builder.insertion_point = InsertPoint.at_end(branch.then.block)
        yield
        self.builder.insertion_point = outside

    def load(self, source: SSAValue, index: Index) -> Scalar:
        """The element at the index, in the type in which it is computed (f16 and bf16 as f32)."""
        element = buffer_type_of(source).element
        if source in self._literals:
            return self.constant(self._literals[source], element)
        if source in self._views:
            viewed, moved = self._views[source]
            return self.load(viewed, moved([Expr.of(expr) for expr in index]))
        op = self.builder.insert(LoadOp.of(source, [self._known(expr) for expr in index]))
        return Scalar(self.builder, op.result, element).cast(compute_type(element))

    def store(self, target: SSAValue, index: Index, value: Scalar) -> None:
        """Writes an element, rounded to the buffer's element type."""
        element = buffer_type_of(target).element
        assert value.element in (element, compute_type(element)), (
            f"a store of {value.element} needs a cast to {element}"
        )
        self.builder.insert(
            StoreOp.of(value.cast(element).value, target, [self._known(expr) for expr in index])
        )

    def constant(self, number: Number, element: Attribute) -> Scalar:
        """A constant, in the type in which values of the element type are computed."""
        return constant(self.builder, number, compute_type(element))

    def index(self, expr: ExprLike, element: Attribute | None = None) -> Scalar:
        """The value of an integer expression, of index type or cast to an
        integer or float element type.
        """
        op = self.builder.insert(IndexOp.of(self._known(expr)))
        value = Scalar(self.builder, op.result, INDEX)
        return value if element is None else value.cast(element)

    def subscript(self, value: Scalar) -> Expr:
        """An integer value as a subscript: a data-dependent access."""
        return Expr.atom(value.cast(INDEX).value)

    def literal(self, number: Number, shape: Sequence[ExprLike], element: Attribute) -> SSAValue:
        """A stand-in for a buffer whose every element is one number:
        loads of it become that constant.
        """
        value = AllocOp.of(buffer(shape, element)).result
        self._literals[value] = number
        return value

    def view(
        self, source: SSAValue, index: IndexMap, shape: Sequence[ExprLike], element: Attribute
    ) -> SSAValue:
        """A stand-in for a buffer with elements of another one: a load of it loads from that, at
        what its index is there.
        """
        value = AllocOp.of(buffer(shape, element)).result
        self._views[value] = source, index
        return value

    def is_view(self, buffer: SSAValue) -> bool:
        """Whether a buffer is such a stand-in."""
        return buffer in self._views

    def temporary(self, shape: Sequence[ExprLike], element: Attribute, name: str = "t") -> SSAValue:
        """A buffer that lives for this kernel, shared by all of its loops; it is allocated in front
        of the branches that are being written.
        """
        op = AllocOp.of(buffer(shape, element))
        point = self.builder.insertion_point
        while isinstance(branch := point.block.parent_op(), IfOp):
            point = InsertPoint.before(branch)
        Builder(point).insert(op)
        op.result.name_hint = name
        return op.result

    def scratch(self, shape: Sequence[int], element: Attribute, name: str = "s") -> SSAValue:
        """A small buffer of constant size that belongs to the surrounding iteration."""
        op = self.builder.insert(AllocOp.of(buffer(shape, element), "scratch"))
        op.result.name_hint = name
        return op.result
