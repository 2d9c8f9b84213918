"""A module behind each pass -> the operators of its graph as records, each kept once."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from weft.dialects.graph import ConstantOp, FusedOp
from weft.dialects.graph.core.types import TensorType
from weft.dialects.loop.program import nodes_of
from weft.view.records import Node, Region, Value

_LONGEST_ATTRIBUTE = 120
"""Letters of an attribute's text; literals have more, which say little."""


class GraphTable:
    """The operators of all graphs so far; an operator that a pass leaves as it is keeps its number,
    and so does a graph.
    """

    def __init__(self) -> None:
        self.nodes: dict[Node, int] = {}
        self.graphs: dict[Region, int] = {}
        self.numbers: dict[Operation, int] = {}
        """The operators of the last graph."""
        self._names: dict[SSAValue, str] = {}
        self._unnamed = Counter[str]()
        self._attributes: dict[Operation, tuple[dict[str, object], str]] = {}

    def add(self, module: ModuleOp) -> int:
        """The number of the module's graph. Functions beside the first are operators of it."""
        main, *others = (op for op in module.ops if isinstance(op, FuncOp))
        self.numbers.clear()
        called = [self._function(op) for op in others]
        region = self._region(main.body.block, {})
        region = Region(region.arguments, (*region.nodes, *called), region.results)
        return self.graphs.setdefault(region, len(self.graphs))

    def _function(self, function: FuncOp) -> int:
        body = self._region(function.body.block, {})
        return self._number(Node(f"function {function.sym_name.data}", regions=(body,)))

    def name(self, value: SSAValue) -> str:
        """The name of a value of the last graph."""
        return self._names[value]

    def _operator(self, op: Operation, names: dict[str, SSAValue]) -> int:
        """The number of an operator, whose regions come first."""
        operands = tuple(self._named(each, names) for each in op.operands)
        results = tuple(self._value(each, names) for each in op.results)
        regions = tuple(
            self._region(block, dict(names)) for region in op.regions for block in region.blocks
        )
        name = op.name.removeprefix("graph.")
        node = Node(name, results, operands, self._text(op), origins(op), regions)
        number = self.numbers[op] = self._number(node)
        return number

    def _named(self, value: SSAValue, names: dict[str, SSAValue]) -> str:
        """The name of a value, the same behind every pass, that no other has in its scope."""
        name = self._names.get(value)
        if name is None or names.get(name, value) is not value:
            hint = value.name_hint or self._invented(value)
            name, number = hint, 1
            while names.get(name, value) is not value:
                name, number = f"{hint}_{number}", number + 1
            self._names[value] = name
        names[name] = value
        return name

    def _invented(self, value: SSAValue) -> str:
        """What a value without a name is called: as a weight is, else after its operator."""
        owner = value.owner
        if isinstance(owner, ConstantOp) and owner.key is not None:
            return owner.key.data
        stem = owner.name.rpartition(".")[2] if isinstance(owner, Operation) else "argument"
        self._unnamed[stem] += 1
        return f"%{stem}{self._unnamed[stem]}"

    def _number(self, node: Node) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def _region(self, block: Block, names: dict[str, SSAValue]) -> Region:
        arguments = tuple(self._value(each, names) for each in block.args)
        nodes: list[int] = []
        results: tuple[str, ...] = ()
        for op in block.ops:
            if op.has_trait(IsTerminator):
                results = tuple(self._named(each, names) for each in op.operands)
            else:
                nodes.append(self._operator(op, names))
        return Region(arguments, tuple(nodes), results)

    def _value(self, value: SSAValue, names: dict[str, SSAValue]) -> Value:
        return Value(self._named(value, names), type_text(value))

    def _text(self, op: Operation) -> str:
        """The attributes as text, made anew where they are others than before."""
        present: dict[str, object] = {**op.properties, **op.attributes}
        if not present:
            return ""
        known = self._attributes.get(op)
        if known is None or known[0] != present:
            text = ", ".join(f"{name} = {_short(each)}" for name, each in present.items())
            known = self._attributes[op] = (present, text)
        return known[1]


def type_text(value: SSAValue) -> str:
    """`f32[1, 64]`."""
    tensor_type = value.type
    if not isinstance(tensor_type, TensorType):
        return str(tensor_type)
    if not tensor_type.has_rank:
        return f"{tensor_type.element}[?]"
    return f"{tensor_type.element}[{', '.join(map(str, tensor_type.shape))}]"


def origins(op: Operation) -> tuple[str, ...]:
    """The nodes of the model, or lines of the program, that an operation comes from; a group comes
    from where its operators do.
    """
    own = [] if isinstance(op, FusedOp) else nodes_of(op)
    blocks = [block for region in op.regions for block in region.blocks]
    inner = [name for block in blocks for each in block.ops for name in nodes_of(each)]
    return tuple(dict.fromkeys(own or inner))


def _short(attribute: object) -> str:
    text = str(attribute)
    return text if len(text) <= _LONGEST_ATTRIBUTE else f"{text[:_LONGEST_ATTRIBUTE]}..."
