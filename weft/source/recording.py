"""The graph that a program becomes: it knows the statement that runs, and the ranges of sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr, Symbol
from weft.dialects.graph import BindSizesOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64, TensorType, tensor, type_of
from weft.dialects.weights import Array as NumpyArray
from weft.source.values import ELEMENTS, Array, Number
from weft.tracing.traced import Recording, Traced


def forget_undone(block: Block) -> None:
    """Drops pieces of the program that were read and undone, which are in no block any more but
    would count as readers of values.
    """
    kept = set(block.walk())
    inner = [each for op in kept for region in op.regions for each in region.blocks]
    values = [value for each in (block, *inner) for value in each.args]
    values += [value for op in kept for value in op.results]
    readers = {use.operation for value in values for use in value.uses}
    for reader in readers - kept:
        reader.drop_all_references()


@dataclass
class SourceRecording(Recording):
    """A recording whose tensors are `Array`s, and whose lines those of the program that is read."""

    line: Callable[[], str] = lambda: "?"
    read: Callable[..., Any] = lambda function, arguments, named: function(*arguments, **named)
    """Calls a function of the program's."""
    index: Callable[..., Array] = field(kw_only=True)
    """Reads the part of an array that an index, a tuple, names."""
    assign: Callable[[Any, Any, Any], None] = lambda array, index, value: None
    """Changes the part of an array that an index names."""
    make: Callable[[Any], Any] = lambda made: made
    """Is told of every new array."""
    enclosing: Callable[[], AbstractContextManager[None]] = nullcontext
    """Is entered where a function of weft's builds a region of the graph."""
    counts: dict[str, Expr] = field(default_factory=dict[str, Expr])
    """How many rounds the loop has whose round is that size."""
    taken: set[str] = field(default_factory=set[str])
    """Names of sizes."""

    def closed(self) -> AbstractContextManager[None]:
        return self.enclosing()

    def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self.read(function, arguments, named)

    def builder(self) -> GraphBuilder:
        line = NameLoc(StringAttr(self.line()), NoneAttr())
        return GraphBuilder(InsertPoint.at_end(self.block), self.ops, line)

    def argument(self, tensor_type: TensorType, name: str) -> Array:
        for dim in tensor_type.shape:
            self.taken.update(dim.symbols())
        value = self.block.insert_arg(tensor_type, len(self.block.args))
        value.name_hint = name
        return Array(self, value, "the caller's")

    def constant(self, array: NumpyArray) -> Any:
        found = super().constant(array)
        rows = array.flags.c_contiguous
        return self.array(found.value, rows) if isinstance(found, Traced) else found

    def results(self, name: str, *operands: Traced, **attributes: Any) -> list[Traced]:
        return [self.array(each.value) for each in super().results(name, *operands, **attributes)]

    def array(self, value: SSAValue, rows: bool = False) -> Array:
        """A value of the graph as an array of its own."""
        return self.make(Array(self, value, rows=rows))

    def scalar(self, python_type: type, number: float | bool) -> SSAValue:
        """A number of Python as a scalar of the graph."""
        return self.builder().constant_of(np.asarray(number), ELEMENTS[python_type])

    def number_as(self, value: Number | float, python_type: type) -> Array:
        """A number of Python, converted to another kind, as a tensor."""
        if isinstance(value, Number):
            return self.array(self.cast(value.value, tensor([], ELEMENTS[python_type])))
        return self.array(self.scalar(python_type, python_type(value)))

    def number(self, expr: Expr) -> int | Number:
        """An expression over sizes as an int."""
        constant = expr.constant
        return Number(self, int, expr=expr) if constant is None else constant

    def fresh(self, stem: str) -> str:
        """A name that no size has."""
        stem = re.sub(r"\W", "_", stem) or "size"
        if re.fullmatch(r"rounds?\d+", stem):  # which loops as functions take
            stem += "_"
        names = [stem, *(f"{stem}_{n}" for n in range(1, len(self.taken) + 1))]
        name = next(each for each in names if each not in self.taken)
        self.taken.add(name)
        return name

    def dims(self, expr: Expr) -> Array:
        return Array(self, super().dims(expr).value)

    def extent(self, value: Any) -> int | Expr:
        """A size; one that only a call knows is found by the program."""
        return self.bound(value, "size") if isinstance(value, Traced) else super().extent(value)

    def bound(self, value: Number | Traced, stem: str) -> Expr:
        """An integer as a size of at least 0, which the program finds."""
        if isinstance(value, Number) and value.expr is not None:
            return value.expr
        if value.ndim:
            raise WeftError(f"{self.line()}: a size requires one integer, got {value.type}")
        name = self.fresh(stem)
        b = self.builder()
        scalar = value.astype(np.int64).value
        least = b.max(scalar, b.constant_of(0, I64))
        b.builder.insert(BindSizesOp.of(least, [name], b.location))
        return Expr.of(name)

    def expression(self, value: Any) -> Expr | None:
        return value.expr if isinstance(value, Number) else super().expression(value)

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Operators go into that block."""
        around, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = around

    def at_least(self, expr: Expr, bound: int) -> bool:
        """Whether the value is that much at least, whatever rounds and sizes are."""
        expr = expr - bound
        for name, count in reversed(self.counts.items()):
            atom = Symbol(name)
            if name not in expr.symbols():
                continue
            if not expr.is_affine_in(atom):
                return False
            slope = expr.coefficient(atom).constant
            if slope is None:
                return False
            expr = expr.substitute({atom: Expr.of(0) if slope > 0 else count - 1})
        return super().at_least(expr, 0)

    def cast(self, value: SSAValue, wanted: TensorType) -> SSAValue:
        """The value with the element type of another type."""
        if type_of(value).element == wanted.element:
            return value
        return self.builder().cast(value, to=wanted.element)

    def zeros(self, tensor_type: TensorType) -> SSAValue:
        """Zeros of a type: what stands for a value that is never looked at."""
        b = self.builder()
        dims = [dim if dim.constant is not None else Expr.of(0) for dim in tensor_type.shape]
        return b.filled(0, Block(arg_types=[tensor(dims, tensor_type.element)]).args[0])
