"""graph -> graph: operators that compute the same are computed once,
and those that nobody needs not at all.
"""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.simplify.drop_results import drop_dead_results
from weft.compiler.graph.simplify.fold_control import replace_sizes
from weft.dialects.expr import Expr
from weft.dialects.graph import (
    BindSizesOp,
    CallOp,
    CheckpointOp,
    CollectiveOp,
    ControlOp,
    FusedOp,
    GraphOp,
    NativeCallOp,
)
from weft.dialects.graph.core.types import ShapeAttr, TensorType
from weft.dialects.graph.regions.control import defined_sizes, size_atoms
from weft.dialects.graph.regions.effects import has_effects


class CseDcePass(ModulePass):
    """Merges equal operators and drops unused ones, in two walks of each function."""

    name = "weft-cse-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                merge_equal(function.body.block)
                if _merge_sizes(function):
                    merge_equal(function.body.block)
                drop_unused(function.body.block, results=True)


def merge_equal(block: Block, seen: dict[Hashable, GraphOp] | None = None) -> None:
    """Replaces every operator by the first one with its name, operands and attributes, of those
    before it in its block and `seen` around that; operands that commute may stand in either order.
    """
    seen = {} if seen is None else seen
    own: list[Hashable] = []
    for op in list(block.ops):
        if isinstance(op, GraphOp):
            operands = sorted(op.operands, key=id) if op.COMMUTES else op.operands
            properties = sorted(op.properties.items(), key=lambda item: item[0])
            key = (op.name, tuple(operands), tuple(properties))
            first = seen.setdefault(key, op)
            if first is op:
                own.append(key)
                continue
            for old, new in zip(op.results, first.results, strict=True):
                old.replace_all_uses_with(new)
        elif isinstance(op, ControlOp):
            for region in op.regions:
                merge_equal(region.block, None if isinstance(op, CheckpointOp) else seen)
    for key in own:
        del seen[key]


def _merge_sizes(function: FuncOp) -> bool:
    """Gives sizes that are elements of one value, bound twice in a block, the first names; returns
    whether there were any.
    """
    first: dict[tuple[Block | None, SSAValue], BindSizesOp] = {}
    renamed: dict[str, Expr] = {}
    for op in [each for each in function.walk() if isinstance(each, BindSizesOp)]:
        kept = first.setdefault((op.parent, op.operand), op)
        if kept is not op:
            names = zip(op.defined_sizes, map(Expr.of, kept.defined_sizes), strict=True)
            renamed |= dict(names)
            op.detach()
            op.erase()
    if renamed:
        replace_sizes(function, size_atoms(renamed))
    return bool(renamed)


def drop_unused(block: Block, *, results: bool = False) -> None:
    """Removes the operators whose results nobody uses, from the last on, and with `results` single
    ones of branches and loops; what names a size stays as long as a type or an attribute mentions
    it.
    """
    names_sizes = any(defined_sizes(op) for op in block.walk())
    _drop_unused(block, set() if names_sizes else None, results=results)


def _drop_unused(block: Block, mentioned: set[str] | None, *, results: bool) -> None:
    """`mentioned` collects the sizes that what is kept needs, where any are named."""
    for op in reversed(list(block.ops)):
        used = any(result.uses for result in op.results) or _defines(op, mentioned)
        used = used or (isinstance(op, ControlOp) and has_effects(op))
        if isinstance(op, _DROPPED) and not used:
            op.detach()
            op.erase()
        else:
            if results and isinstance(op, ControlOp):
                drop_dead_results(op)
            if mentioned is not None:
                mentioned.update(own_sizes(op))
            for region in reversed(op.regions) if isinstance(op, ControlOp) else ():
                _drop_unused(region.block, mentioned, results=results)


_DROPPED = (GraphOp, CallOp, CollectiveOp, NativeCallOp, FusedOp, ControlOp, BindSizesOp)


def _defines(op: Operation, mentioned: set[str] | None) -> bool:
    return mentioned is not None and not mentioned.isdisjoint(defined_sizes(op))


def own_sizes(op: Operation) -> set[str]:
    """The sizes that an operator's attributes and types mention, those inside it aside."""
    shapes = [value for value in op.properties.values() if isinstance(value, ShapeAttr)]
    values = [*op.results, *(arg for region in op.regions for arg in region.block.args)]
    shapes += [value.type.dims for value in values if isinstance(value.type, TensorType)]
    return {name for shape in shapes for dim in shape.data or () for name in dim.symbols()}
