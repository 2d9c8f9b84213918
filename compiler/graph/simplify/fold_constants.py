"""graph -> graph: what one operator decides alone,
and the values of operators on constants.

In one sweep from the inputs on: an operator whose integer result is known as expressions over the
sizes becomes `graph.dims` (or a constant), one with constant operands or without elements becomes
its result, and any other is asked for its own `fold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.simplify.evaluate_constants import evaluate, result_bytes
from weft.compiler.graph.simplify.fold_control import UnrollingBudget, fold_branch, fold_loop
from weft.compiler.graph.simplify.rewrites.stored_weights import stays_stored
from weft.compiler.graph.widen_halves import extends_factor, multiplies_bf16
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.dialects.context import note, weights_of
from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr
from weft.dialects.graph import ConstantOp, DimsOp, ForOp, GraphOp, ShardOp
from weft.dialects.graph.core.dim_values import DimValues
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import I64, TensorType, type_of
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.reindexing.gather import IndexedOp
from weft.dialects.loop.equal_sizes import equalities_around
from weft.dialects.module_attributes import code_options
from weft.dialects.weights import WeightStore


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Folds every graph function of the module, within a budget that keeps it from exploding.

    A result of more than `result_bytes` may have `growth` times the bytes of its operands, that of
    a conversion as many; all together have at most `total_bytes` more than their operands, or as
    many as the constants of the graph. A loop is unrolled to at most `loop_operators`, all loops to
    `total_operators`, constants aside. What the budget forbids stays in the graph, and is noted in
    the context.
    """

    name = "weft-fold-constants"
    result_bytes: int = 1 << 20
    growth: int = 2
    total_bytes: int = 1 << 26
    loop_operators: int = 32
    total_operators: int = 4096

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        budget, strict = self.budget(weights), code_options(op).strict_fp
        for function in op.ops:
            if isinstance(function, FuncOp):
                fold_constants(function, weights, budget, target_of(op), strict=strict)
        for text in budget.refusals():
            note(ctx, text)

    def budget(self, weights: WeightStore) -> FoldingBudget:
        """What a graph with these weights may become."""
        total = max(self.total_bytes, sum(weights[key].nbytes for key in weights))
        unrolling = UnrollingBudget(self.loop_operators, self.total_operators)
        return FoldingBudget(self.result_bytes, self.growth, total, unrolling)


class FoldingBudget(Struct):
    """What folding may still make larger, and what it would have."""

    result_bytes: int
    growth: int
    bytes_left: int
    unrolling: UnrollingBudget
    kept: list[int] = msgspec.field(default_factory=list[int])

    def allows(self, result: int, operands: int, growth: int) -> bool:
        """Whether a result of so many bytes takes the place of operands; if so, it counts."""
        added = max(0, result - operands)
        allowed = result <= max(self.result_bytes, growth * operands)
        if not allowed or added > self.bytes_left:
            self.kept.append(result)
            return False
        self.bytes_left -= added
        return True

    def refusals(self) -> list[str]:
        """What stays in the graph because of the budget, in words."""
        texts: list[str] = []
        if self.kept:
            count, most = len(self.kept), max(self.kept)
            texts.append(f"{count} known results not folded, the largest of {most:,} bytes")
        if self.unrolling.kept:
            count, most = len(self.unrolling.kept), max(self.unrolling.kept)
            texts.append(f"{count} loops not unrolled, the longest to {most:,} operators")
        return texts


def fold_constants(
    function: FuncOp,
    weights: WeightStore,
    budget: FoldingBudget,
    target: Target,
    *,
    strict: bool = False,
) -> None:
    """Folds the operators of one function; what they replace is left for dead-code elimination.
    Factors that the target, or a product, multiplies as they are stay so.
    """
    loops = [op for op in function.body.walk() if isinstance(op, ForOp)]
    for loop in reversed(loops):  # inner ones first
        fold_loop(loop, budget.unrolling)
    folder, keeps_factors = Folder(weights, DimValues(), budget), multiplies_bf16(target)
    for op in list(function.body.walk()):
        if isinstance(op, BranchOp) and op.parent is not None:
            fold_branch(op, function, weights)
        elif not isinstance(op, GraphOp) or op.parent is None:
            continue
        elif not (keeps_factors and extends_factor(op)) and not stays_stored(op, strict=strict):
            folder.fold(op)


class Folder(Struct):
    """Folds one operator after the other."""

    weights: WeightStore
    dim_values: DimValues
    budget: FoldingBudget

    def fold(self, op: GraphOp) -> None:
        """Replaces the operator as long as there is something simpler; not what says how a
        constant is cut. Raises TypeInferenceError for known indices that are outside of their axis.
        """
        current: GraphOp | None = op
        while current is not None and not isinstance(current, (ConstantOp, DimsOp, ShardOp)):
            current = self.step(current)

    def _require_inside(self, op: IndexedOp, indices: ConstantOp) -> None:
        try:
            op.require_inside(indices.array(self.weights))
        except TypeInferenceError as error:
            where = f", at {op.onnx_name}" if op.onnx_name else ""
            raise TypeInferenceError(f"{error}{where}") from error

    def step(self, op: GraphOp) -> GraphOp | None:
        """Replaces the operator once; returns the new one if that is worth another look."""
        if isinstance(op, IndexedOp) and isinstance(op.indices.owner, ConstantOp):
            self._require_inside(op, op.indices.owner)
        replacement = self._as_empty(op) or self._as_dims(op) or self._as_constants(op)
        if replacement is not None:
            replace(op, [new.results[0] for new in replacement], replacement)
            return None
        folded = op.fold()
        if folded is None:
            return None
        if loses_assumptions([op], [folded] if isinstance(folded, GraphOp) else []):
            return None
        if isinstance(folded, GraphOp):
            replace(op, list(folded.results), [folded])
            return folded
        replace(op, folded, [])
        return None

    def _as_empty(self, op: GraphOp) -> Sequence[GraphOp] | None:
        """Constants for results that have no elements, whatever the operands are."""
        if not all(0 in (type_of(result).static_shape or ()) for result in op.results):
            return None
        return [_empty(type_of(result), op) for result in op.results]

    def _as_dims(self, op: GraphOp) -> Sequence[GraphOp] | None:
        if len(op.results) != 1 or op.result_type.element != I64:
            return None
        values = self.dim_values.of(op.results[0])
        if values is None or op.result_type.rank > 1:
            return None
        return [dims_op(values, op.result_type, op)]

    def _as_constants(self, op: GraphOp) -> Sequence[GraphOp] | None:
        owners = [operand.owner for operand in op.operands]
        constants = [owner for owner in owners if isinstance(owner, ConstantOp)]
        if not owners or len(constants) < len(owners):
            return None
        unknown = any(type_of(result).static_shape is None for result in op.results)
        if unknown or op.mentions_sizes:
            return None
        held = sum(map(self._constant_bytes, dict.fromkeys(constants)))
        # Products read narrow weights as they are, which takes less memory and time.
        growth = 1 if isinstance(op, CastOp) else self.budget.growth
        if not self.budget.allows(result_bytes(op), held, growth):
            return None
        results = evaluate(op, self.weights)
        if results is None:
            return None
        return [result.constant(_name(op), self.weights, op.location) for result in results]

    def _constant_bytes(self, op: ConstantOp) -> int:
        """The memory that a constant takes; equal elements of an inline one are one."""
        if op.literal is not None:
            return len(op.literal.data) * numpy_dtype(op.element).itemsize
        return op.array(self.weights).nbytes


def loses_assumptions(old: Sequence[GraphOp], new: Sequence[GraphOp]) -> bool:
    """Whether sizes that operators take to be equal would not be checked any more, with others in
    their place.
    """
    taken = {pair for op in old if not op.is_static for pair in op.assumptions()}
    taken -= {pair for op in new for pair in op.assumptions()} if taken else set()
    return bool(taken) and not all(map(equalities_around(old[0]).hold, taken))


def dims_op(values: Sequence[Expr], tensor_type: TensorType, op: Operation) -> GraphOp:
    """The constant or `graph.dims` of those elements."""
    scalar = UnitAttr() if tensor_type.rank == 0 else None
    constants = [value.constant for value in values]
    numbers = [number for number in constants if number is not None]
    if len(numbers) == len(values):
        return ConstantOp.small(
            np.array(numbers, np.int64).reshape(tensor_type.static_shape or ()), I64, op.location
        )
    return DimsOp.of(values=list(values), scalar=scalar, location=op.location)


def _empty(tensor_type: TensorType, op: Operation) -> ConstantOp:
    array = np.zeros(tensor_type.static_shape or (), numpy_dtype(tensor_type.element))
    return ConstantOp.small(array, tensor_type.element, op.location)


def _name(op: GraphOp) -> str:
    return op.onnx_name or op.name.removeprefix("graph.")


def replace(op: GraphOp, values: Sequence[SSAValue], inserted: Sequence[GraphOp]) -> None:
    """Puts values in the place of an operator's results, and operators in its own."""
    block = op.parent
    assert block is not None, "an operator that is folded stands in a block"
    block.insert_ops_before(list(inserted), op)
    for old, new in zip(op.results, values, strict=True):
        if new.name_hint is None:
            new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
