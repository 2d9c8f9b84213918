"""graph -> graph: a program whose values `graph.stage` marks becomes one in which each rank along
the axis `stage` of its mesh computes its stages, and sends others what they read of it.

    %y = A(%x), %z = graph.stage %y {index = 1}, %o = B(%z)

    ->  %i = graph.rank_index {axes = ["stage"]}
        %o = graph.case %i { %y = A(%x), graph.send %y {peer = 1}, graph.yield %zeros }
                        or { %y = graph.recv {peer = 0}, %o = B(%y), graph.yield %o }

A result is on the rank that computes it, and on those that read the input in whose memory it is
next time; on others it is the input that is donated for it, or zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.partition.assign_stages import BOUNDARIES, assign_stages, reads
from weft.compiler.graph.partition.order_stages import order_stages
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.graph import OPS_BY_NAME, CollectiveOp, ConstantOp, StageOp, YieldOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.mesh.attributes import STAGE, MeshAttr
from weft.dialects.graph.mesh.collectives import RankIndexOp
from weft.dialects.graph.mesh.messages import MessageOp, RecvOp, SendOp
from weft.dialects.graph.regions.branch import CaseOp
from weft.dialects.graph.regions.control import BindSizesOp
from weft.dialects.loop.program import INPUT_RANKS, MESSAGES_BACK, OUTPUT_RANKS, donated_pairs
from weft.dialects.module_attributes import code_options


class CutStagesPass(ModulePass):
    """Cuts the function `main` where its mesh has the axis `stage` and values are marked. Raises
    OptionError for stages that cannot be those of the mesh's ranks, UnsupportedError for marks in
    branches and loops, and for sizes that are found while the program runs.
    """

    name = "weft-cut-stages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mesh = read_mesh(code_options(op).mesh)
        for function in op.ops:
            if isinstance(function, FuncOp) and mesh and _is_marked(function):
                _require_stages(function, mesh)
                _Cut(function, mesh).run()


def _is_marked(function: FuncOp) -> bool:
    return any(isinstance(op, BOUNDARIES) for op in function.walk())


def _require_stages(function: FuncOp, mesh: MeshAttr) -> None:
    block, ranks = function.body.block, mesh.sizes[STAGE]
    numbers = (op.index.value.data for op in block.ops if isinstance(op, StageOp))
    last = max(numbers, default=0)
    if last + 1 < ranks:
        rule = f"stages 0 to {ranks - 1} or more for the {ranks} ranks along its axis {STAGE}"
        raise OptionError(f"a mesh ({mesh}) requires {rule}, got 0 to {last}")
    for op in function.walk():
        node = f" of node {op.onnx_name!r}" if isinstance(op, StageOp) and op.onnx_name else ""
        if isinstance(op, BOUNDARIES) and op.parent is not block:
            rule = "a value outside of branches and loops"
            raise UnsupportedError(f"{op.name}{node} requires {rule}, got one inside")
        if isinstance(op, BindSizesOp):
            raise UnsupportedError("stages require sizes that inputs have, got others")
        if isinstance(op, CollectiveOp) and STAGE in op.axis_names:
            rule = f"no value that is cut along the axis {STAGE}"
            raise UnsupportedError(f"stages require {rule}, got {op.name}")


class _Rank(Struct):
    """What one rank computes: its block, and what it has of the values of the program."""

    block: Block = field(default_factory=Block)
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])


class _Cut:
    def __init__(self, function: FuncOp, mesh: MeshAttr):
        self.function, self.mesh, self.block = function, mesh, function.body.block
        self.assignment = assign_stages(self.block)
        self.stages = 1 + max(self.assignment.stages.values(), default=0)
        self.ranks = [_Rank() for _ in range(mesh.sizes[STAGE])]
        self.messages = 0
        self.sent: dict[tuple[int, int], list[tuple[SSAValue, SendOp]]] = {}
        """By the rank that sends and the one that receives, what is not received yet."""

    def rank_of(self, op: Operation) -> int:
        """The rank of an operator: neighbouring stages are one rank's where there are more."""
        return self.assignment.stages[op] * len(self.ranks) // self.stages

    def run(self) -> None:
        """Builds a block for each rank, and replaces the program by a choice among them."""
        ops = [op for op in self.block.ops if op in self.assignment.stages]
        readers = self._readers(ops)
        for op in order_stages(ops, self.assignment, self.rank_of, len(self.ranks)):
            if not isinstance(op, BOUNDARIES):
                self._compute(op, readers)
        returned = self.block.last_op
        assert returned is not None, "a function returns"
        donated = {target: source for source, target in donated_pairs(self.function)}
        holders: list[list[int]] = []
        for at, value in enumerate(returned.operands):
            holders.append(self._holders(value))
            if at in donated and holders[at]:
                read = readers.get(self.block.args[donated[at]], ())
                self._share(_unmarked(value), holders[at], read)
        for number, rank in enumerate(self.ranks):
            results = [
                self._value(number, value)
                if number in holders[at] or not holders[at]
                else self._absent(number, value, donated.get(at))
                for at, value in enumerate(returned.operands)
            ]
            rank.block.add_op(YieldOp.create(operands=results))
        kept = {_unmarked(value) for value in returned.operands}
        everyone = range(len(self.ranks))
        read = [everyone if arg in kept else readers.get(arg, ()) for arg in self.block.args]
        self._replace(returned, holders, read)

    def _readers(self, ops: Sequence[Operation]) -> Mapping[SSAValue, Sequence[int]]:
        """The ranks that read each value, in the order in which they do."""
        readers: dict[SSAValue, dict[int, None]] = {}
        for op in ops:
            for value in () if isinstance(op, BOUNDARIES) else reads(op):
                readers.setdefault(_unmarked(value), {})[self.rank_of(op)] = None
        return {value: list(ranks) for value, ranks in readers.items()}

    def _compute(self, op: Operation, readers: Mapping[SSAValue, Sequence[int]]) -> None:
        number = self.rank_of(op)
        rank = self.ranks[number]
        copy = op.clone({each: self._value(number, each) for each in reads(op)})
        rank.block.add_op(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            rank.values[old] = new
            for other in readers.get(old, ()):
                if other != number:
                    self._send(number, other, old, op)

    def _send(self, number: int, other: int, value: SSAValue, op: Operation) -> None:
        group = MessageOp.group(self.mesh, (STAGE,), other, self.messages)
        send = SendOp.of(self.ranks[number].values[value], group, op.location)
        self.messages += 1
        self.ranks[number].block.add_op(send)
        self.sent.setdefault((number, other), []).append((value, send))

    def _value(self, number: int, value: SSAValue) -> SSAValue:
        """What a rank has of a value; what others compute it receives, in the order of sending."""
        value, rank = _unmarked(value), self.ranks[number]
        owner = value.owner
        if value in rank.values or not isinstance(owner, Operation):
            return rank.values.get(value, value)
        if isinstance(owner, ConstantOp):
            copy = owner.clone()
            rank.block.add_op(copy)
            rank.values[value] = copy.results[0]
            copy.results[0].name_hint = value.name_hint
        else:
            source = self.rank_of(owner)
            while value not in rank.values:
                other, send = self.sent[source, number].pop(0)
                group = MessageOp.group(self.mesh, (STAGE,), source, send.number.value.data)
                recv = RecvOp.of(send.operand.type, group, send.location)
                rank.block.add_op(recv)
                rank.values[other] = recv.result
        return rank.values[value]

    def _holders(self, value: SSAValue) -> list[int]:
        """The rank that computes a result; none for what all have."""
        owner = _unmarked(value).owner
        if not isinstance(owner, Operation) or owner not in self.assignment.stages:
            return []
        return [self.rank_of(owner)]

    def _share(self, value: SSAValue, holders: list[int], read: Sequence[int]) -> None:
        """Sends a result to the other ranks that read it in the next call."""
        owner, (source,) = value.owner, holders
        assert isinstance(owner, Operation), "what a rank holds is computed"
        for number in read:
            if number != source:
                holders.append(number)
                if not self._has_been_sent(value, source, number):
                    self._send(source, number, value, owner)

    def _has_been_sent(self, value: SSAValue, source: int, number: int) -> bool:
        waiting = (each for each, _ in self.sent.get((source, number), ()))
        return value in self.ranks[number].values or value in waiting

    def _absent(self, number: int, value: SSAValue, donated: int | None) -> SSAValue:
        if donated is not None:
            return self.block.args[donated]
        b = GraphBuilder(InsertPoint.at_end(self.ranks[number].block), OPS_BY_NAME)
        return b.filled(0, value)

    def _replace(
        self,
        returned: Operation,
        holders: Sequence[Sequence[int]],
        read: Sequence[Sequence[int]],
    ) -> None:
        """Puts a choice of the rank's block in the place of all operators, and notes which ranks
        have outputs, and read inputs.
        """
        index = RankIndexOp.of(None, self.mesh, (STAGE,))
        choice = CaseOp.of(index.result, [rank.block for rank in self.ranks])
        for op in list(self.block.ops)[::-1]:
            if op is not returned:
                op.detach()
                op.erase(safe_erase=False)
        self.block.insert_ops_before([index, choice], returned)
        for at, result in enumerate(choice.results_):
            result.name_hint = returned.operands[at].name_hint
            returned.operands[at] = result
        ranks = (ArrayAttr(map(IntAttr, each)) for each in holders)
        self.function.attributes[OUTPUT_RANKS] = ArrayAttr(ranks)
        readers = (ArrayAttr(map(IntAttr, sorted(each))) for each in read)
        self.function.attributes[INPUT_RANKS] = ArrayAttr(readers)
        if self._goes_back(choice):
            self.function.attributes[MESSAGES_BACK] = IntAttr(1)

    def _goes_back(self, choice: CaseOp) -> bool:
        """Whether a rank receives anything of a later one."""
        return any(
            isinstance(op, RecvOp) and op.peer.value.data > number
            for number, region in enumerate(choice.regions)
            for op in region.block.ops
        )


def _unmarked(value: SSAValue) -> SSAValue:
    """The value that marks have led to this one."""
    while isinstance(value.owner, BOUNDARIES):
        value = value.owner.operands[0]
    return value
