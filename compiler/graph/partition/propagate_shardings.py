"""graph -> graph: every value gets a sharding, from those few that are given.

    %y = graph.matmul %x, %w     with %x cut along data, %w along model
    ->  %y = graph.matmul %x, %w attributes {shardings = [#graph.sharding<[["data"], ["model"]]>]}

An operator's rule says which dims are cut alike. A dim is given a sharding once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.written import read_shardings
from weft.dialects.errors import OptionError
from weft.dialects.graph import ConstantOp, GraphOp, ShardOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import BF16, F16, F32, F64, I32, I64, type_of
from weft.dialects.graph.mesh.attributes import (
    Axes,
    Dims,
    MeshAttr,
    ShardingAttr,
    require_sharding,
)
from weft.dialects.loop.program import donated_pairs
from weft.dialects.module_attributes import code_options

SHARDINGS = "shardings"
"""The attribute that lists the shardings of an operator's results, or of a function's inputs."""

RESULT_SHARDINGS = "result_shardings"
"""The attribute of a function that lists those of its results."""

OpenDims = list[Axes | None]
"""The axes of each dim, None for one that has not got any yet."""

REDUCED_TYPES = (F32, F64, F16, BF16, I32, I64)
"""Elements that ranks add up."""


class PropagateShardingsPass(ModulePass):
    """Notes shardings on the function `main`, where the module's options have a mesh. Raises
    OptionError for shardings that are none of the mesh's, or of no input and no output.
    """

    name = "weft-propagate-shardings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        options = code_options(op)
        mesh, written = read_mesh(options.mesh), read_shardings(options.shard)
        if mesh is None:
            return
        for function in op.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "main":
                _Propagation(function, mesh, written).run()


class _Link(Struct, frozen=True):
    """Values whose dims a rule connects: those of an operator, or of a donated input and its
    result, and the operator's operands.
    """

    rule: ShardingRule
    results: Sequence[SSAValue]
    operands: Sequence[SSAValue]

    def dims_of(self, factor: str) -> Iterator[tuple[SSAValue, int]]:
        """The dims of a factor, those of operands first."""
        for values, named in (
            (self.operands, self.rule.operands),
            (self.results, self.rule.results),
        ):
            for value, factors in zip(values, named, strict=True):
                yield from ((value, at) for at, name in enumerate(factors) if name == factor)

    @property
    def factors(self) -> list[str]:
        """Each once, those of results first."""
        return list(dict.fromkeys(name for each in self.rule.named() for name in each if name))


class _Propagation(Struct):
    function: FuncOp
    mesh: MeshAttr
    written: Mapping[str, Dims]
    dims: dict[SSAValue, list[Axes | None]] = field(
        default_factory=dict[SSAValue, list[Axes | None]]
    )

    def run(self) -> None:
        """Starts from what is written, until nothing changes, and notes what was found."""
        names = [*self._names("input_names"), *self._names("output_names")]
        weights = {op.key.data for op in self._constants() if op.key is not None}
        unknown = [name for name in self.written if name not in names and name not in weights]
        if unknown:
            rule = f"shardings require inputs or outputs ({', '.join(names)}) or weights"
            raise OptionError(f"{rule}, got {', '.join(unknown)}")
        links = [*self._start_inputs(), *self._start_operators()]
        returned = self._returned()
        for value, name in zip(returned, self._names("output_names"), strict=False):
            kept = self._written(value, name)
            if kept is not None:
                self._merge(value, kept)
        changed = True
        while changed:
            changed = False
            for each in (*links, *reversed(links)):
                changed |= self._visit(each)
        self._note(returned)

    def _constants(self) -> Iterator[ConstantOp]:
        return (op for op in self.function.body.block.ops if isinstance(op, ConstantOp))

    def _names(self, key: str) -> list[str]:
        names = self.function.attributes.get(key)
        if isa(names, ArrayAttr[StringAttr]):
            return [name.data for name in names]
        if key == "input_names":
            return [each.name_hint or "" for each in self.function.body.block.args]
        return []

    def _returned(self) -> list[SSAValue]:
        terminator = self.function.get_return_op()
        assert terminator is not None, "a function returns"
        return list(terminator.arguments)

    def _written(self, value: SSAValue, name: str) -> Dims | None:
        """What is written of an input or output, with all of its dims; None where nothing is."""
        dims = self.written.get(name)
        if dims is None or not type_of(value).has_rank:
            return dims
        whole = (*dims, *[()] * (type_of(value).rank - len(dims)))
        require_sharding(type_of(value), whole, self.mesh, f"the sharding of {name}")
        return whole

    def _start_inputs(self) -> Iterator[_Link]:
        """Gives inputs what is written; donated ones are open, and as their results."""
        donated, returned = dict(donated_pairs(self.function)), self._returned()
        arguments = self.function.body.block.args
        for number, (argument, name) in enumerate(
            zip(arguments, self._names("input_names"), strict=True)
        ):
            kept = self._written(argument, name)
            if kept is not None:
                self.dims[argument] = [*kept]
            elif number in donated and type_of(argument).has_rank:
                self.dims[argument] = [None] * type_of(argument).rank
                factors = whole_but(type_of(argument).rank, ())
                rule = ShardingRule((factors,), (factors,))
                yield _Link(rule, [returned[donated[number]]], [argument])
            else:
                self.dims[argument] = []

    def _start_operators(self) -> Iterator[_Link]:
        for op in self.function.body.block.ops:
            rule = rule_of(op)
            for result in op.results:
                rank = type_of(result).rank if rule is not None else 0
                self.dims[result] = [None] * rank
            if isinstance(op, ShardOp):
                name = f"{op.name} of {op.onnx_name}" if op.onnx_name else op.name
                require_sharding(type_of(op.operand), op.sharding.data, self.mesh, name)
                self.dims[op.result] = [*op.sharding.data]
            if rule is not None:
                yield _Link(rule, op.results, op.operands)

    def _visit(self, link: _Link) -> bool:
        """Gives the open dims of each factor the axes of its first dim that has some."""
        used: set[str] = set()
        changed = False
        for factor in link.factors:
            found = list(link.dims_of(factor))
            known = [self._axes(*each) for each in found]
            axes = next((each for each in known if each), ())
            if not axes or not used.isdisjoint(axes) or not self._can_cut(link, factor, axes):
                continue
            used.update(axes)
            for value, at in found:
                dims = self.dims.get(value, [])
                if at < len(dims) and dims[at] is None and not self._has(value, axes):
                    dims[at] = axes
                    changed = True
        return changed

    def _axes(self, value: SSAValue, at: int) -> Axes:
        dims = self.dims.get(value, [])
        return (dims[at] or ()) if at < len(dims) else ()

    def _has(self, value: SSAValue, axes: Axes) -> bool:
        return any(not set(axes).isdisjoint(each or ()) for each in self.dims[value])

    def _can_cut(self, link: _Link, factor: str, axes: Axes) -> bool:
        return can_cut(link.rule, link.results, link.operands, factor, self.mesh.parts(axes))

    def _merge(self, value: SSAValue, dims: Dims) -> None:
        """Gives open dims what is written of a result."""
        known = self.dims.get(value, [])
        for at, axes in enumerate(dims if len(known) == len(dims) else ()):
            if known[at] is None and axes and not self._has(value, axes):
                known[at] = axes

    def _note(self, returned: Sequence[SSAValue]) -> None:
        block, donated = self.function.body.block, dict(donated_pairs(self.function))
        self.function.attributes[SHARDINGS] = self._listed(block.args)
        for op in block.ops:
            shardings = self._listed(op.results)
            if any(any(each.data) for each in shardings):
                op.attributes[SHARDINGS] = shardings
        sources = {result: block.args[source] for source, result in donated.items()}
        names = self._names("output_names")
        kept: list[ShardingAttr] = []
        for number, value in enumerate(returned):
            written = self._written(value, names[number]) if number < len(names) else None
            if written is not None:
                kept.append(ShardingAttr(written))
            else:
                source = sources.get(number)
                kept.append(ShardingAttr(()) if source is None else self._sharding(source))
        self.function.attributes[RESULT_SHARDINGS] = ArrayAttr(kept)

    def _sharding(self, value: SSAValue) -> ShardingAttr:
        dims = tuple(each or () for each in self.dims[value])
        return ShardingAttr(dims if any(dims) else ())

    def _listed(self, values: Sequence[SSAValue]) -> ArrayAttr[ShardingAttr]:
        return ArrayAttr([self._sharding(value) for value in values])


def rule_of(op: Operation) -> ShardingRule | None:
    """The rule of an operator on tensors of known ranks; None where it has none."""
    if not isinstance(op, GraphOp):
        return None
    values = (*op.operands, *op.results)
    return op.sharding_rule() if all(type_of(each).has_rank for each in values) else None


def can_cut(
    rule: ShardingRule,
    results: Sequence[SSAValue],
    operands: Sequence[SSAValue],
    factor: str,
    parts: int,
) -> bool:
    """Whether all dims of a factor are multiples of the parts, and what it reduces can be."""
    reduced = factor in rule.reduced
    if reduced and any(type_of(each).element not in REDUCED_TYPES for each in results):
        return False
    for value, factors in zip((*results, *operands), rule.named(), strict=True):
        for dim, name in zip(type_of(value).shape, factors, strict=True):
            if name == factor and (
                dim.constant is None or dim.constant % parts or not dim.constant
            ):
                return False
    return True
