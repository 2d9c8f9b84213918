"""FX graphs of ATen operators -> graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Final

import torch
from msgspec import Struct
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from xdsl.ir import Attribute

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair
from weft.compiler.frontend.torch.graph import AtenGraph, Body
from weft.compiler.frontend.torch.operands import AtenTable, term
from weft.compiler.frontend.torch.ops.complex_numbers import ComplexElement, on_parts, separated
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.types import BOOL, F64
from weft.torch.outputs import Output, Outputs, inverse
from weft.torch.tensors import (
    dims_of,
    element_of,
    element_on_cpu,
    is_symbol,
    is_symbolic,
    memory_order,
    rounded_sizes,
    size_of,
    to_array,
)

IGNORED: Final = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "implicit")
"""Arguments that decide nothing that a graph has."""

ITEM: Final = "aten._local_scalar_dense.default"
"""What makes a number of a tensor's value."""


class Walked(Struct, frozen=True):
    """A graph, its arguments with the orders of their axes, the symbols that integer arguments or
    axes of arguments are, what is handed back, how many arguments there are, the positions of
    floats and of those that the last results are written to, and the outputs of the graph that
    hold complex numbers; `of_reals` says that there are neither such nor complex arguments. Behind
    the arguments there are sizes that are functions of symbols.
    """

    model: ImportedModel
    arguments: tuple[tuple[int, tuple[int, ...] | None], ...]
    symbols: Mapping[str, tuple[int, int | None]]
    outputs: tuple[Output, ...]
    tuple_of_one: bool
    hidden: tuple[int, ...]
    count: int
    floats: tuple[int, ...]
    written: tuple[int, ...]
    complex_outputs: tuple[int, ...]
    of_reals: bool
    rounded: tuple[Callable[..., int], ...]


def target_of(node: Node) -> str:
    """The overload that a node calls."""
    return str(node.target)


def is_size(value: Any) -> bool:
    """Whether a node's value is a number that sizes are made of."""
    return isinstance(value, int | torch.SymInt) and not isinstance(value, bool)


def size_of_node(node: Node) -> Expr:
    """A node's value as an expression of sizes. Raises UnsupportedError for one that a tensor's
    value decides: sizes are known before a call.
    """
    if target_of(node) == ITEM:
        raise UnsupportedError(f"{ITEM} requires a size that is known before a call, got a value")
    return size_of(node.meta["val"])


def argument(value: Any, of: Callable[[Node], Any]) -> Any:
    """An argument of a node as the table takes it."""
    if isinstance(value, Node):
        size = value.meta.get("val")
        return size_of(size) if is_size(size) else of(value)
    if isinstance(value, list | tuple):
        return [argument(each, of) for each in value]
    if isinstance(value, torch.dtype):
        return element_of(value)
    return size_of(value) if isinstance(value, torch.SymInt) else value


def call(graph: AtenGraph, node: Node, of: Callable[[Node], Any]) -> Any:
    """What a node computes, of the types that torch says that it has."""
    if node.target is operator.getitem:
        source, position = node.args
        assert isinstance(source, Node), "results are of a node"
        return of(source)[position]
    if target_of(node) == ITEM and isinstance(node.meta.get("val"), torch.SymFloat):
        return argument(node.args[0], of).reshape([]).cast(F64)
    if isinstance(node.meta.get("val"), torch.SymFloat):
        return _of_numbers(graph, node, [argument(each, of) for each in node.args])
    given = [argument(each, of) for each in node.args]
    if isinstance(node.target, HigherOrderOperator):
        return _of_regions(graph, node, given)
    named = {k: argument(v, of) for k, v in node.kwargs.items() if k not in IGNORED}
    try:
        found = graph.call(target_of(node), given, named, source_line(node))
    except TypeError as error:
        sizes = [str(size_of(each)) for each in _symbolic(node)]
        if not sizes:
            raise
        rule = f"{target_of(node)} requires constants"
        raise UnsupportedError(f"{rule}, got the sizes {', '.join(sizes)}") from error
    wanted = node.meta.get("val")  # which a check does not have
    if isinstance(found, Term | Pair):
        return _checked(node, found, wanted)
    return [_checked(node, each, want) for each, want in zip(found, wanted, strict=False)]


def _of_regions(graph: AtenGraph, node: Node, given: Sequence[Any]) -> list[Term]:
    """Control flow, whose regions are graphs of their own."""
    regions = [_body(node, each) if isinstance(each, GraphModule) else each for each in given]
    found = graph.control(target_of(node), regions, source_line(node))
    return _tensors(node, found, node.meta["val"])


def _body(node: Node, region: GraphModule) -> Body:
    """What fills a region of an operator."""

    def body(graph: AtenGraph, arguments: Sequence[Any]) -> list[Term]:
        placeholders = region.graph.find_nodes(op="placeholder")
        values: dict[Node, Any] = dict(zip(placeholders, arguments, strict=True))
        walk_nodes(graph, region, values)
        given = region.graph.output_node().args[0]
        results = list(given) if isinstance(given, list | tuple) else [given]
        types = [each.meta["val"] if isinstance(each, Node) else each for each in results]
        return _tensors(node, [argument(each, values.__getitem__) for each in results], types)

    return body


def _tensors(node: Node, found: Sequence[Any], types: Sequence[Any]) -> list[Term]:
    """Results of the types that torch says. Raises UnsupportedError where some are no tensors."""
    pairs = list(zip(found, types, strict=True))
    made = [_checked(node, each, want) for each, want in pairs if isinstance(each, Term)]
    terms = [each for each in made if isinstance(each, Term)]
    if len(terms) < len(pairs):
        raise UnsupportedError(f"{target_of(node)} requires tensors as results")
    return terms


def walk_nodes(graph: AtenGraph, gm: GraphModule, values: dict[Node, Any]) -> None:
    """Computes the values of all nodes behind the placeholders. Raises as `walk` does."""
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(gm, target_of(node))
            region = isinstance(value, GraphModule)
            values[node] = value if region else constant(graph, node, value)
        elif node.op == "call_function" and is_size(node.meta.get("val")):
            values[node] = size_of_node(node)
        elif node.op == "call_function":
            values[node] = call(graph, node, values.__getitem__)


def constant(graph: AtenGraph, node: Node, value: Any) -> Term | Pair:
    """A tensor with values as a part of the graph, which keeps a copy."""
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"{node.name} requires a tensor, got {type(value).__name__}")
    with unset_fake_temporarily():
        found = graph.constant(node.name, to_array(value.detach().clone().contiguous()))
    return separated(found) if value.is_complex() else found


def _symbolic(node: Node) -> list[torch.SymInt]:
    """The integers that a node takes and that are no constants."""
    values = [each.meta.get("val") for each in node.all_input_nodes]
    return [each for each in values if is_symbolic(each)]


_NUMBERS: Final[Mapping[Any, Callable[..., Any]]] = {
    operator.add: operator.add, operator.sub: operator.sub, operator.mul: operator.mul,
    operator.truediv: operator.truediv, operator.neg: operator.neg, torch.sym_float: lambda x: x,
}  # fmt: skip
"""What floats are made of sizes by."""


def _of_numbers(graph: AtenGraph, node: Node, given: Sequence[Any]) -> Term:
    """A float that is computed of sizes, as a tensor without axes."""
    if node.target not in _NUMBERS:
        raise UnsupportedError(f"{target_of(node)} requires a function of sizes that weft has")
    b = graph.builder(source_line(node))
    return _NUMBERS[node.target](*(term(b, each, F64) for each in given))


def _checked(node: Node, found: Term | Pair | None, wanted: Any) -> Term | Pair | None:
    """The result in the element type that torch says; its dims have to be torch's."""
    if found is None or wanted is None:
        return None
    dims, element = dims_of(wanted), element_on_cpu(wanted)
    if isinstance(element, ComplexElement) != isinstance(found, Pair):
        raise UnsupportedError(f"{target_of(node)} requires elements of {wanted.dtype}")
    of_parts = element.part if isinstance(element, ComplexElement) else element
    return on_parts(found, lambda part: _fitted(node, part, dims, of_parts))


def _fitted(node: Node, found: Term, dims: list[Expr], element: Attribute) -> Term:
    differences = [one - other for one, other in zip(found.shape, dims, strict=False)]
    if len(dims) != len(found.shape) or any(each.constant for each in differences):
        got = f"{list(map(str, found.shape))}, torch {list(map(str, dims))}"
        raise UnsupportedError(f"{target_of(node)} requires equal shapes, got {got}")
    if any(each.constant is None for each in differences):  # torch knows more of the sizes
        found = found.of(found.b.dynamic_reshape(found.value, shape=shape_attr(dims)))
    return found.cast(element)


def source_line(node: Node) -> str:
    """The last line of the program that led to a node."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else node.name


def walk(
    gm: GraphModule,
    name: str,
    table: AtenTable,
    frozen: Mapping[int, torch.Tensor] | None = None,
    written: Sequence[int] = (),
) -> Walked:
    """A graph of which weft has all, whose last results are written to some inputs. Raises
    WeftError for nodes that weft does not have.
    """
    return Walker(gm, name, table, frozen or {}, written).walk()


class Walker:
    """Walks a graph once."""

    def __init__(
        self,
        gm: GraphModule,
        name: str,
        table: AtenTable,
        frozen: Mapping[int, torch.Tensor],
        written: Sequence[int] = (),
    ) -> None:
        self.gm, self.table, self.frozen, self.written = gm, table, frozen, written
        self.graph = AtenGraph(name, table)
        self.values: dict[Node, Any] = {}
        self.arguments: list[tuple[int, tuple[int, ...] | None]] = []
        self.symbols: dict[str, int] = {}
        self.measured: dict[str, tuple[int, int | None]] = {}
        self.bound: set[str] = set()
        self.floats: list[int] = []
        self.positions: dict[Node, int] = {}

    def walk(self) -> Walked:
        """The graph. Raises WeftError for nodes that weft does not have."""
        placeholders = [node for node in self.gm.graph.nodes if node.op == "placeholder"]
        for position, node in enumerate(placeholders):
            self.positions[node] = position
            self._input(node, position)
        rounded = self._rounded(len(placeholders))
        hidden = self._bind_symbols()
        walk_nodes(self.graph, self.gm, self.values)
        return self._outputs(hidden, rounded)

    def _rounded(self, count: int) -> tuple[Callable[..., int], ...]:
        """Sizes that floats decide are arguments behind the others."""
        found: dict[str, Callable[..., int]] = {}
        for node in self.gm.graph.nodes:
            value = node.meta.get("val")
            for each in value.shape if isinstance(value, torch.Tensor) else (value,):
                found |= rounded_sizes(each)
        own = {name: function for name, function in found.items() if name not in self.bound}
        known = self.measured.keys() | self.symbols.keys()
        for function in own.values():
            lacking = set(signature(function).parameters) - known
            if lacking:
                raise UnsupportedError(f"a size requires symbols of arguments, got {lacking}")
        self.symbols |= {name: count + number for number, name in enumerate(own)}
        return tuple(own.values())

    def _input(self, node: Node, position: int) -> None:
        value = node.meta.get("val")
        if is_size(value):
            expr = size_of(value)
            self.values[node] = expr
            if is_symbol(value):
                self.symbols.setdefault(str(expr), position)
        elif isinstance(value, torch.Tensor) and position in self.frozen:
            self.values[node] = constant(self.graph, node, self.frozen[position])
        elif isinstance(value, torch.Tensor):
            order = memory_order(value)
            dims = dims_of(value)
            moved = order is not None and order != list(range(len(dims)))
            laid_out = [dims[axis] for axis in order] if moved and order else dims
            found = self.graph.input(node.name, element_on_cpu(value), laid_out)
            self.bound |= {str(dim) for dim in dims}
            for axis, size in enumerate(value.shape):
                if is_symbol(size):
                    self.measured.setdefault(str(dims[axis]), (position, axis))
            if moved and order:
                back = inverse(order)
                found = on_parts(found, lambda part: part.transpose(back))
            self.values[node] = found
            self.arguments.append((position, tuple(order) if moved and order else None))
        elif isinstance(value, torch.SymFloat):
            self.values[node] = self.graph.input(node.name, F64, [])
            self.arguments.append((position, None))
            self.floats.append(position)
        else:
            self.values[node] = None

    def _bind_symbols(self) -> tuple[int, ...]:
        """A tensor without elements brings along a size that no other input has as a dim."""
        hidden: list[int] = []
        for name, position in self.symbols.items():
            if name not in self.bound:
                self.graph.input(f"size_{name}", BOOL, [Expr.of(name), Expr.of(0)])
                hidden.append(position)
        return tuple(hidden)

    def _outputs(self, hidden: tuple[int, ...], rounded: tuple[Callable[..., int], ...]) -> Walked:
        (node,) = self.gm.graph.find_nodes(op="output")
        given = node.args[0]
        several = isinstance(given, list | tuple)
        results: Sequence[Any] = given if several else [given]
        first = len(results) - len(self.written)
        written = {first + number: at for number, at in enumerate(self.written)}
        outputs = Outputs(self.gm.graph, self.values, self.positions, written)
        found = outputs.all(results)
        names = self.graph.input_names
        taken = {position: names[number] for number, (position, _) in enumerate(self.arguments)}
        donated = {taken[position]: name for name, position in outputs.donated.items()}
        terms = outputs.terms.values()
        pairs = tuple(at for at, each in enumerate(terms) if isinstance(each, Pair))
        given_pairs = any(isinstance(self.values[node], Pair) for node in self.positions)
        return Walked(
            self.graph.imported(outputs.terms, donated=donated),
            tuple(self.arguments),
            self.measured | {name: (at, None) for name, at in self.symbols.items()},
            found,
            not several,
            hidden,
            len(self.positions) + len(rounded),
            tuple(self.floats),
            tuple(self.written),
            pairs,
            not pairs and not given_pairs,
            rounded,
        )


def region_of(node: Node) -> GraphModule | None:
    """The graph that a node names, as a region of control flow."""
    if node.op != "get_attr":
        return None
    found = _attribute(node.graph.owning_module, target_of(node))
    return found if isinstance(found, GraphModule) else None


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
