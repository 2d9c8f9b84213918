"""graph -> graph: a function of whole tensors becomes what one rank computes of its parts.

    %y = graph.matmul %x, %w : ([8, 4], [4, 6]) -> [8, 6]     %x and %y cut along data = 2
    ->  %y = graph.matmul %x, %w : ([4, 4], [4, 6]) -> [4, 6]

Operands are brought into the sharding that an operator's rule asks for, and what it reduces is
added up over the ranks. What has no rule reads whole tensors, and does the same on every rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, NameLoc, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from weft.compiler.graph.differentiate.residuals import nominal_bytes
from weft.compiler.graph.partition.propagate_shardings import (
    RESULT_SHARDINGS,
    SHARDINGS,
    can_cut,
    rule_of,
)
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.reshard import reshard
from weft.compiler.graph.partition.written import written_dims
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph import OPS_BY_NAME, GraphOp, ShardOp, StageOfOp, StageOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import SEGMENTS
from weft.dialects.graph.core.sharding_rule import Factors, ShardingRule
from weft.dialects.graph.core.types import I64, TensorType, type_of
from weft.dialects.graph.mesh.attributes import (
    Axes,
    Dims,
    MeshAttr,
    ShardingAttr,
    local_type,
)
from weft.dialects.graph.mesh.collectives import AllReduceOp, RankIndexOp
from weft.dialects.loop.program import DIGEST, INPUTS_CUT, MESH, OUTPUTS_CUT, RANKS
from weft.dialects.module_attributes import code_options

_WHOLE: Dims = ()


class PartitionPass(ModulePass):
    """Partitions the function `main` by the shardings that are noted on it; without a mesh,
    `graph.shard` goes, and without an axis `stage` of it `graph.stage`. Raises UnsupportedError
    for a `graph.shard` inside of a branch or loop.
    """

    name = "weft-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mesh = read_mesh(code_options(op).mesh)
        for function in op.ops:
            if isinstance(function, FuncOp) and SHARDINGS in function.attributes and mesh:
                _refuse_inner(function)
                digest = hashlib.sha256(f"{mesh} {function}".encode()).hexdigest()
                _Partition(function, mesh).run()
                function.attributes[DIGEST] = StringAttr(digest)
                if mesh.ranks > 1:
                    function.attributes[RANKS] = IntAttr(mesh.ranks)
                function.attributes[MESH] = StringAttr(str(mesh).replace(" ", ""))
        marks = (ShardOp,) if mesh and mesh.has_stages else (ShardOp, StageOp, StageOfOp)
        for inner in [each for each in op.walk() if isinstance(each, marks)]:
            inner.result.replace_all_uses_with(inner.operands[0])
            inner.detach()
            inner.erase()


def _refuse_inner(function: FuncOp) -> None:
    for op in function.walk():
        if isinstance(op, ShardOp) and op.parent is not function.body.block:
            place = f" of node {op.onnx_name!r}" if op.onnx_name else ""
            rule = "a value outside of branches and loops, in which ranks hold whole tensors"
            raise UnsupportedError(f"{op.name}{place} requires {rule}, got one inside")


class _Plan(Struct, frozen=True):
    """How an operator is computed: the axes of each factor."""

    rule: ShardingRule
    axes: Mapping[str, Axes]

    def dims(self, factors: Factors) -> Dims:
        """The sharding of a value with these factors."""
        return tuple(self.axes.get(each, ()) if each else () for each in factors)

    @property
    def reduced(self) -> Iterator[tuple[str, Axes]]:
        """What is combined over ranks, and along which axes."""
        for factor, combination in self.rule.reduced.items():
            if self.axes.get(factor) and not any(factor in each for each in self.rule.results):
                yield combination, self.axes[factor]


@dataclass
class _Partition:
    function: FuncOp
    mesh: MeshAttr
    parts: dict[tuple[SSAValue, Dims], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Dims], SSAValue]
    )
    """By a whole value and a sharding, the part of the rank."""
    given: dict[SSAValue, Dims] = field(default_factory=dict[SSAValue, Dims])
    """The sharding in which each value is computed."""
    b: GraphBuilder = field(init=False)

    def run(self) -> None:
        old, function = self.function.body.block, self.function
        shardings = _listed(function.attributes.pop(SHARDINGS))
        function.attributes[INPUTS_CUT] = _written(shardings)
        pairs = list(zip(old.args, shardings, strict=True))
        block = Block(arg_types=[self._part(type_of(each), dims) for each, dims in pairs])
        for (value, dims), part in zip(pairs, block.args, strict=True):
            part.name_hint = value.name_hint
            self._define(value, part, dims)
        self.b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
        for op in old.ops:
            self.b.location = op.location if isinstance(op.location, NameLoc) else None
            if isinstance(op, ReturnOp):
                wanted = _listed(function.attributes.pop(RESULT_SHARDINGS))
                function.attributes[OUTPUTS_CUT] = _written(wanted)
                values = zip(op.arguments, wanted, strict=True)
                block.add_op(ReturnOp(*(self.part(value, dims) for value, dims in values)))
            else:
                self._operator(op)
        function.body.add_block(block)
        function.body.detach_block(old)
        old.erase(safe_erase=False)
        function.update_function_type()

    def _part(self, whole: TensorType, dims: Dims) -> TensorType:
        return local_type(whole, dims, self.mesh)

    def _define(self, value: SSAValue, part: SSAValue, dims: Dims) -> None:
        dims = dims if any(dims) else _WHOLE
        self.given[value] = dims
        self.parts[value, dims] = part

    def part(self, value: SSAValue, dims: Dims) -> SSAValue:
        """The rank's part of a value under a sharding."""
        dims = dims if any(dims) else _WHOLE
        key = value, dims
        if key not in self.parts:
            given = self.given[value]
            self.parts[key] = reshard(self.b, self.parts[value, given], given, dims, self.mesh)
        return self.parts[key]

    def _operator(self, op: Operation) -> None:
        shardings = op.attributes.pop(SHARDINGS, None)
        wanted = [_WHOLE] * len(op.results) if shardings is None else _listed(shardings)
        rule = rule_of(op)
        if isinstance(op, ShardOp):
            self._define(op.result, self.part(op.operand, wanted[0]), wanted[0])
            return
        plan = None if rule is None else self._plan(op, rule, wanted)
        if not isinstance(op, GraphOp) or plan is None or not plan.axes:
            self._copy(op)
        else:
            self._compute(op, plan)

    def _plan(self, op: Operation, rule: ShardingRule, wanted: Sequence[Dims]) -> _Plan:
        """That for which ranks exchange fewer bytes: the axes that factors of results are to have
        and then those that operands have already, or the other way round.
        """
        results = [*zip(wanted, rule.results, strict=True)]
        operands = [*zip((self.given[each] for each in op.operands), rule.operands, strict=True)]
        plans = (
            _Plan(rule, self._axes(op, rule, [*first, *second]))
            for first, second in ((results, operands), (operands, results))
        )
        return min(plans, key=lambda plan: self._exchanged(op, plan, wanted))

    def _axes(
        self, op: Operation, rule: ShardingRule, given: Sequence[tuple[Dims, Factors]]
    ) -> dict[str, Axes]:
        """The axes of factors, the first that are given."""
        axes: dict[str, Axes] = {}
        for dims, factors in given:
            for each, factor in zip(dims, factors, strict=bool(dims)):
                used = {axis for others in axes.values() for axis in others}
                if not each or factor is None or factor in axes or not used.isdisjoint(each):
                    continue
                if can_cut(rule, op.results, op.operands, factor, self.mesh.parts(each)):
                    axes[factor] = each
        return axes

    def _exchanged(self, op: Operation, plan: _Plan, wanted: Sequence[Dims]) -> float:
        """The bytes of tensors that are gathered or reduced for an operator and its results; a
        tensor of which ranks have the whole costs nothing to cut.
        """
        total = 0.0
        for value, factors in zip(op.operands, plan.rule.operands, strict=True):
            given = self.given[value]
            if any(given) and given != plan.dims(factors):
                total += nominal_bytes(value)
        summed = any(plan.reduced)
        for result, factors, dims in zip(op.results, plan.rule.results, wanted, strict=True):
            found = plan.dims(factors)
            moved = any(found) and found != dims
            total += nominal_bytes(result) * (moved + (1 if any(dims) else 2) * summed)
        return total

    def _copy(self, op: Operation) -> None:
        """The operator on whole tensors, of which those are gathered that its regions read, too."""
        read = (operand for inner in op.walk() for operand in inner.operands)
        values = {each: self.part(each, _WHOLE) for each in read if each in self.given}
        copy = op.clone(values)
        self.b.builder.insert(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            self._define(old, new, _WHOLE)

    def _compute(self, op: GraphOp, plan: _Plan) -> None:
        operands = zip(op.operands, plan.rule.operands, strict=True)
        parts = iter([self.part(value, plan.dims(factors)) for value, factors in operands])
        slots = [None if each is None else next(parts) for each in op.slots()]
        shardings = [plan.dims(factors) for factors in plan.rule.results]
        types = [
            self._part(type_of(result), dims)
            for result, dims in zip(op.results, shardings, strict=True)
        ]
        slots = op.local_operands(slots, lambda: self._begins(types[0], shardings[0]), self.b)
        own = type(op).from_properties(slots, _properties(op, types), op.location)
        assert [each.type for each in own.results] == types, "a rule is true of the results' types"
        self.b.builder.insert(own)
        for old, new, dims in zip(op.results, own.results, shardings, strict=True):
            new.name_hint = old.name_hint
            self._define(old, self._reduced(new, plan), dims)

    def _begins(self, part: TensorType, dims: Dims) -> list[SSAValue | None]:
        """Where the rank's part of a value begins in each of its dims."""
        found: list[SSAValue | None] = []
        for size, axes in zip(part.shape, dims, strict=True):
            if axes:
                index = RankIndexOp.of(None, self.mesh, axes, self.b.location)
                assert size.constant is not None, "what is cut has constant dims"
                block = self.b.constant_of(size.constant, I64)
                found.append(self.b.mul(self.b.builder.insert(index).result, block))
            else:
                found.append(None)
        return found

    def _reduced(self, value: SSAValue, plan: _Plan) -> SSAValue:
        """The combination of the partial results of all ranks."""
        by_combination: dict[str, Axes] = {}
        for combination, axes in plan.reduced:
            by_combination[combination] = (*by_combination.get(combination, ()), *axes)
        for combination, axes in by_combination.items():
            if combination == "mean":
                share = self.b.constant_of(1 / self.mesh.parts(axes), type_of(value).element)
                value = self.b.mul(value, share)
            reduction = "sum" if combination == "mean" else combination
            op = AllReduceOp.of(
                value, self.mesh, axes, self.b.location, reduction=reduction, replicated=True
            )
            value = self.b.builder.insert(op).result
        return value


def _properties(op: GraphOp, types: Sequence[TensorType]) -> dict[str, Attribute]:
    return {key: each for key, each in op.local_properties(types).items() if key != SEGMENTS}


def _written(shardings: Sequence[Dims]) -> ArrayAttr[StringAttr]:
    """Shardings as users write them."""
    return ArrayAttr([StringAttr(written_dims(each)) for each in shardings])


def _listed(attribute: Attribute) -> list[Dims]:
    assert isa(attribute, ArrayAttr[ShardingAttr]), "shardings are listed"
    return [each.data for each in attribute]
