"""`Graph`: a graph built by hand, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region
from xdsl.utils.exceptions import VerifyException

from weft.array.operators import users_line
from weft.compiler.driver.extension import Extension
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.graph.share_weights import share_weights
from weft.dialects.errors import TypeInferenceError, WeftError
from weft.dialects.graph import OPS, CallOp
from weft.dialects.weights import Array
from weft.tracing.attributes import complete
from weft.tracing.graph_html import graph_html
from weft.tracing.traced import Dim, Recording, Traced, declared


class Graph:
    """Inputs, operators and outputs, in the order of the program that builds them; shapes are
    inferred at once.

    g = weft.Graph("layer")
    x = g.input("x", "float32", ("rows", 4))
    g.output("y", g.op("relu", x @ g.constant(weight) + bias))
    exe = weft.compile(g)
    """

    def __init__(self, name: str = "graph", extensions: Sequence[Extension] = ()) -> None:
        ops = (*OPS, *(op for extension in extensions for op in extension.ops))
        self.name = name
        self._recording = Recording(ops={op.name.removeprefix("graph."): op for op in ops})
        self._inputs: list[str] = []
        self._outputs: dict[str, Traced] = {}
        self._called: dict[Graph, FuncOp] = {}
        self._functions: list[FuncOp] = []

    def input(self, name: str, dtype: str, shape: Sequence[Dim]) -> Traced:
        """A further input; dims are numbers, or names of sizes that each call brings along."""
        if name in self._inputs:
            rule = "an input requires a name of its own"
            raise WeftError(f"{users_line()}: {rule}, got {name!r} twice")
        self._inputs.append(name)
        return self._recording.argument(declared(dtype, shape), name)

    def constant(self, array: Array) -> Traced:
        """A tensor that is part of the graph."""
        return self._recording.constant(np.asarray(array))

    def op(self, name: str, *operands: Traced, **attributes: Any) -> Traced:
        """The first result of the operator of that name, without `graph.` in front. Attributes that
        are absent have ONNX's defaults, where there are such.

        Raises WeftError, which names the line of the program.
        """
        return self.ops(name, *operands, **attributes)[0]

    def ops(self, name: str, *operands: Traced, **attributes: Any) -> list[Traced]:
        """All results of an operator."""
        known, line = self._recording.ops.get(name), users_line()
        if known is not None:
            attributes = complete(known, attributes)
        for each in operands:
            if getattr(each, "recording", None) is not self._recording:
                raise WeftError(f"{line}: {name} requires values of this graph, got {each!r}")
        try:
            return self._recording.results(name, *operands, **attributes)
        except (ValueError, VerifyException) as error:
            raise WeftError(f"{line}: graph.{name} requires other operands: {error}") from error

    def call(self, other: Graph, *operands: Traced) -> list[Traced]:
        """The outputs of another graph, as it is when first called, for these operands as its
        inputs; it may be called any number of times.

        Raises TypeInferenceError, which names the line of the program, for other operands.
        """
        if other not in self._called:
            self._called[other] = self._adopt(other.imported(), f"{other.name}_{len(self._called)}")
        b = self._recording.builder()
        try:
            op = CallOp.of(self._called[other], [each.value for each in operands], b.location)
        except TypeInferenceError as error:
            raise TypeInferenceError(f"{users_line()}: {error}") from error
        b.builder.insert(op)
        return [Traced(self._recording, result) for result in op.results_]

    def _adopt(self, other: ImportedModel, name: str) -> FuncOp:
        """Brings the functions of another graph here: its own gets the name, those that it calls
        names that start with it; weights come into this one's store.
        """
        share_weights(other.module, other.weights, self._recording.weights)
        functions = [op for op in other.module.ops if isinstance(op, FuncOp)]
        names = {each.sym_name.data: f"{name}_{each.sym_name.data}" for each in functions}
        names["main"] = name
        for function in functions:
            function.properties["sym_name"] = StringAttr(names[function.sym_name.data])
            for op in function.walk():
                if isinstance(op, CallOp):
                    op.properties["callee"] = SymbolRefAttr(names[op.function_name])
        self._functions += functions
        return functions[0]

    def output(self, name: str, value: Traced) -> None:
        """Gives a value as a further output."""
        if value.recording is not self._recording:
            raise WeftError(f"{users_line()}: an output requires a value of this graph, got {name}")
        if name in self._outputs:
            rule = "an output requires a name of its own"
            raise WeftError(f"{users_line()}: {rule}, got {name!r} twice")
        self._outputs[name] = value

    def _repr_html_(self) -> str:
        outputs = {name: each.value for name, each in self._outputs.items()}
        return graph_html(self.name, self._recording.block, self._inputs, outputs)

    def imported(self) -> ImportedModel:
        """The graph as front ends give it; it may be continued, and compiled again."""
        if not self._outputs:
            raise WeftError(f"graph {self.name!r} requires an output, got none")
        source, values = self._recording.block, [each.value for each in self._outputs.values()]
        holder = Region(source)
        copy = Region()
        mapped: dict[Any, Any] = {}
        holder.clone_into(copy, value_mapper=mapped)
        source = holder.detach_block(0)
        copy.block.add_op(ReturnOp(*(mapped[value] for value in values)))
        types = [each.type for each in copy.block.args], [value.type for value in values]
        main = FuncOp("main", types, copy)
        main.attributes["input_names"] = _strings(self._inputs)
        main.attributes["output_names"] = _strings(self._outputs)
        main.attributes["model_name"] = StringAttr(self.name)
        names = tuple(self._inputs), tuple(self._outputs)
        functions = [function.clone() for function in self._functions]
        return ImportedModel(
            ModuleOp([main, *functions]), self._recording.weights, self.name, *names
        )


def _strings(texts: Sequence[str] | dict[str, Traced]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(text) for text in texts])
