"""The functions of a StableHLO module -> operators of one graph function: calls are inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.frontend.onnx.constant_values import ConstantValues
from weft.compiler.frontend.stablehlo.node import HloImporter, ImporterTable, Node
from weft.compiler.frontend.stablehlo.ops.narrow import BY_THEMSELVES, in_wide, is_narrow
from weft.compiler.frontend.stablehlo.types import Declared, is_complex, parts_of, quantization
from weft.dialects.budget import Budget
from weft.dialects.errors import ModelError, TypeInferenceError, UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.stablehlo.op import HloOp
from weft.dialects.weights import Array, WeightStore


class ModuleImporter(Struct):
    """Imports the functions of a module with the importers of a table."""

    functions: dict[str, FuncOp]
    table: ImporterTable
    complex_importer: Callable[[HloOp], HloImporter]
    quantized_importer: Callable[[HloOp], HloImporter]
    of_scalars: AbstractSet[str]
    store: WeightStore
    budget: Budget
    elided: Mapping[Operation, Array]
    constants: ConstantValues
    failed: bool = False
    values: dict[SSAValue, list[Term]] = field(default_factory=dict[SSAValue, list[Term]])
    names: set[str] = field(default_factory=set[str])
    calls: list[str] = field(default_factory=list[str])

    def fresh_name(self, stem: str) -> str:
        """A name that no size has yet."""
        name, count = stem, 0
        while name in self.names:
            count += 1
            name = f"{stem}_{count}"
        self.names.add(name)
        return name

    def call(
        self, name: str, arguments: Sequence[Term], b: GraphBuilder, *, elementwise: bool = False
    ) -> list[Term]:
        """What a function returns, imported where it is called."""
        function = self.functions.get(name)
        if function is None:
            raise ModelError(f"requires a function of the module, got @{name}")
        if name in self.calls:
            raise ModelError(f"requires functions that do not call themselves, got @{name}")
        self.calls.append(name)
        results = self.import_block(function.body.block, arguments, b, elementwise=elementwise)
        self.calls.pop()
        return results

    def import_block(
        self,
        block: Block,
        arguments: Sequence[Term],
        b: GraphBuilder,
        *,
        elementwise: bool = False,
        wanted: Sequence[SSAValue] | None = None,
    ) -> list[Term]:
        """What a block hands back for these arguments, or values of its own."""
        outer = dict(self.values)
        self._assign(block.args, [Term(b, each.value) for each in arguments])
        returned: Sequence[SSAValue] = []
        for op in block.ops:
            if isinstance(op, ReturnOp) or op.name == "stablehlo.return":
                returned = op.operands
            else:
                self._import(op, b, elementwise)
        found = [
            term
            for each in (returned if wanted is None else wanted)
            for term in self.value(each, b)
        ]
        self.values = outer
        return found

    def value(self, value: SSAValue, b: GraphBuilder) -> list[Term]:
        """The tensors of the graph that a value is, used by a builder."""
        return [Term(b, each.value) for each in self.values[value]]

    def _assign(self, values: Sequence[SSAValue], terms: Sequence[Term]) -> None:
        """Notes what values are: none for a token, two tensors for complex numbers."""
        counts = [parts_of(each.type) for each in values]
        if sum(counts) != len(terms):
            raise ModelError(f"requires {sum(counts)} values, got {len(terms)}")
        remaining = iter(terms)
        for value, count in zip(values, counts, strict=True):
            self.values[value] = [next(remaining) for _ in range(count)]

    def _import(self, op: Operation, b: GraphBuilder, elementwise: bool) -> None:
        """Imports one operator. Errors name it."""
        operands = [term for each in op.operands for term in self.value(each, b)]
        self.budget.spend_nodes()
        if isinstance(op, CallOp):
            name = op.callee.root_reference.data
            found: Sequence[Term] = self.call(name, operands, b, elementwise=elementwise)
        else:
            assert isinstance(op, HloOp), "other operators are refused before"
            found = self._operator(op, operands, b, elementwise)
        self._assign(op.results, found)

    def _operator(
        self, op: HloOp, operands: list[Term], b: GraphBuilder, elementwise: bool
    ) -> Sequence[Term]:
        """What an operator of StableHLO becomes. Errors name the innermost that fails."""
        location, b.location = b.location, NameLoc(StringAttr(label(op)), NoneAttr())
        try:
            if elementwise and op.name not in self.of_scalars:
                raise UnsupportedError("requires a body of operators on each element")
            node = Node(self, op, b, operands, elementwise)
            found = self._importer(op)(node)
            check_types(node.results, found, elementwise)
            return found
        except (ModelError, TypeInferenceError, UnsupportedError) as error:
            if self.failed:
                raise
            self.failed = True
            raise type(error)(f"{label(op)} {error}") from error
        finally:
            b.location = location

    def _importer(self, op: HloOp) -> HloImporter:
        """What imports an operator; narrow types are computed in wider ones."""
        importer = self._of_numbers(op)
        narrow = op.name not in BY_THEMSELVES and is_narrow(op)
        return in_wide(importer) if narrow else importer

    def _of_numbers(self, op: HloOp) -> HloImporter:
        """What imports an operator; of complex numbers and quantised ones another function."""
        values = (*op.operands, *op.results)
        if any(quantization(each.type) is not None for each in values):
            return self.quantized_importer(op)
        involved = any(is_complex(each.type) for each in values)
        return self.complex_importer(op) if involved else self.table[op.name]


def label(op: Operation) -> str:
    """How errors and kernels call an operator: by its name and that of its first result."""
    hint = op.results[0].name_hint if op.results else None
    return f"{op.name} %{hint}" if hint else op.name


def check_types(results: Sequence[Declared], found: Sequence[Term], elementwise: bool) -> None:
    """Refuses an operator whose results are not of the types that it is written with."""
    if len(results) != len(found):
        raise ModelError(f"requires {len(found)} results, got {len(results)}")
    for wanted, term in zip(results, found, strict=True):
        same = wanted.element == term.type.element
        if not elementwise:
            same = same and len(wanted.shape) == len(term.shape)
            pairs = zip(wanted.shape, term.shape, strict=False)
            same = same and all(dim is None or size.constant in (dim, None) for dim, size in pairs)
        if not same:
            got = f"{list(wanted.shape)} {wanted.element}"
            raise ModelError(f"requires a result of {term.type}, got {got}")


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The functions of a module by their names."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
