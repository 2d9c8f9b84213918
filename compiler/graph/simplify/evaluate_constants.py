"""What graph passes compute with constants: operators on them are written into the graph as any
other, and settled at once to constants again.

    filter = b.mul(filter, factor)                       # both are constants
    (filter,) = evaluate_constants([filter], ["conv.filter"], weights)

Of tensors whose values may be replaced later the weight store remembers the operators, as a recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, SSAValue

from weft.compiler.graph.match import erase_unused
from weft.dialects.graph import ConstantOp, GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import SEGMENTS
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.reindexing.constant import may_be_replaced
from weft.dialects.weights import Array, Properties, Recipe, WeightStore, release_pages


def constant_of(value: SSAValue, weights: WeightStore) -> ConstantOp | None:
    """The constant that a value is, if its elements are at hand."""
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    at_hand = owner.literal is not None or (owner.key is not None and owner.key.data in weights)
    return owner if at_hand else None


def replace_constants(
    uses: Iterable[tuple[GraphOp, int]],
    weights: WeightStore,
    change: Callable[[ConstantOp, WeightStore], ConstantOp | None],
) -> None:
    """Has operators read, at positions of their operands, what is made of the constants there, each
    once; what nobody reads any more goes. None leaves a constant as it is.
    """
    made: dict[ConstantOp, ConstantOp | None] = {}
    for op, at in uses:
        constant = constant_of(op.operands[at], weights)
        if constant is None:
            continue
        if constant not in made:
            made[constant] = change(constant, weights)
        changed = made[constant]
        if changed is not None:
            op.operands[at] = changed.result
    for constant in made:
        erase_unused(constant)


class Evaluated(Struct, frozen=True):
    """A result of an operator on constants: its elements, and how they come out of the tensors of
    the store, None where these stay what they are.
    """

    array: Array
    recipe: Recipe | None

    def constant(
        self, name: str, weights: WeightStore, location: LocationAttr | None
    ) -> ConstantOp:
        """It as a constant, not in the graph yet."""
        if self.recipe is None:
            return ConstantOp.computed(name, self.array, weights, location)
        key = weights.derive(name, self.array, self.recipe)
        return ConstantOp.keyed(key, self.array, location)


def evaluate(op: GraphOp, weights: WeightStore) -> list[Evaluated] | None:
    """The results of an operator whose operands are all constants. None where a result would decide
    how the graph looks, while operands may be replaced.
    """
    return _Evaluation(weights).results(op)


def evaluate_constants(
    values: Sequence[SSAValue], names: Sequence[str], weights: WeightStore
) -> list[SSAValue]:
    """Replaces values that operators in front of them compute of constants by constants of these
    names, and removes the operators.
    """
    evaluation = _Evaluation(weights)
    settled: list[SSAValue] = []
    for value, name in zip(values, names, strict=True):
        op = value.owner
        assert isinstance(op, GraphOp), "what is settled is computed in the graph"
        if isinstance(op, ConstantOp):
            settled.append(value)
            continue
        block = op.parent
        assert block is not None, "what is settled stands in a block"
        constant = evaluation.of(value).constant(name, weights, op.location)
        block.insert_op_before(constant, op)
        value.replace_all_uses_with(constant.result)
        settled.append(constant.result)
    for value in values:
        if isinstance(value.owner, GraphOp) and value not in settled:
            erase_unused(value.owner, [each.owner for each in settled])
    return settled


class _Evaluation(Struct):
    """Operators that are evaluated once each."""

    weights: WeightStore
    found: dict[SSAValue, Evaluated] = field(default_factory=dict[SSAValue, Evaluated])

    def of(self, value: SSAValue) -> Evaluated:
        """The elements of a value and their recipe."""
        if value not in self.found:
            op = value.owner
            assert isinstance(op, GraphOp), "constants are computed of constants"
            results = self.results(op)
            assert results is not None, "what a pass computes is no structure"
            self.found |= dict(zip(op.results, results, strict=True))
        return self.found[value]

    def results(self, op: GraphOp) -> list[Evaluated] | None:
        """What the operator returns."""
        if isinstance(op, ConstantOp):
            return [Evaluated(op.array(self.weights), None)]
        self.weights.budget.spend_bytes(result_bytes(op), op.name)
        given = [self.of(operand).array for operand in op.operands]
        arrays = op.reference(*given)
        for each in given:
            release_pages(each)
        views = (each for each in arrays if any(np.may_share_memory(each, one) for one in given))
        self.weights.budget.return_bytes(sum(each.nbytes for each in views))
        if not any(self._varies(operand) for operand in op.operands):
            return [Evaluated(array, None) for array in arrays]
        if not all(may_be_replaced(type_of(result).element) for result in op.results):
            return None
        operands = tuple(
            None if operand is None else self._ingredient(operand) for operand in op.slots()
        )
        properties = properties_of(op.properties)
        return [
            Evaluated(array, Recipe(type(op), properties, operands, number))
            for number, array in enumerate(arrays)
        ]

    def _varies(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return owner.key is not None and self.weights.varies(owner.key.data)
        return self.of(value).recipe is not None

    def _ingredient(self, value: SSAValue) -> Recipe | Properties:
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return properties_of(owner.properties)
        assert isinstance(owner, GraphOp), "constants are computed of constants"
        recipe = self.of(value).recipe
        if recipe is not None:
            return recipe
        # Computed of constants that stay: its elements are an ingredient.
        constant = self.of(value).constant(owner.name, self.weights, owner.location)
        return properties_of(constant.properties)


def result_bytes(op: GraphOp) -> int:
    """The bytes of the results of an operator; those of unknown sizes aside."""
    tensor_types = [type_of(result) for result in op.results]
    return sum(
        (each.size.constant or 0) * numpy_dtype(each.element).itemsize for each in tensor_types
    )


def properties_of(properties: Mapping[str, Attribute]) -> Properties:
    """The properties of an operator, those aside that say which operands there are."""
    return tuple(sorted((k, v) for k, v in properties.items() if k != SEGMENTS))
