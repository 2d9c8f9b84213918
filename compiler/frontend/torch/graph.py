"""`AtenGraph`: a graph of ATen operators in the making, which both readers write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.rewriter import InsertPoint

from weft.compiler.frontend.imported import MAIN, ImportedModel
from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair
from weft.compiler.frontend.torch.operands import AtenTable, Results
from weft.compiler.frontend.torch.ops.complex_numbers import (
    OF_PAIRS,
    ComplexElement,
    complex_form,
    interleaved,
    is_complex,
    on_parts,
    separated,
)
from weft.compiler.frontend.torch.table import ATEN
from weft.dialects.errors import UnsupportedError, WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS, ConditionOp, IfOp, WhileOp, YieldOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, tensor, type_of
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.loop.program import BOUNDS, DONATED
from weft.dialects.loop.types import ExprsAttr
from weft.dialects.weights import Array, WeightStore

Body = Callable[["AtenGraph", Sequence[Any]], Sequence[Term]]
"""Fills a region of a graph, and gives what it computes of its arguments."""

_OPS: Final = {op.name.removeprefix("graph."): op for op in OPS}


class AtenGraph:
    """Inputs, operators by the table and outputs, in the order of the program."""

    def __init__(self, name: str, table: AtenTable = ATEN) -> None:
        self.name = name
        self.table = table
        self.weights = WeightStore()
        self._block = Block()
        self._loops: list[str] = []
        self.input_names: list[str] = []

    @property
    def sizes(self) -> set[str]:
        """The names of the inputs' sizes."""
        dims = [dim for argument in self._block.args for dim in type_of(argument).shape]
        return {str(dim) for dim in dims if dim.constant is None}

    def builder(self, line: str = "") -> GraphBuilder:
        """Appends operators that know a line of the user's program."""
        location: LocationAttr | None = NameLoc(StringAttr(line), NoneAttr()) if line else None
        return GraphBuilder(InsertPoint.at_end(self._block), _OPS, location)

    def input(self, name: str, element: Attribute | ComplexElement, dims: Sequence[Expr]) -> Any:
        """A further input, a term; of complex numbers a pair of those that its last axis holds."""
        if isinstance(element, ComplexElement):
            return separated(self.input(name, element.part, [*dims, Expr.of(2)]))
        value = self._block.insert_arg(tensor(dims, element), len(self._block.args))
        value.name_hint = re.sub(r"[^A-Za-z0-9_$.-]", "_", name)
        self.input_names.append(name)
        return Term(self.builder(), value)

    def constant(self, name: str, array: Array) -> Term:
        """A tensor that is part of the graph."""
        b = self.builder()
        op = ConstantOp.stored(name, array, self.weights, b.location)
        return Term(b, b.builder.insert(op).results[0])

    def control(self, target: str, given: Sequence[Any], line: str = "") -> list[Term]:
        """What an operator of torch's control flow gives, whose regions are bodies. Raises
        UnsupportedError for another, and for integers in the place of tensors.
        """
        match target, given:
            case "cond", [Term() as predicate, then, otherwise, operands]:
                return self._branch(predicate, (then, otherwise), operands, line)
            case "while_loop", [condition, body, state, operands] if all(
                isinstance(each, Term) for each in state
            ):
                return self._loop(condition, body, state, operands, line)
            case _:
                rule = "requires cond or while_loop of tensors"
                raise UnsupportedError(f"{target} {rule}, got other control flow or integers")

    def _branch(
        self, predicate: Term, bodies: Sequence[Body], operands: Sequence[Any], line: str
    ) -> list[Term]:
        """What the first body gives where the predicate, one bool, holds, else what the second
        gives, of the same types.
        """
        first, second = (self._region((), YieldOp, body, operands) for body in bodies)
        b = self.builder(line)
        held = Term(b, predicate.value).reshape([]).cast(BOOL)
        op = IfOp.of(held.value, first, second, location=b.location)
        return [Term(b, each) for each in b.builder.insert(op).results]

    def _loop(
        self,
        condition: Body,
        body: Body,
        state: Sequence[Term],
        operands: Sequence[Any],
        line: str,
    ) -> list[Term]:
        """The state after as many iterations of the body as the condition holds of it."""
        index, count = (f"{stem}_{len(self._loops)}" for stem in ("iteration", "iterations"))
        self._loops.append(index)
        types = [each.value.type for each in state]
        test = self._region(types, ConditionOp, condition, operands)
        step = self._region(types, YieldOp, body, operands)
        b = self.builder(line)
        values = [each.value for each in state]
        op = WhileOp.of(index, count, values, test, step, location=b.location)
        return [Term(b, each) for each in b.builder.insert(op).results]

    def _region(
        self, types: Sequence[Attribute], end: type[Operation], body: Body, operands: Sequence[Any]
    ) -> Block:
        """A block whose arguments stand in front of the operands that a body takes."""
        inner = AtenGraph(self.name, self.table)
        inner.weights, inner._loops, inner._block = (
            self.weights,
            self._loops,
            Block(arg_types=types),
        )
        own = [Term(inner.builder(), each) for each in inner._block.args]
        found = body(inner, [*own, *operands])
        inner._block.add_op(end.create(operands=[each.value for each in found]))
        return inner._block

    def call(
        self, target: str, arguments: Sequence[Any], named: Mapping[str, Any], line: str = ""
    ) -> Results:
        """What an overload gives. Raises WeftError that names it and the rule."""
        pairs = target in OF_PAIRS or is_complex([*arguments, *named.values()])
        if not pairs and target not in self.table:
            raise UnsupportedError(f"{target} requires an operator that weft has")
        b = self.builder(line)
        try:
            if pairs:
                form = complex_form(target, self.table, partial(self.constant, "roots"))
            else:
                form = self.table[target]
            return form(b, *_bound(b, list(arguments)), **_bound(b, dict(named)))
        except WeftError as error:
            raise type(error)(f"{target}: {error}") from error
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            raise UnsupportedError(f"{target} requires other arguments: {error}") from error

    def imported(
        self,
        outputs: Mapping[str, Term | Pair],
        bounds: Mapping[str, tuple[int, int]] | None = None,
        donated: Mapping[str, str] | None = None,
    ) -> ImportedModel:
        """The graph as front ends hand it on: with the least and greatest value of sizes, and the
        inputs whose memory outputs take. Complex outputs hold both parts along a last axis.
        """
        found = [interleaved(e) if isinstance(e, Pair) else e for e in outputs.values()]
        self._block.add_op(ReturnOp(*(each.value for each in found)))
        types = [arg.type for arg in self._block.args], [each.value.type for each in found]
        main = FuncOp(MAIN, types, Region(self._block))
        main.attributes["input_names"] = _strings(self.input_names)
        main.attributes["output_names"] = _strings(list(outputs))
        main.attributes["model_name"] = StringAttr(self.name)
        if bounds:
            main.attributes[BOUNDS] = DictionaryAttr(
                {name: ExprsAttr(tuple(map(Expr.of, pair))) for name, pair in bounds.items()}
            )
        if donated:
            positions = [
                (self.input_names.index(source), list(outputs).index(target))
                for source, target in donated.items()
            ]
            main.attributes[DONATED] = ArrayAttr(
                [ArrayAttr([IntAttr(one), IntAttr(other)]) for one, other in positions]
            )
        names = tuple(self.input_names), tuple(outputs)
        return ImportedModel(ModuleOp([main]), self.weights, self.name, *names)


def _bound(b: GraphBuilder, value: Any) -> Any:
    """Arguments whose tensors insert what is computed from them at this operator; sizes that do not
    vary are ints.
    """
    if isinstance(value, Term | Pair):
        return on_parts(value, lambda part: Term(b, part.value))
    if isinstance(value, Expr) and value.constant is not None:
        return value.constant
    if isinstance(value, list | tuple):
        return [_bound(b, each) for each in value]
    if isinstance(value, dict):
        return {key: _bound(b, each) for key, each in value.items()}
    return value


def _strings(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(text) for text in texts])
