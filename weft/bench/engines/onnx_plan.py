"""ONNX -> a list of calls of another framework's functions, for inputs of fixed shapes.

Whatever follows from shapes and constants alone is computed here, with ONNX's own evaluator; what
is left are functions of tensors with plain numbers as arguments, as somebody would have written
the model in that framework by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from msgspec import Struct, field
from onnx import ModelProto, NodeProto, numpy_helper
from onnx.helper import get_attribute_value
from onnx.reference import ReferenceEvaluator
from onnx.version_converter import convert_version

from weft.bench.session import Inputs, PeerLacks
from weft.dialects.weights import Array

Function = Callable[..., Any]
"""Takes a node's attributes as a dict, then its operands: tensors of the framework, plain numbers
and lists where ONNX wants constants, None where an optional operand is absent.
"""

HOST_OPERANDS: Final[Mapping[str, tuple[int, ...]]] = {
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "Slice": (1, 2, 3, 4),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Split": (1,),
    "Pad": (1, 2, 3),
    "Clip": (1, 2),
    "Resize": (1, 2, 3),
    "TopK": (1,),
    "CumSum": (1,),
    "ReduceSum": (1,),
    "ReduceMean": (1,),
    "ReduceMax": (1,),
    "Dropout": (1, 2),
    "Trilu": (1,),
}
"""Operands that a framework takes as numbers: they have to be constants."""

SHAPE_ONLY: Final = ("Shape", "Size")

OLD_OPSET, NEW_OPSET = 13, 17
"""Models of an opset before the first are brought to the second, whose forms of operators the
functions, and importers of today, have.
"""


class Step(Struct, frozen=True):
    """One call: a function of the values at some places, its results put at others."""

    function: Callable[..., Any]
    operands: tuple[int, ...]
    results: tuple[int, ...]


def load_upgraded(path: Path) -> ModelProto:
    """The model in a file, its operators in their newer forms where they are old."""
    model = onnx.load(str(path))
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    return convert_version(model, NEW_OPSET) if min(versions) < OLD_OPSET else model


class Plan(Struct):
    """Steps over a table of values, which starts with the inputs and then has the constants."""

    steps: list[Step] = field(default_factory=list[Step])
    constants: list[Any] = field(default_factory=list[Any])
    outputs: list[int] = field(default_factory=list[int])
    size: int = 0

    def run(self, inputs: Sequence[Any], constants: Sequence[Any]) -> list[Any]:
        """The outputs, by the functions alone."""
        values: list[Any] = [*inputs, *constants] + [None] * self.size
        for step in self.steps:
            results = step.function(*[values[position] for position in step.operands])
            if len(step.results) == 1:
                values[step.results[0]] = results
            else:
                for position, result in zip(step.results, results, strict=False):
                    values[position] = result
        return [values[position] for position in self.outputs]


class _Value(Struct):
    """A tensor while planning: known on the host, or somewhere in the framework."""

    host: Array | None = None
    device: Any = None


class Planner:
    """Plans a model with the framework's functions by ONNX operator, and its `to_device`.
    `evaluate(function, *tensors)` gives results, or what has their shapes.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        to_device: Callable[[Array], Any],
        evaluate: Callable[..., Any] = lambda function, *tensors: function(*tensors),
    ):
        self._functions = functions
        self._to_device = to_device
        self._evaluate = evaluate
        self._values: dict[str, _Value] = {}
        self._steps: list[tuple[Callable[..., Any], list[str], list[str]]] = []

    def plan(self, path: Path, inputs: Inputs) -> tuple[Plan, list[Any]]:
        """The plan of a model and its inputs in the framework. Raises PeerLacks."""
        model = load_upgraded(path)
        graph = model.graph
        domains = {node.domain for node in graph.node} - {"", "ai.onnx"}
        missing = {node.op_type for node in graph.node} - {*self._functions, *SHAPE_ONLY}
        missing -= {"Constant", "ConstantOfShape", "Range"}
        if missing or domains:
            raise PeerLacks(f"no function for {', '.join(sorted(missing | domains))}")
        for tensor in graph.initializer:
            self._values[tensor.name] = _Value(numpy_helper.to_array(tensor))
        given = [value.name for value in graph.input if value.name in inputs]
        for name in given:
            self._values[name] = _Value(device=self._to_device(inputs[name]))
        opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
        for node in graph.node:
            self._node(node, opset)
        return self._finish(given, [value.name for value in graph.output])

    def _node(self, node: NodeProto, opset: int) -> None:
        operands = [self._values[name] if name else _Value() for name in node.input]
        if node.op_type in SHAPE_ONLY:
            shape = self._shape(operands[0])
            operands = [_Value(np.zeros(0)) for _ in operands]
            result = np.asarray(shape if node.op_type == "Shape" else np.prod(shape), np.int64)
            bounds = {each.name: each.i for each in node.attribute}
            if node.op_type == "Shape":
                result = result[bounds.get("start", 0) : bounds.get("end")]
            self._values[node.output[0]] = _Value(result)
        elif all(operand.device is None for operand in operands):
            self._fold(node, operands, opset)
        else:
            self._call(node, operands)

    def _shape(self, value: _Value) -> tuple[int, ...]:
        known: Any = value.host if value.device is None else value.device
        return tuple(known.shape)

    def _fold(self, node: NodeProto, operands: Sequence[_Value], opset: int) -> None:
        names = [name for name in node.input if name]
        known = {name: value.host for name, value in zip(node.input, operands, strict=True) if name}
        single = onnx.helper.make_graph(
            [node],
            "folded",
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names],
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        )
        domain = onnx.helper.make_opsetid("", opset)
        evaluator = ReferenceEvaluator(onnx.helper.make_model(single, opset_imports=[domain]))
        results: Any = evaluator.run(None, known)
        for name, result in zip([name for name in node.output if name], results, strict=True):
            self._values[name] = _Value(np.asarray(result))

    def _call(self, node: NodeProto, operands: Sequence[_Value]) -> None:
        plain = HOST_OPERANDS.get(node.op_type, ())
        attributes = {each.name: _attribute(each) for each in node.attribute}
        arguments: list[Any] = []
        arguments_: list[str] = []
        for position, (name, value) in enumerate(zip(node.input, operands, strict=True)):
            if not name:
                arguments.append(None)
            elif position in plain:
                if value.host is None:
                    raise PeerLacks(f"{node.op_type} with an operand {position} that varies")
                arguments.append(value.host.tolist())
            elif value.device is None and value.host is not None and value.host.ndim == 0:
                arguments.append(value.host.item())
            else:
                arguments.append(_HOLE)
                arguments_.append(self._placed(name, value))
        names = list(node.output)[: 1 if node.op_type == "Dropout" else None]  # without its mask
        call = _bound(self._functions[node.op_type], attributes, arguments, len(names))
        results = self._evaluate(call, *[self._values[name].device for name in arguments_])
        listed = [results] if len(names) == 1 else results
        for name, result in zip(names, listed, strict=False):
            self._values[name] = _Value(device=result)
        self._steps.append((call, arguments_, names))

    def _placed(self, name: str, value: _Value) -> str:
        if value.device is None:
            assert value.host is not None, "a value is somewhere"
            value.device = self._to_device(value.host)
        return name

    def _finish(self, given: list[str], outputs: list[str]) -> tuple[Plan, list[Any]]:
        """Numbers the values: inputs, then constants that steps use, then results."""
        made = {name for _, _, results in self._steps for name in results}
        used = [name for _, operands, _ in self._steps for name in operands]
        constants = [name for name in dict.fromkeys([*used, *outputs]) if name not in made]
        constants = [name for name in constants if name not in given]
        for name in constants:
            self._placed(name, self._values[name])
        order = [*given, *constants, *made]
        numbers = {name: number for number, name in enumerate(order)}
        plan = Plan(
            [
                Step(
                    call,
                    tuple(numbers[each] for each in operands),
                    tuple(numbers[each] for each in results),
                )
                for call, operands, results in self._steps
            ],
            [self._values[name].device for name in constants],
            [numbers[name] for name in outputs],
            len(made),
        )
        return plan, [self._values[name].device for name in given]


_HOLE: Final = object()


def _bound(
    function: Function, attributes: dict[str, Any], arguments: list[Any], results: int
) -> Callable[..., Any]:
    """The function of the tensors alone."""
    attributes = attributes | {"results": results}
    if all(argument is _HOLE for argument in arguments):
        return lambda *tensors: function(attributes, *tensors)

    def call(*tensors: Any) -> Any:
        left = iter(tensors)
        return function(attributes, *[next(left) if each is _HOLE else each for each in arguments])

    return call


def _attribute(attribute: onnx.AttributeProto) -> Any:
    """A plain value: text as str, a sequence as a list."""
    value = get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    return (
        value
        if isinstance(value, (int, float))
        else [each.decode() if isinstance(each, bytes) else each for each in value]
    )
