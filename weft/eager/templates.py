"""Graphs of eager kernels: an operator on its operands, and the derivative of such a graph, which
is a graph of the same kind and so may be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Block, SSAValue

    from weft.tracing.traced import Recording

Attributes = tuple[tuple[str, Any], ...]


class Operator(Struct, frozen=True, eq=False):
    """One graph operator: `operands` tensors to its results. There is one object for each, which
    `operator_of` gives, so that kernels are found by its identity.
    """

    name: str
    attributes: Attributes
    operands: int

    @property
    def text(self) -> str:
        """What a cache knows it by."""
        return f"{self.name} {self.attributes} {self.operands}"

    @property
    def named(self) -> Mapping[str, Any]:
        """The attributes by name."""
        return dict(self.attributes)

    def build(self, recording: Recording, operands: Sequence[SSAValue]) -> list[SSAValue]:
        """Appends the operator; the values of its results."""
        from weft.tracing.traced import Traced

        given: dict[str, Any] = {
            key: list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
            for key, value in self.attributes
        }
        traced = [Traced(recording, operand) for operand in operands]
        return [each.value for each in recording.results(self.name, *traced, **given)]


class Composite(Struct, frozen=True, eq=False):
    """A function of a few operators on traced tensors. There is one object for each."""

    function: Callable[..., Any]
    attributes: Attributes
    operands: int

    @property
    def name(self) -> str:
        """The function's."""
        return self.function.__qualname__.lstrip("_")

    @property
    def text(self) -> str:
        """What a cache knows it by."""
        return f"{self.function.__module__}.{self.name} {self.attributes} {self.operands}"

    @property
    def named(self) -> Mapping[str, Any]:
        """The attributes by name."""
        return dict(self.attributes)

    def build(self, recording: Recording, operands: Sequence[SSAValue]) -> list[SSAValue]:
        """Appends the function's operators; the values of its results."""
        from weft.tracing.traced import Traced

        traced = [Traced(recording, operand) for operand in operands]
        found = self.function(*traced, **self.named)
        several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        return [each.value for each in several]


class Program(Struct, frozen=True, eq=False):
    """A function of the graph, `main`, for operands of just its sizes. There is one object for each
    text.
    """

    main: FuncOp
    text: str
    operands: int
    name: str = "program"

    @property
    def named(self) -> Mapping[str, Any]:
        """No attributes."""
        return {}

    def build(self, recording: Recording, operands: Sequence[SSAValue]) -> list[SSAValue]:
        """Appends the function's operators; the values of its results."""
        block = self.main.body.block
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
        *ops, returned = block.ops
        recording.block.add_ops([op.clone(value_mapper=values) for op in ops])
        return [values[each] for each in returned.operands]


class Derivative(Struct, frozen=True):
    """The cotangents of the `wanted` operands of a graph from all its operands, its results, and
    the cotangents of those results that `arriving` names.
    """

    of: Operator | Composite | Program | Derivative
    results: int
    arriving: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def operands(self) -> int:
        """How many tensors it takes."""
        return self.of.operands + self.results + len(self.arriving)

    @property
    def text(self) -> str:
        """What a cache knows it by."""
        return f"derivative of ({self.of.text}) {self.results} {self.arriving} {self.wanted}"

    def build(self, recording: Recording, operands: Sequence[SSAValue]) -> list[SSAValue]:
        """Appends the graph and its derivative; what the graph gives is taken from the operands, so
        that it is not computed twice.
        """
        from weft.compiler.graph.differentiate.cotangents import cotangents

        count = self.of.operands
        inputs, results = operands[:count], operands[count : count + self.results]
        values = self.of.build(recording, inputs)
        found = cotangents(
            recording.builder(),
            [values[position] for position in self.arriving],
            operands[count + self.results :],
            [inputs[position] for position in self.wanted],
        )
        given = dict(zip(values, results, strict=True))
        for value, array in given.items():
            if value not in operands:
                value.replace_all_uses_with(array)
        return [given.get(each, each) for each in found]


Template = Operator | Composite | Program | Derivative


def frozen(attributes: Mapping[str, Any]) -> Attributes:
    """Attributes as a key of a dictionary."""
    return tuple(
        (key, tuple(cast("list[Any]", value)) if isinstance(value, list) else value)
        for key, value in attributes.items()
    )


_COMPOSITES: Final[dict[tuple[Any, ...], Composite]] = {}
_OPERATORS: Final[dict[tuple[Any, ...], Operator]] = {}
_PROGRAMS: Final[dict[str, Program]] = {}


def operator_of(name: str, attributes: Attributes, operands: int) -> Operator:
    """The operator of that name with these attributes on so many tensors."""
    key = name, attributes, operands
    found = _OPERATORS.get(key)
    return _OPERATORS.setdefault(key, Operator(*key)) if found is None else found


def composite_of(function: Callable[..., Any], attributes: Attributes, operands: int) -> Composite:
    """The composite of that function with these attributes on so many tensors."""
    key = function, attributes, operands
    found = _COMPOSITES.get(key)
    return _COMPOSITES.setdefault(key, Composite(*key)) if found is None else found


def program_of(block: Block, results: Sequence[SSAValue]) -> Program:
    """The program of a block that gives these values; the block goes into it."""
    from xdsl.dialects.func import FuncOp, ReturnOp
    from xdsl.ir import Region

    block.add_op(ReturnOp(*results))
    types = [each.type for each in block.args], [each.type for each in results]
    main = FuncOp("main", types, Region(block))
    text, operands = str(main), len(block.args)
    found = _PROGRAMS.get(text)
    return _PROGRAMS.setdefault(text, Program(main, text, operands)) if found is None else found
