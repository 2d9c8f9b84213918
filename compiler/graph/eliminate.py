"""graph -> graph: operators that compute the same are computed once,
and those that nobody needs not at all.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from dialects.graph import FusedOp, GraphOp


@dataclass(frozen=True)
class EliminatePass(ModulePass):
    """Merges equal operators and drops unused ones, in two walks of each function."""

    name = "weft-eliminate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                merge_equal(function.body.block)
                drop_unused(function.body.block)


def merge_equal(block: Block) -> None:
    """Replaces every operator by the first one with its name, operands and attributes."""
    seen: dict[Hashable, GraphOp] = {}
    for op in list(block.ops):
        if isinstance(op, GraphOp):
            key = (
                op.name,
                tuple(op.operands),
                tuple(sorted(op.properties.items(), key=lambda item: item[0])),
            )
            first = seen.setdefault(key, op)
            if first is not op:
                for old, new in zip(op.results, first.results, strict=True):
                    old.replace_all_uses_with(new)


def drop_unused(block: Block) -> None:
    """Removes the operators whose results nobody uses, from the last on."""
    for op in reversed(list(block.ops)):
        if isinstance(op, (GraphOp, FusedOp)) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
