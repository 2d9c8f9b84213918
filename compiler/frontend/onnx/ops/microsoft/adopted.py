"""onnxruntime's operators that ONNX has adopted since, and distances between rows, which converters
of classical models write.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.ops.resize import choice
from weft.compiler.frontend.onnx.ops.sampling import import_grid_sample
from weft.compiler.frontend.onnx.ops.slicing import import_trilu
from weft.compiler.frontend.onnx.rules import ONE
from weft.dialects.graph.core.algebra import Term

MODES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def import_early_grid_sample(node: OnnxNode) -> Sequence[SSAValue]:
    """GridSample, whose modes had a prefix."""
    mode = choice(node, "mode", "bilinear", tuple(MODES))
    if node.has("mode"):
        node.attribute("mode").s = MODES[mode].encode()
    return import_grid_sample(node)


def import_distances(node: OnnxNode) -> Sequence[SSAValue]:
    """`|a|^2 - 2 * a @ b.T + |b|^2` of each pair of rows, and its root where the metric is not the
    square.
    """
    a, b = (Term(node.b, node.operand(position)) for position in (0, 1))
    metric = choice(node, "metric", "sqeuclidean", ("sqeuclidean", "euclidean"))
    ours, others = ((each * each).sum([1]) for each in (a, b))
    products = a.matmul(b.transpose([1, 0])) * 2
    squares = (ours.insert(1) - products + others.insert(0)).maximum(0)
    return [(squares if metric == "sqeuclidean" else squares.math("sqrt")).value]


IMPORTERS = importers(
    {
        "CDist": Signature(import_distances, "a:F:mk b:F:nk", "metric"),
        "GridSample": Signature(
            import_early_grid_sample, "x:F:nc~ grid:F:n*", "align_corners mode padding_mode"
        ),
        "Trilu": Signature(import_trilu, f"x:A:..* k?:I:{ONE}", "upper"),
    }
)
