"""Samples of onnxruntime's own operators, and models of many of them at once."""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from onnx import ModelProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"


class Sample(Struct, frozen=True):
    """A node: its operands by name, None for absent ones, and what its results may differ by.

    `outputs` has a letter for each result, and `.` for one that is not asked for.

    The first operand, unless it is `stored`, and those in `varies` are inputs of the model, under
    the names of dims in `dims`; the others are constants. `steps` is the most that
    quantised results may be apart.
    """

    op_type: str
    operands: Mapping[str, Array | None]
    attributes: Mapping[str, Any] = {}
    outputs: str = "y"
    varies: Sequence[str] = ()
    dims: Mapping[str, Sequence[str | int]] = {}
    tolerance: float = 1e-5
    steps: int = 0
    domain: str = MICROSOFT
    stored: bool = False


def model_of(samples: Sequence[Sample], opset: int = 17) -> tuple[ModelProto, dict[str, Array]]:
    """One model of all nodes, and its inputs."""
    nodes, inputs, constants, given = [], [], [], {}
    for number, sample in enumerate(samples):
        names = {name: f"{name}{number}" for name in sample.operands}
        varying = {*list(names)[sample.stored : 1], *sample.varies}
        for name, array in sample.operands.items():
            if array is not None and name in varying:
                element = helper.np_dtype_to_tensor_dtype(array.dtype)
                dims = [
                    each if isinstance(each, int) else f"{each}{number}"
                    for each in sample.dims.get(name, array.shape)
                ]
                inputs.append(helper.make_tensor_value_info(names[name], element, dims))
                given[names[name]] = array
            elif array is not None:
                constants.append(numpy_helper.from_array(array, names[name]))
        operands = [names[name] if x is not None else "" for name, x in sample.operands.items()]
        outputs = ["" if each == "." else f"out_{each}{number}" for each in sample.outputs]
        named = {"name": f"n{number}", "domain": sample.domain}
        nodes.append(
            helper.make_node(sample.op_type, operands, outputs, **named, **sample.attributes)
        )
    names = [name for node in nodes for name in node.output if name]
    results = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph(nodes, "microsoft", inputs, results, constants)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1) for domain in (MICROSOFT, NCHWC)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given
