"""Reverse mode: operators are walked from the last to the first; each hands the cotangents of its
results on to what it reads, and what reaches a value on several ways is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from msgspec import Struct, field
from xdsl.dialects.builtin import NameLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.graph.differentiate.reverse_branch import (
    reverse_branch,
    reverse_checkpoint,
    reverse_custom,
)
from weft.compiler.graph.differentiate.reverse_loop import active_state, reverse_loop
from weft.compiler.graph.differentiate.reverse_path import (
    Contribution,
    Path,
    Reversal,
    captured,
    is_float,
    named_sizes,
    path_between,
)
from weft.compiler.graph.simplify.cse_dce import own_sizes
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph import (
    CheckpointOp,
    CollectiveOp,
    ControlOp,
    CustomVjpOp,
    GraphOp,
    NativeCallOp,
)
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import yielded
from weft.dialects.graph.regions.repeat import RepeatOp


def cotangents(
    b: GraphBuilder,
    results: Sequence[SSAValue],
    seeds: Sequence[SSAValue],
    inputs: Sequence[SSAValue],
    block: Block | None = None,
) -> list[SSAValue]:
    """The cotangents of inputs from those of results; zeros for one that no result depends on. Both
    are values of `block`, by default the builder's own, or inputs of regions around it.

    What control flow computes and the derivative needs becomes further results of its operators.
    Raises UnsupportedError that lists all operators on the way without a derivative.
    """
    block = b.builder.insertion_point.block if block is None else block
    lacking = list(_lacking(block, results, inputs))
    if lacking:
        listed = ", ".join(dict.fromkeys(map(_named, lacking)))
        raise UnsupportedError(f"gradients require operators with derivatives, got {listed}")
    found = _Reversal(_used_names(block)).pull(
        b, block, list(zip(results, seeds, strict=True)), inputs
    )
    return [found[each] if each in found else b.filled(0.0, each) for each in inputs]


class _Reversal(Reversal):
    def pull(
        self,
        b: GraphBuilder,
        block: Block,
        seeds: Sequence[tuple[SSAValue, SSAValue]],
        inputs: Sequence[SSAValue],
        stops: Container[Operation] = (),
    ) -> Mapping[SSAValue, SSAValue]:
        path = path_between(block, [result for result, _ in seeds], inputs, stops)
        sums = _Sums(b)
        for result, seed in seeds:
            sums.add(result, seed)
        for op in reversed(path.ops):
            arriving = [sums.of.get(result) for result in op.results]
            if any(each is not None for each in arriving):
                for value, cotangent in self._reverse(op, arriving, path, b):
                    if value in path.reached and cotangent is not None:
                        sums.add(value, cotangent)
        return sums.of

    def _reverse(
        self, op: Operation, arriving: list[SSAValue | None], path: Path, b: GraphBuilder
    ) -> Sequence[Contribution]:
        """What an operator hands on to the values that it reads."""
        outer = b.location
        b.location = op.location if isinstance(op.location, NameLoc) else outer
        try:
            match op:
                case GraphOp():
                    return _vjp(op, arriving, b)
                case CollectiveOp():
                    return _collective(op, arriving[0], b)
                case BranchOp():
                    return reverse_branch(self, op, arriving, path.reached, b)
                case RepeatOp():
                    return reverse_loop(self, op, arriving, path.reached, b)
                case CheckpointOp():
                    return reverse_checkpoint(self, op, arriving, path.reached, b)
                case CustomVjpOp():
                    return reverse_custom(self, op, arriving, b)
                case _:
                    raise UnsupportedError(f"gradients require operators alone, got {op.name}")
        finally:
            b.location = outer


def _vjp(op: GraphOp, arriving: Sequence[SSAValue | None], b: GraphBuilder) -> list[Contribution]:
    whole = [
        b.filled(0.0, result) if each is None else each
        for result, each in zip(op.results, arriving, strict=True)
    ]
    return list(zip(op.operands, op.vjp(whole, b), strict=True))


def _collective(op: CollectiveOp, arriving: SSAValue | None, b: GraphBuilder) -> list[Contribution]:
    assert arriving is not None, "what nothing arrives at is not reversed"
    return [(operand, op.vjp(arriving, b)) for operand in op.operands]


class _Sums(Struct):
    """What has reached each value so far."""

    b: GraphBuilder
    of: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def add(self, value: SSAValue, cotangent: SSAValue) -> None:
        before = self.of.get(value)
        self.of[value] = cotangent if before is None else self.b.add(before, cotangent)


def _lacking(
    block: Block, results: Sequence[SSAValue], inputs: Sequence[SSAValue]
) -> Iterator[Operation]:
    """The operators on the way without a derivative, those in regions too."""
    path = path_between(block, results, inputs)
    for op in path.ops:
        if isinstance(op, NativeCallOp) or (isinstance(op, GraphOp) and not op.has_vjp()):
            yield op
        if not isinstance(op, ControlOp) or isinstance(op, CustomVjpOp):
            continue
        sources = [value for value in captured(op) if value in path.reached]
        regions = op.regions
        if isinstance(op, RepeatOp):
            state = active_state(op, path.reached, sources)
            sources += [op.repeated.block.args[position] for position in state]
            regions = (op.repeated,)
        for region in regions:
            yield from _lacking(region.block, [*filter(is_float, yielded(region))], sources)


def _named(op: Operation) -> str:
    if isinstance(op, NativeCallOp):
        return f"the native kernel {op.declared.name} (weft.custom_vjp gives it one)"
    return (
        f"{op.name} of node '{op.onnx_name}'"
        if isinstance(op, GraphOp) and op.onnx_name
        else op.name
    )


def fresh_size(block: Block, stem: str) -> str:
    """A name that no size of the graph around a block has."""
    return fresh_sizes(block)(stem)


def fresh_sizes(block: Block) -> Callable[[str], str]:
    """Makes names that no size of the graph around a block has, each once."""
    return _Reversal(_used_names(block)).fresh


def _used_names(block: Block) -> set[str]:
    """The names of all sizes that the graph around a block knows."""
    above = block.parent_op()
    while (
        above is not None and (outer := above.parent) is not None and not isinstance(above, FuncOp)
    ):
        block, above = outer, outer.parent_op()
    ops = list(block.walk()) if above is None else list(above.walk())
    found = {name for op in ops for name in (*own_sizes(op), *named_sizes(op))}
    shapes = [type_of(argument).dims.data or () for argument in block.args]
    return found.union(name for dims in shapes for dim in dims for name in dim.symbols())
