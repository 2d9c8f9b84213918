"""Nodes of an ONNX graph -> graph operators, one block; what cannot be imported is collected."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from onnx import GraphProto, NodeProto, TypeProto
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.frontend.onnx.branches import SizeNames, joined_sizes
from weft.compiler.frontend.onnx.constant_values import ConstantValues, OpenAxes
from weft.compiler.frontend.onnx.declared import check_declared
from weft.compiler.frontend.onnx.declared_ranks import DeclaredRanks
from weft.compiler.frontend.onnx.failure import Failure, lacking, undecided
from weft.compiler.frontend.onnx.function_bodies import has_body
from weft.compiler.frontend.onnx.graph import inner_names, used_names
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.node import Importer, ImporterTable, OnnxNode
from weft.compiler.frontend.onnx.one_to_one import import_one_to_one
from weft.compiler.frontend.onnx.open_axes import Choice, FoundAxes
from weft.compiler.frontend.onnx.opset import expand_function_op, fresh_names, newest_opset
from weft.compiler.frontend.onnx.rules import check_rules
from weft.compiler.frontend.onnx.shared_sizes import with_shared_sizes
from weft.compiler.frontend.onnx.signature import SymbolNames, name_hint, type_proto
from weft.compiler.frontend.onnx.strings.model_strings import Strings
from weft.compiler.frontend.onnx.strings.moves import move_spans
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.compiler.frontend.onnx.value_numbers import ValueNumbers
from weft.compiler.frontend.onnx.values import Results, Value, tensor_of, tensors_of
from weft.dialects.errors import ModelError, TypeInferenceError, UnsupportedError, WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph import BindSizesOp, CaseOp, ConstantOp, GraphOp, YieldOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64, TensorType, type_of
from weft.dialects.weights import Array, WeightStore

Values = ChainMap[str, Value | None]
"""Graph values by ONNX name; None for the outputs of a node that could not be imported."""

TRAINING = "ai.onnx.preview.training"

IMPORT_ERRORS = (UnsupportedError, TypeInferenceError, ModelError)


class GraphImporter:
    """Inserts what nodes compute at the end of one block.

    An operator is imported by its entry in `composites`, else as the graph operator that bears its
    name, else through the function body that ONNX defines it by. Those in `control` need more of
    the graph than tensors: subgraphs, sequences, sizes that depend on data. `tried` has the
    branches that are tried of Ifs, `watched` the values of subgraphs that get a `graph.watch`.
    """

    def __init__(
        self,
        model: LoadedModel,
        ops: Sequence[type[GraphOp]],
        composites: ImporterTable,
        control: ControlTable,
        symbols: SymbolNames,
        store: WeightStore | None = None,
        tried: dict[str, int] | None = None,
        watched: Collection[str] = (),
    ) -> None:
        self.model = model
        self.composites = composites
        self.control = control
        self.one_to_one = {(op.ONNX.domain, op.ONNX.name): op for op in ops if op.ONNX}
        self.store = WeightStore() if store is None else store
        self.constants = ConstantValues(self.store)
        self.names = fresh_names(model)
        self.block: Block = Block()
        by_name = {op.name.removeprefix("graph."): op for op in ops}
        self.b: GraphBuilder = GraphBuilder(InsertPoint.at_end(self.block), by_name)
        self.root = self.b
        self.values: Values = ChainMap({})
        self.symbols = symbols
        self.ranks = DeclaredRanks(model, self.one_to_one)
        self.strings = Strings(model)
        self.maps: dict[str, Sequence[str | int]] = {}
        self.used: set[str] = set()
        self.numbers = ValueNumbers()
        self.found: ChainMap[int, str] = ChainMap({})
        self.failures: list[Failure] = []
        self.warnings: dict[str, None] = {}
        self.count = 0
        self.tried, self.watched = {} if tried is None else tried, frozenset(watched)

    def import_nodes(self, nodes: Sequence[NodeProto], outputs: Sequence[str]) -> None:
        """Imports those of the (sorted) nodes that the outputs depend on."""
        needed = {*outputs, *self.watched}
        live: list[NodeProto] = []
        for node in reversed(nodes):
            given = [*node.output, *inner_names(node)] if self.watched else node.output
            if not needed.isdisjoint(given):
                live.append(node)
                needed |= used_names(node)
        self.used |= needed
        for node in reversed(live):
            last = self.block.last_op
            self._import_node(node)
            if self.b is self.root:
                self.constants.learn(self.block, last)

    def value(self, name: str) -> SSAValue | None:
        """The tensor of that name; raises UnsupportedError for sequences and empty optionals."""
        value = self.lookup(name)
        return None if value is None else tensor_of(value)

    def lookup(self, name: str) -> Value | None:
        """The value of that name; an initialiser becomes a constant when it is first asked for."""
        if self.strings.get(name) is not None:
            raise UnsupportedError(f"requires numbers or bools, got the strings of '{name}'")
        if name not in self.values:
            initializer = self.model.initializers[name]
            array = tensor_array(initializer.tensor, self.model.base_dir, initializer.payload)
            self.values.maps[-1][name] = self.insert_constant(self.root, name, array)
        return self.values[name]

    def has_value(self, name: str) -> bool:
        """Whether the value of that name was imported."""
        return self.strings.get(name) is not None or self.values.get(name) is not None

    def declared_value(self, name: str) -> Value | None:
        """The value of that name, if it is what ONNX takes it for: strings are numbers here."""
        return None if self.strings.are_numbers(name) else self.values.get(name)

    def insert_constant(self, b: GraphBuilder, name: str, array: Array) -> SSAValue:
        """The constant of an array that the file calls by a name."""
        constant = b.builder.insert(ConstantOp.given(name, array, self.store)).results[0]
        constant.name_hint = name_hint(name)
        return constant

    # One node ---------------------------------------------------------------------------------

    def _import_node(self, node: NodeProto) -> None:
        """Defines the node's outputs; where that fails, notes why and defines them as None."""
        if not node.name:
            node.name = f"{node.op_type}_{self.count}"
        self.count += 1
        self.store.budget.spend_nodes()
        is_checked = False
        try:
            numbered = self.strings.read_numbers(node)
            if numbered:
                self.strings.require_readable(node)
            elif self.strings.concern(node):
                return self._import_strings(node)
            operands = [self._operand(name, numbered) if name else None for name in node.input]
            if None in [each for name, each in zip(node.input, operands, strict=True) if name]:
                return self._skip(node)
            check_rules(node, operands)
            is_checked = True
            if numbered:
                self._move_strings(node, operands)
            self._import_on(node, operands)
        except IMPORT_ERRORS as error:
            breaks_rule = is_checked and isinstance(error, ModelError | TypeInferenceError)
            error = undecided(error, [self.values.get(name) for name in node.input])
            self._fail(node, error, breaks_rule)
        return None

    def _import_on(self, node: NodeProto, operands: Sequence[Value | None]) -> None:
        if self._is_control(node, operands):
            return self._import_control(node, operands)
        return self._import_operator(node, tensors_of(operands))

    def _move_strings(self, node: NodeProto, operands: Sequence[Value | None]) -> None:
        """Notes which outputs are strings, and where each of them starts and ends."""

        def results(others: Sequence[SSAValue | None]) -> list[Value | None]:
            self._import_on(node, others)
            return [self.values.get(name) for name in node.output]

        move_spans(self._view(node, tensors_of(operands)), results)
        self.strings.note_moved(node)

    def _operand(self, name: str, numbered: bool) -> Value | None:
        """A value; known strings are numbers beside others that are."""
        array = self.strings.get(name) if numbered else None
        if array is None:
            return self.lookup(name)
        return self.insert_constant(self.b, name, self.strings.vocabulary.numbers(array))

    def _import_strings(self, node: NodeProto) -> None:
        """Defines the outputs of an operator on strings, whose operands must be known."""
        if node.domain not in ("", "ai.onnx.ml"):
            raise lacking(node)
        arrays: list[Array | None] = []
        for name in node.input:
            array = self.strings.get(name) if name else None
            if name and array is None:
                if (value := self.value(name)) is None:
                    return self._skip(node)
                array = self.constants.constant_array(value)
                if array is None:
                    rule = "requires operands that are known while compiling, beside strings"
                    raise UnsupportedError(f"{rule}, got {type_of(value)}")
            arrays.append(array)
        results = self.strings.evaluate(node, arrays)
        for name, result in zip(filter(None, node.output), results, strict=False):
            if not self.strings.define(name, result):
                self.values[name] = self.insert_constant(self.b, name, result)
        return None

    def _fail(self, node: NodeProto, error: WeftError, breaks_rule: bool) -> None:
        self.failures.append(Failure(node, error, breaks_rule))
        self.values |= dict.fromkeys(node.output)

    def _skip(self, node: NodeProto) -> None:
        """A node behind one that failed is reported only if weft lacks the operator altogether."""
        self.values |= dict.fromkeys(node.output)
        known = (node.domain, node.op_type) in self.one_to_one or node.op_type in self.control
        if not known and self._composite(node) is None and not has_body(node):
            raise lacking(node)

    def _composite(self, node: NodeProto) -> Importer | None:
        return self.composites.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)

    def _import_operator(self, node: NodeProto, operands: Sequence[SSAValue | None]) -> None:
        refusal: UnsupportedError | None = None
        importer = self._composite(node) or self._one_to_one(node)
        if importer is not None:
            last = self.block.last_op
            self.b.location = NameLoc(StringAttr(node.name), NoneAttr())
            try:
                return self._define(node, self._results(importer, node, operands))
            except UnsupportedError as error:
                refusal = error
            finally:
                self.b.location = None
            self._erase_after(last)
        self._import_body(node, operands, refusal)
        return None

    def _results(
        self, importer: Importer, node: NodeProto, operands: Sequence[SSAValue | None]
    ) -> Sequence[SSAValue]:
        """What an importer gives; a branch for each choice of axes that a call alone knows."""
        last = self.block.last_op
        view = self._view(node, operands)
        view.operands = with_shared_sizes(view)
        try:
            return importer(view)
        except OpenAxes as open_axes:
            self._erase_after(last)
            return self._chosen(importer, node, operands, open_axes)

    def _chosen(
        self,
        importer: Importer,
        node: NodeProto,
        operands: Sequence[SSAValue | None],
        open_axes: OpenAxes,
    ) -> Sequence[SSAValue]:
        """The results for the axes that a call brings; choices that the node's operands do not
        allow end the call.
        """

        def results(choice: Choice) -> Sequence[SSAValue]:
            chosen = list(operands)
            axes = self.b.constant_of(np.array(choice, np.int64), I64)
            chosen[open_axes.position] = axes
            return self._results(importer, node, chosen)

        found = FoundAxes(self._view(node, operands), open_axes.position, open_axes.rank)
        blocks: dict[Choice, Block] = {}
        refusal: WeftError = open_axes
        for choice in found.choices():
            try:
                with self.nested() as block:
                    block.add_op(YieldOp.create(operands=list(results(choice))))
                blocks[choice] = block
            except IMPORT_ERRORS as error:
                refusal = error
        if not blocks:
            raise refusal
        selector = found.selector(list(blocks))
        if len(blocks) == 1:
            ((choice, block),) = blocks.items()
            block.erase(safe_erase=False)
            return results(choice)
        names = SizeNames(self.fresh_size, f"{node.name}_size")
        sizes = joined_sizes([*blocks.values()], names, self.constants.equal)
        op = CaseOp.of(selector, [*blocks.values()], sizes, self.b.location)
        return self.b.builder.insert(op).results

    def _view(self, node: NodeProto, operands: Sequence[SSAValue | None]) -> OnnxNode:
        def bind(value: SSAValue) -> Expr:
            return self.bind_size(value, f"{node.name}_size")

        return OnnxNode(
            node, operands, self.b, self.constants, self.used, self.model.base_dir, bind,
            self.ranks.of,
            self.strings,
        )  # fmt: skip

    def _define(self, node: NodeProto, results: Sequence[SSAValue]) -> None:
        """Binds the outputs to the results; raises UnsupportedError where a used one is missing."""
        for position, name in enumerate(node.output):
            if position < len(results):
                self.values[name] = results[position]
                _name_value(results[position], name)
            elif name in self.used:
                raise UnsupportedError(f"requires at most {len(results)} outputs, got '{name}' too")

    def _erase_after(self, last: Operation | None) -> None:
        while self.block.last_op is not last:
            op = self.block.last_op
            assert op is not None, "the operation to erase up to is in the block"
            op.detach()
            op.erase()

    def _one_to_one(self, node: NodeProto) -> Importer | None:
        op = self.one_to_one.get((node.domain, node.op_type))
        return None if op is None else partial(import_one_to_one, op)

    # Function bodies --------------------------------------------------------------------------

    def _import_body(
        self, node: NodeProto, operands: Sequence[SSAValue | None], refusal: UnsupportedError | None
    ) -> None:
        """Imports what ONNX defines the operator by; `refusal` stands for failures in that."""
        body = self._body(node, operands) if has_body(node) else None
        if body is None:
            raise refusal or lacking(node)
        failures = len(self.failures)
        self.import_nodes(body, [name for name in node.output if name in self.used])
        if len(self.failures) > failures and refusal is not None:
            del self.failures[failures:]
            raise refusal

    def _body(
        self, node: NodeProto, operands: Sequence[SSAValue | None]
    ) -> Sequence[NodeProto] | None:
        types = [TypeProto() if each is None else type_proto(type_of(each)) for each in operands]
        return expand_function_op(node, newest_opset(), self.names, types)

    # Control flow -----------------------------------------------------------------------------

    def _is_control(self, node: NodeProto, operands: Sequence[Value | None]) -> bool:
        """Whether `control` has the node; its other importers come first, but take tensors only."""
        if node.op_type not in self.control or node.domain not in ("", TRAINING):
            return False
        only_tensors = all(value is None or isinstance(value, SSAValue) for value in operands)
        return self._composite(node) is None or not only_tensors

    def _import_control(self, node: NodeProto, operands: Sequence[Value | None]) -> None:
        """Importers of `control` look up operands that are no tensors."""
        last = self.block.last_op
        self.b.location = NameLoc(StringAttr(node.name), NoneAttr())
        failures = len(self.failures)
        try:
            tensors = [value if isinstance(value, SSAValue) else None for value in operands]
            view = self._view(node, tensors)
            view.operands = with_shared_sizes(view)
            results = self.control[node.op_type](self, view)
        except IMPORT_ERRORS:
            self._erase_after(last)
            raise
        finally:
            self.b.location = None
        if None in results and len(self.failures) == failures:
            raise UnsupportedError("requires results that can be imported, got others")
        for name, value in zip(node.output, results, strict=False):
            self.values[name] = value
            if isinstance(value, SSAValue):
                _name_value(value, name)

    @contextmanager
    def named(self) -> Generator[None]:
        """Names that are given inside hide outer ones, and are forgotten."""
        outside, self.values = self.values, self.values.new_child()
        try:
            yield
        finally:
            self.values = outside

    @contextmanager
    def continued(self, block: Block) -> Generator[None]:
        """Imports at the end of another block."""
        outside = self.block, self.b
        self.block = block
        self.b = GraphBuilder(InsertPoint.at_end(block), outside[1].ops, outside[1].location)
        try:
            yield
        finally:
            self.block, self.b = outside

    @contextmanager
    def nested(self, arguments: Sequence[TensorType] = ()) -> Generator[Block]:
        """Imports into a new block with arguments of these types."""
        block = Block(arg_types=arguments)
        outside, self.found = self.found, self.found.new_child()
        try:
            with self.named(), self.continued(block):
                yield block
        except WeftError:
            block.erase(safe_erase=False)
            raise
        finally:
            self.found = outside

    def import_subgraph(self, graph: GraphProto) -> list[Value | None]:
        """Imports a graph's nodes where the importer stands; returns its outputs."""
        for stored in graph.initializer:
            array = tensor_array(stored, self.model.base_dir)
            self.values[stored.name] = self.insert_constant(self.b, stored.name, array)
        names = [each.name for each in graph.output]
        self.import_nodes(graph.node, names)
        for name in [name for node in graph.node for name in node.output if name in self.watched]:
            if (value := self.value(name)) is not None:
                self.b.watch(value, label=name)
        roles = {"input": graph.input, "output": graph.output, "value": graph.value_info}
        for role, values in roles.items():
            check_declared(values, role, self.declared_value, self.warn)
        return [self.lookup(name) for name in names]

    def warn(self, text: str) -> None:
        """Notes, once, what is not as the model says."""
        self.warnings[text] = None

    def fresh_size(self, stem: str) -> str:
        """A new name for a size that the program finds."""
        return self.symbols.fresh(stem)

    def bind_size(self, value: SSAValue, stem: str) -> Expr:
        """The element of an i64 scalar as a size, once the program has come here; what is computed
        in the same way is the same size.
        """
        number = self.numbers.of(value)
        if number not in self.found:
            self.found[number] = self.fresh_size(stem)
            self.b.builder.insert(BindSizesOp.of(value, [self.found[number]], self.b.location))
        return Expr.of(self.found[number])


ControlTable = Mapping[str, Callable[[GraphImporter, OnnxNode], Results]]
"""Importers by ONNX operator; they are handed the importer of the graph around their node."""


def _name_value(value: SSAValue, name: str) -> None:
    if value.name_hint is None:
        value.name_hint = name_hint(name)
