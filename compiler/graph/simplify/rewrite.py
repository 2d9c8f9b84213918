"""graph -> graph: identities between operators, each an expression and what takes its place.

    add(x, neg(y)) -> sub(x, y)
    slice(slice(x)) -> slice(x)
    batch_norm(conv(x, w), scale, ...) -> conv(x, w * factor, shift)

In one sweep from the inputs on, by the class of each operator. What a rewrite builds is folded and
looked at again, and so is what reads it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import field
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.match import erase_unused
from weft.compiler.graph.simplify.fold_constants import (
    FoldConstantsPass,
    Folder,
    loses_assumptions,
    replace,
)
from weft.compiler.graph.simplify.fold_control import fold_branch
from weft.compiler.graph.simplify.rewrites import REWRITES
from weft.compiler.graph.simplify.rewrites.expressions import Match, Rewrite
from weft.dialects.context import weights_of
from weft.dialects.errors import TypeInferenceError
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.dim_values import DimValues
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.module_attributes import code_options
from weft.dialects.weights import WeightStore


@dataclass(frozen=True)
class RewritePass(ModulePass):
    """Applies the rewrites, with `strict_fp` those alone that keep every bit."""

    name = "weft-rewrite"
    rewrites: ClassVar[Sequence[Rewrite]] = REWRITES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strict, weights = code_options(op).strict_fp, weights_of(ctx)
        for function in op.ops:
            if isinstance(function, FuncOp):
                apply_rewrites(function, weights, self.rewrites, strict=strict)


def with_rewrites(own: Sequence[Rewrite]) -> type[RewritePass]:
    """The pass that tries those of a caller before weft's own."""
    if not own:
        return RewritePass
    return type(RewritePass.__name__, (RewritePass,), {"rewrites": (*own, *REWRITES)})


def apply_rewrites(
    function: FuncOp,
    weights: WeightStore,
    rewrites: Sequence[Rewrite] = REWRITES,
    *,
    strict: bool = False,
) -> list[str]:
    """Rewrites a function in place; returns the names of those that were applied, each
    as often as it was.
    """
    budget = FoldConstantsPass().budget(weights)
    rewriter = _Rewriter(weights, DimValues(), budget, rewrites, strict)
    rewriter.rewrite(function)
    return rewriter.applied


class _Rewriter(Folder):
    """Applies rewrites, and folds what they change."""

    rewrites: Sequence[Rewrite]
    strict: bool = False
    applied: list[str] = field(default_factory=list[str])
    fitting: dict[Hashable, list[Rewrite]] = field(default_factory=dict[Hashable, list[Rewrite]])
    """The rewrites that may fit operators that are of one class, as is what they read."""
    changed: set[Operation] = field(default_factory=set[Operation])
    """Operators that are new, or read others than before."""

    def rewrite(self, function: FuncOp) -> None:
        """Rewrites the operators of a function."""
        for op in list(function.body.walk()):
            if isinstance(op, BranchOp) and op.parent is not None:
                fold_branch(op, function, self.weights)
            elif isinstance(op, GraphOp) and op.parent is not None:
                self.fold(op)

    def step(self, op: GraphOp) -> GraphOp | None:
        """Folds the operator once if it has changed, else rewrites it."""
        if op in self.changed:
            self.changed.discard(op)
            users = _users(op)
            folded = super().step(op)
            if op.parent is None:
                self.changed.update(users if folded is None else [*users, folded])
                return folded
        for rewrite in self._rewrites_at(op):
            match = Match(op, self.weights)
            if match.at(rewrite.before, op) and (made := _built(rewrite, match)) is not None:
                self.applied.append(rewrite.name)
                return self._put(match, *made)
        return None

    def _rewrites_at(self, op: GraphOp) -> Sequence[Rewrite]:
        """Those that may fit, by the classes of the operator and of what it reads."""
        if len(op.results) != 1 or not op.result_type.has_rank:
            return ()
        owners = tuple([type(operand.owner) for operand in op.operands])
        key = type(op), op.result_type.element, owners
        if key not in self.fitting:
            rooted = self._rooted_at(type(op), op.result_type.element)
            fitting = [each for each in rooted if each.before.may_read(type(op), owners)]
            self.fitting[key] = fitting
        return self.fitting[key]

    def _rooted_at(self, op_class: type[GraphOp], element: Attribute) -> Sequence[Rewrite]:
        """Those that start from the operator's class and are allowed for its element type."""
        key = op_class, element
        if key not in self.fitting:
            inexact = self.strict and element in FLOATS
            roots = set(op_class.__mro__)
            self.fitting[key] = [
                each
                for each in self.rewrites
                if not roots.isdisjoint(each.before.classes)
                and element in each.elements
                and (each.exact or not inexact)
            ]
        return self.fitting[key]

    def _put(self, match: Match, value: SSAValue, made: Sequence[GraphOp]) -> GraphOp | None:
        """Replaces the root by a value that operators in front of it compute, and folds these;
        returns the last of them, if the value is its.
        """
        self.changed.update(_users(match.root), made)
        replace(match.root, [value], [])
        for each in match.matched[1:]:
            erase_unused(each)
        for each in made:
            if each is not value.owner:
                self.fold(each)
        return value.owner if isinstance(value.owner, GraphOp) and value.owner in made else None


def _users(op: GraphOp) -> list[Operation]:
    return [use.operation for result in op.results for use in result.uses]


def _built(rewrite: Rewrite, match: Match) -> tuple[SSAValue, list[GraphOp]] | None:
    """What takes the root's place, and the operators that were inserted for it; None where it would
    be of another type, or sizes not be checked any more.
    """
    before = match.root.prev_op
    try:
        term = rewrite.apply(match)
    except TypeInferenceError:  # of operands whose sizes do not allow it
        term = None
    made = list(_between(before, match.root))
    fits = term is not None and term.type == match.root.result_type
    if term is not None and fits and not loses_assumptions(match.matched, made):
        return term.value, made
    for each in reversed(made):
        each.detach()
        each.erase()
    return None


def _between(before: Operation | None, root: GraphOp) -> Iterator[GraphOp]:
    block = root.parent
    assert block is not None, "what is rewritten stands in a block"
    op = block.first_op if before is None else before.next_op
    while op is not None and op is not root:
        assert isinstance(op, GraphOp), "rewrites insert graph operators"
        yield op
        op = op.next_op
