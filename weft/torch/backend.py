"""The backend of torch.compile: graphs are traced by AOTAutograd, partitioned and compiled."""

from __future__ import annotations

import gc
import operator
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from typing import Any, Final

import torch
from functorch.compile import min_cut_rematerialization_partition
from msgspec import Struct
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from weft.compiler.frontend.torch.operands import AtenTable
from weft.compiler.frontend.torch.table import ATEN
from weft.dialects.errors import ModelWarning, OptionError, UnsupportedError, WeftError
from weft.torch.call import CompiledGraph
from weft.torch.decompositions import decompositions
from weft.torch.probing import reason_against
from weft.torch.random_numbers import draw_first
from weft.torch.report import Refusal, current, listed
from weft.torch.tensors import is_symbol, may_be_negative, symbols_of
from weft.torch.walker import is_size, region_of, source_line, target_of, walk
from weft.torch.writes import Boxed, boxed, other_writes, take_writes, writing

OPTIONS: Final = ("fallback", "freeze", "operators", "threads")
FALLBACKS: Final = ("partition", "error")
FROZEN_COPIES: Final = 4
"""How many sets of parameters a graph keeps constants of: the last ones that it was called with."""


class Settings(Struct, frozen=True):
    """What a compilation is told: threads, those of torch at each call if None; what becomes of
    operators that weft lacks; and the table.
    """

    threads: int | None
    fallback: str
    table: AtenTable


_frozen: weakref.WeakSet[FrozenGraph] = weakref.WeakSet()


def backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of Dynamo's. Options: `fallback` says whether operators that weft lacks
    stay in torch ("partition", with a warning that lists them) or are an error; `freeze` makes
    parameters constants, in inference; `threads` compute a call, by default torch's number;
    `operators` are further entries of the table, by overload.

    Raises OptionError for other options, UnsupportedError that lists every operator.
    """
    chosen = dict(options or {})
    unknown = sorted(set(chosen) - set(OPTIONS))
    if unknown:
        raise OptionError(f"weft requires options out of {', '.join(OPTIONS)}, got {unknown}")
    fallback = chosen.get("fallback", "partition")
    if fallback not in FALLBACKS:
        raise OptionError(f"fallback requires one of {', '.join(FALLBACKS)}, got {fallback!r}")
    for each in example_inputs:
        if isinstance(each, torch.Tensor) and (each.is_nested or each.layout is not torch.strided):
            got = "a nested one" if each.is_nested else each.layout
            raise UnsupportedError(f"weft requires dense tensors, got {got}")
    threads = chosen.get("threads")
    table = {**ATEN, **chosen.get("operators", {})}
    settings = Settings(None if threads is None else int(threads), fallback, table)

    def compiled(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(graph, settings)

    def inference(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        static = _static_inputs(graph, example_inputs) if chosen.get("freeze") else {}
        if not static:
            return compiled(graph, inputs)
        frozen = FrozenGraph(graph, static, settings)
        _frozen.add(frozen)
        return frozen

    build = aot_autograd(
        fw_compiler=compiled,
        bw_compiler=compiled,
        inference_compiler=inference,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions(table),
        keep_inference_input_mutations=True,
    )
    return build(gm, list(example_inputs))


def _by_torch(gm: GraphModule) -> Boxed:
    """A graph whose nodes torch calls, as it is now."""

    def call(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        arguments.clear()
        return gm(*given)

    return boxed(call)


def _static_inputs(graph: GraphModule, examples: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The parameters and buffers among the inputs, by position."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    count = len(graph.graph.find_nodes(op="placeholder"))
    if metadata is None or count != len(examples):
        rule = "freeze requires a graph whose inputs are those that Dynamo gives"
        warnings.warn(f"{rule}, got others: parameters stay inputs", ModelWarning, stacklevel=2)
        return {}
    positions = metadata.static_input_indices
    mutated = [info.mutates_data for info in metadata.input_info]
    return {
        at: examples[at]
        for at in positions
        if isinstance(examples[at], torch.Tensor) and not (at < len(mutated) and mutated[at])
    }


class FrozenGraph:
    """A graph whose parameters are constants, until they are renewed. Another parameter in the
    place of one, as that of a copy of the model, has constants of its own.
    """

    _boxed_call = True

    def __init__(
        self, graph: GraphModule, static: dict[int, torch.Tensor], settings: Settings
    ) -> None:
        self._graph, self._settings = graph, settings
        self._positions = tuple(static)
        self._kept: dict[tuple[int, ...], tuple[Sequence[torch.Tensor], Boxed]] = {}
        self._compile(tuple(static.values()))

    def _compile(self, tensors: Sequence[torch.Tensor]) -> Boxed:
        graph = GraphModule(self._graph, deepcopy(self._graph.graph))
        static = dict(zip(self._positions, tensors, strict=True))
        function = compile_graph(graph, self._settings, static)
        key = tuple(map(id, tensors))
        earlier = self._kept.pop(key, None)
        self._kept[key] = tensors, function
        if len(self._kept) > FROZEN_COPIES:
            earlier = self._kept.pop(next(iter(self._kept)))
        if earlier is not None:
            del earlier
            gc.collect()  # its constants are in cycles, which a program of few objects keeps
        return function

    def __call__(self, arguments: list[Any]) -> Any:
        given = [arguments[position] for position in self._positions]
        found = self._kept.get(tuple(map(id, given)))
        return (self._compile(given) if found is None else found[1])(arguments)

    def refresh(self, own: set[int]) -> bool:
        """Compiles again with the values that parameters have now, where some of them, by their
        ids, are kept; returns whether there were any.
        """
        found = [tensors for key, (tensors, _) in self._kept.items() if own & set(key)]
        for tensors in found:
            self._compile(tensors)
        return bool(found)


def refresh(model: torch.nn.Module) -> int:
    """Renews what frozen graphs keep of a model's parameters and buffers; returns how many graphs
    have some.
    """
    own = {id(each) for each in (*model.parameters(), *model.buffers())}
    return sum(graph.refresh(own) for graph in list(_frozen))


class _Support(OperatorSupportBase):
    def __init__(self, refused: Mapping[Node, str]) -> None:
        self._refused = refused

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        if region_of(node) is not None:  # it goes where the operator goes that it is a region of
            return all(self.is_node_supported(submodules, user) for user in node.users)
        return node.op == "call_function" and node not in self._refused


def compile_graph(
    gm: GraphModule,
    settings: Settings,
    frozen: Mapping[int, torch.Tensor] | None = None,
) -> Boxed:
    """A graph of ATen operators as a function of a list. Random numbers are drawn by torch in
    front of it; what weft lacks stays in torch, or is an error that lists all of it.
    """
    written = take_writes(gm)
    others = other_writes(gm)
    if others:
        rule = "requires writes into inputs alone"
        _report(gm, dict.fromkeys(others, rule), settings.fallback)
        return writing(_by_torch(gm), written)
    placeholders = gm.graph.find_nodes(op="placeholder")
    signed = [at for at, e in enumerate(placeholders) if may_be_negative(e.meta.get("val"))]
    whole = GraphModule(gm, deepcopy(gm.graph)) if signed else gm
    drawn = draw_first(gm, settings.table)
    found = None if drawn else _whole(gm, settings, frozen, written)
    if found is None:
        refused = _refused(gm, drawn, settings)
        if refused:
            found = _partitioned(gm, refused, settings)
        else:
            found = _compiled(gm, "graph", settings, frozen, written)
    signed = [at for at in signed if may_be_negative(placeholders[at].meta["val"])]
    if written and not isinstance(found, CompiledGraph):
        found = writing(found, written)
    return _unless_negative(found, writing(_by_torch(whole), written), signed) if signed else found


def _whole(
    gm: GraphModule,
    settings: Settings,
    frozen: Mapping[int, torch.Tensor] | None,
    written: Sequence[int],
) -> CompiledGraph | None:
    """A graph of which weft has all; None for another."""
    try:
        walked = walk(gm, "graph", settings.table, frozen, written)
    except WeftError:
        return None
    _report(gm, {}, settings.fallback)
    return CompiledGraph(walked, settings.threads)


def _refused(gm: GraphModule, drawn: set[Node], settings: Settings) -> dict[Node, str]:
    """The nodes that stay in torch, with the reason where it is their own; they are reported."""
    refused = {
        node: reason
        for node in gm.graph.nodes
        if node.op == "call_function"
        and node not in drawn
        and (reason := reason_against(node, settings.table)) is not None
    }
    for node in gm.graph.nodes:  # results of an operator stay where it does
        if node.target is operator.getitem and node.args[0] in (refused.keys() | drawn):
            refused[node] = ""
    _report(gm, refused, settings.fallback)
    return refused | dict.fromkeys(drawn, "")


def _compiled(
    gm: GraphModule,
    name: str,
    settings: Settings,
    frozen: Mapping[int, torch.Tensor] | None = None,
    written: Sequence[int] = (),
) -> CompiledGraph:
    return CompiledGraph(walk(gm, name, settings.table, frozen, written), settings.threads)


def _unless_negative(function: Boxed, by_torch: Boxed, signed: Sequence[int]) -> Boxed:
    """Sizes are at least 0: a call with a negative integer is torch's."""

    def call(arguments: list[Any]) -> Any:
        if all(arguments[at] >= 0 for at in signed):
            return function(arguments)
        warnings.warn(
            "weft: a call with a negative integer stays in torch", ModelWarning, stacklevel=2
        )
        return by_torch(arguments)

    return boxed(call)


def _report(gm: GraphModule, refused: Mapping[Node, str], fallback: str) -> None:
    found = [
        Refusal(target_of(node), reason.removeprefix(f"{target_of(node)}: "), source_line(node))
        for node, reason in refused.items()
        if reason
    ]
    if found and fallback == "error":
        raise UnsupportedError(f"weft requires operators that it has; {listed(found)}")
    report = current()
    if report is not None:
        report.graphs += 1
        calls = [node for node in gm.graph.nodes if node.op == "call_function"]
        report.operators += len([node for node in calls if not is_size(node.meta.get("val"))])
        report.refused += found
    elif found:
        warnings.warn(f"weft: {listed(found)}", ModelWarning, stacklevel=2)


def _partitioned(gm: GraphModule, refused: Mapping[Node, str], settings: Settings) -> Boxed:
    """The graph with parts that weft computes."""
    partitioner = CapabilityBasedPartitioner(
        gm, _Support(refused), allows_single_node_partition=True
    )
    partitions = partitioner.propose_partitions()
    fused = partitioner.fuse_partitions(partitions, prefix="weft_")
    for name, part in list(fused.named_children()):
        if name.startswith("weft_"):
            _compile_part(fused, name, part, settings)
    fused.recompile()
    return _by_torch(fused)


def _compile_part(fused: GraphModule, name: str, part: Any, settings: Settings) -> None:
    """A part as a compiled function in its place; sizes that none of its tensors has as a dim are
    brought along.
    """
    (node,) = fused.graph.find_nodes(op="call_module", target=name)
    sizes = _lacking_sizes(fused, part, node)
    for size in sizes:
        with part.graph.inserting_before(next(iter(part.graph.nodes))):
            part.graph.placeholder(size.name).meta = dict(size.meta)
    function = _compiled(part, name, settings)
    with fused.graph.inserting_before(node):
        new = fused.graph.call_function(_Part(name, function), (*reversed(sizes), *node.args))
    node.replace_all_uses_with(new)
    fused.graph.erase_node(node)
    delattr(fused, name)


def _lacking_sizes(fused: GraphModule, part: Any, node: Node) -> list[Node]:
    """The numbers of a whole graph, in front of the part's node, that are symbols which the part
    computes with and is not given.
    """
    own = [each.meta.get("val") for each in part.graph.find_nodes(op="placeholder")]
    dims = [size for each in own if isinstance(each, torch.Tensor) for size in each.shape]
    given = {name for each in [*own, *dims] if is_symbol(each) for name in symbols_of(each)}
    used = {name for each in part.graph.nodes for name in symbols_of(each.meta.get("val"))}
    earlier = takewhile(lambda each: each is not node, fused.graph.nodes)
    lacking = {
        str(each.meta["val"]): each
        for each in earlier
        if is_symbol(each.meta.get("val")) and symbols_of(each.meta["val"]) <= used - given
    }
    return list(lacking.values())


class _Part:
    """A compiled part as FX calls functions: by a name of its own."""

    def __init__(self, name: str, function: CompiledGraph) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = __name__
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        found = self._function(list(arguments))
        return found[0] if self._function.tuple_of_one else found
