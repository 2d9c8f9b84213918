"""graph -> graph: every float that a function computes becomes a further result of it, so that each
can be looked at; of regions only what the operators around them give.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from weft.compiler.graph.differentiate.differentiate import append_results
from weft.compiler.graph.differentiate.reverse_path import is_float, reads
from weft.dialects.graph import ConstantOp, ControlOp, GraphOp
from weft.dialects.weights import WeightStore


class Exposed(Struct, frozen=True):
    """A value that became a result: the name of the operator that computes it, whether that has
    regions, the places of the exposed values and of the inputs that it reads, and whether a
    constant that it reads is not finite.
    """

    name: str
    has_regions: bool
    values: tuple[int, ...]
    inputs: tuple[int, ...]
    reads_infinity: bool


def expose(function: FuncOp, weights: WeightStore) -> list[Exposed]:
    """Appends the values in their order; returns what computes them."""
    inputs: dict[SSAValue, int] = {
        value: position for position, value in enumerate(function.body.block.args)
    }
    infinite: set[SSAValue] = set()
    positions: dict[SSAValue, int] = {}
    found: list[Exposed] = []
    for op in function.body.block.ops:
        if isinstance(op, ConstantOp) and is_float(op.result):
            infinite.update(() if np.isfinite(op.array(weights)).all() else op.results)
        if isinstance(op, ConstantOp) or not isinstance(op, GraphOp | ControlOp):
            continue
        read = reads(op)
        values = tuple(positions[each] for each in read if each in positions)
        given = tuple(inputs[each] for each in read if each in inputs)
        known = not infinite.isdisjoint(read)
        for result in filter(is_float, op.results):
            positions[result] = len(found)
            has_regions = isinstance(op, ControlOp)
            found.append(Exposed(named(op), has_regions, values, given, known))
    append_results(
        function, [(f"weft.value.{position}", value) for value, position in positions.items()]
    )
    return found


def named(op: Operation) -> str:
    """An operator by its name, and its place in the model or the program."""
    name = op.onnx_name if isinstance(op, GraphOp | ControlOp) else None
    return op.name if name is None else f"{op.name} at {name}"
