"""Random graphs that a rewrite may fit, made of the expression that it looks for."""

from collections.abc import Sequence
from random import Random

import ml_dtypes
import numpy as np
from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import VarOperandDef
from xdsl.rewriter import InsertPoint

from tests.compiler.graph.rewrite_shapes import OPTIONAL, PLANS, beside, elementwise
from weft.compiler.graph.simplify.rewrites.expressions import Expression, Operator, Rewrite, Value
from weft.dialects.expr import Symbol
from weft.dialects.graph import OPS, OPS_BY_NAME, ConstantOp, GraphOp
from weft.dialects.graph.core.accumulate import lowest
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I32,
    I64,
    INTEGERS,
    UI8,
    tensor,
    type_of,
)
from weft.dialects.graph.ops.arithmetic import ModOp
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.comparison import BitShiftOp, WhereOp
from weft.dialects.graph.ops.exponential import PowOp
from weft.dialects.graph.reindexing.gather import GatherOp
from weft.dialects.weights import WeightStore

INDEX = I64
ELEMENTS = (F32, F32, F64, F16, BF16, I32, I8, UI8, BOOL)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf"), float("nan"))


class Instance(Struct):
    """A function of the arguments `arrays`."""

    module: ModuleOp
    weights: WeightStore
    arrays: list[np.ndarray]

    @property
    def block(self) -> Block:
        """Its operators."""
        function = self.module.body.block.first_op
        assert isinstance(function, FuncOp)
        return function.body.block


def instance(rewrite: Rewrite, random: Random) -> Instance:
    """What a rewrite may fit. Raises WeftError where what was drawn does not go together."""
    is_power = any(PowOp in each.classes for each in operators(rewrite.before))
    possible = [
        each for each in ELEMENTS if each in rewrite.elements and _fits(rewrite.before, each)
    ]
    # The reference of a power is off by a rounding, which cannot be told in f64.
    element = random.choice([each for each in possible if not (is_power and each == F64)])
    maker = _Maker(random, element, rewrite.exact, random.random() < 0.3)
    dims = tuple(random.randint(1, 3) for _ in range(random.choice((1, 2, 2, 3, 4))))
    result = maker.value(rewrite.before, dims, element)
    maker.block.add_op(ReturnOp(result))
    types = [argument.type for argument in maker.block.args], [result.type]
    module = ModuleOp([FuncOp("main", types, Region(maker.block))])
    return Instance(module, maker.weights, maker.arrays)


def operators(expression: Expression) -> list[Operator]:
    """The operators of an expression."""
    if not isinstance(expression, Operator):
        return []
    return [expression, *(op for each in expression.operands for op in operators(each))]


def _fits(expression: Expression, element: Attribute) -> bool:
    """Whether the operators of an expression take the element type."""
    if not isinstance(expression, Operator):
        return True
    return any(
        _takes(op_class, element)
        and all(
            _fits(each, _operand_element(op_class, number, element))
            for number, each in enumerate(expression.operands)
        )
        for op_class in expression.classes
    )


def _takes(op_class: type[GraphOp], element: Attribute) -> bool:
    return element in getattr(op_class, "ELEMENTS", (*FLOATS, *INTEGERS))


def _operand_element(op_class: type[GraphOp], number: int, element: Attribute) -> Attribute:
    return {(WhereOp, 0): BOOL, (GatherOp, 1): INDEX, (CastOp, 0): I8}.get(
        (op_class, number), element
    )


class _Maker(Struct):
    random: Random
    element: Attribute
    is_exact: bool
    is_symbolic: bool
    block: Block = field(default_factory=Block)
    weights: WeightStore = field(default_factory=WeightStore)
    arrays: list[np.ndarray] = field(default_factory=list)
    known: dict[str, SSAValue] = field(default_factory=dict)
    made: dict[str, SSAValue] = field(default_factory=dict)
    """Operators by their names."""

    @property
    def b(self) -> GraphBuilder:
        return GraphBuilder(InsertPoint.at_end(self.block), OPS_BY_NAME)

    def value(self, expression: Expression, shape: Sequence[int], element: Attribute) -> SSAValue:
        """What the expression takes, of about that shape."""
        if isinstance(expression, Operator) and not expression.name:
            return self._operator(expression, shape, element)
        if isinstance(expression, Operator):
            if expression.name not in self.made:
                self.made[expression.name] = self._operator(expression, shape, element)
            return self.made[expression.name]
        if not isinstance(expression, Value):
            number = np.full(self.random.choice(((), (1,), shape)), expression)
            return self.b.constant_of(number, element)
        if expression.name not in self.known:
            make = self._constant if expression.is_constant else self._argument
            self.known[expression.name] = make(shape, element)
        return self.known[expression.name]

    def _argument(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """An argument of the function, or its absolute value; equal sizes may have one name."""
        self.arrays.append(self._array(shape, element, special=0.4))
        dims = [f"d{size}" if self.is_symbolic and size > 1 else size for size in shape]
        value = self.block.insert_arg(tensor(dims, element), len(self.block.args))
        return self.b.abs(value) if element != BOOL and self.random.random() < 0.3 else value

    def _constant(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """Elements with something special, all of one number, or indices at one distance."""
        array = self._array(shape, element, special=0.3 if self.is_exact else 0.0)
        if element == INDEX != self.element:
            first, step = self.random.randrange(2), self.random.choice((1, 1, 2, -1))
            array = np.arange(array.size).reshape(array.shape) * step + first
        elif element != BOOL and self.random.random() < 0.6:
            array = np.full(shape, self.random.choice((0, 1, 3, 4))).astype(array.dtype)
        return self.b.builder.insert(ConstantOp.stored("c", array, self.weights)).results[0]

    def _array(self, shape: Sequence[int], element: Attribute, *, special: float) -> np.ndarray:
        """Small numbers, and now and then one that identities fail on; where rounding may differ,
        none that is next to the greatest or the least.
        """
        pick, dtype = np.random.default_rng(self.random.randrange(1 << 30)), numpy_dtype(element)
        if element == BOOL:
            return pick.integers(0, 2, shape).astype(bool)
        if element in FLOATS:
            numbers, limits = pick.standard_normal(shape).astype(dtype), ml_dtypes.finfo(dtype)
            extremes = (limits.max, limits.tiny, limits.smallest_subnormal, -limits.max)
            pool = np.array([*SPECIAL, *(extremes if self.is_exact else ())], np.float64)
        else:
            numbers, limits = pick.integers(0, 9, shape).astype(dtype), np.iinfo(dtype)
            pool = np.array([limits.min, limits.max, 0, 1, 2], dtype)
        return np.where(
            pick.random(shape) < special, pick.choice(pool.astype(dtype), shape), numbers
        )

    def _operator(self, expression: Operator, shape: Sequence[int], element: Attribute) -> SSAValue:
        fitting = [op for op in OPS if issubclass(op, expression.classes) and op not in UNUSED]
        op_class = self.random.choice([op for op in fitting if _takes(op, element)])
        name = op_class.name.removeprefix("graph.")
        shapes, attributes = PLANS.get(name, elementwise)(self.random, shape)
        operands: list[SSAValue] = []
        for number, each in enumerate(self._given(expression, _required(op_class))):
            wanted = shapes[min(number, len(shapes) - 1)]
            near = wanted or (_extents(operands[0]) if operands else ())
            near = beside(self.random, near) if wanted is None else near
            operands.append(self.value(each, near, _operand_element(op_class, number, element)))
        options = attributes(*map(_extents, operands))
        extra = [self._optional(name, operands) for _ in range(OPTIONAL.get(name, 0))]
        op = op_class.of(*operands, *extra, **(options | dict(expression.attributes)))
        return self.random.choice(self.b.builder.insert(op).results)

    def _given(self, expression: Operator, count: int) -> list[Expression]:
        """The operands of an expression, and any others that the operator has."""
        stem = f"other{len(self.known)}"
        if expression.operands and not expression.is_anywhere:
            more = range(len(expression.operands), count)
            return [*expression.operands, *(Value(f"{stem}.{n}", True) for n in more)]
        before, behind = self.random.randrange(2), self.random.randrange(1, 3)
        others = [Value(f"{stem}.{number}") for number in range(before + behind)]
        return [*others[:before], *expression.operands, *others[before:]]

    def _optional(self, name: str, operands: Sequence[SSAValue]) -> SSAValue | None:
        """An operand that may be absent: a number for clip and pad, else a bias."""
        if self.random.random() < 0.4:
            return None
        if name in ("clip", "pad"):
            numbers = (0, 1, 5) if name == "clip" else (0, 1, lowest(self.element))
            return self.b.constant_of(self.random.choice(numbers), self.element)
        weights = _extents(operands[1])
        return self._constant((weights[0 if name == "conv" else 1],), self.element)


def _extents(value: SSAValue) -> tuple[int, ...]:
    """The sizes of a value, whose names tell what they are."""
    return tuple(dim.evaluate(SIZES) for dim in type_of(value).shape)


def _required(op_class: type[GraphOp]) -> int:
    """How many operands have to be there."""
    fields = [each for _, each in op_class.get_irdl_definition().operands]
    return sum(not isinstance(each, VarOperandDef) for each in fields)


SIZES = {Symbol(f"d{size}"): size for size in range(2, 12)}
UNUSED = (ModOp, BitShiftOp)
"""Operators with attributes that no rewrite is about."""
