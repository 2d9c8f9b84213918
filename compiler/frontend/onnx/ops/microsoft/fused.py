"""onnxruntime's convolutions and products with what follows them: addends, scales, activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.ops.windows import convolution
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.op import AttributeValue

ACTIVATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Celu": ("celu", ("alpha",)),
    "Elu": ("elu", ("alpha",)),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
    "HardSwish": ("hard_swish", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Softplus": ("softplus", ()),
    "Softsign": ("softsign", ()),
    "Tanh": ("tanh", ()),
    "ThresholdedRelu": ("thresholded_relu", ("alpha",)),
}
"""Operators of the graph by the names of activations, and their parameters in the order in which
nodes list them. Clip is beside them, for its parameters are operands.
"""


def activated(node: OnnxNode, value: SSAValue, parameters: Sequence[float]) -> SSAValue:
    """What the node's activation makes of a value."""
    name, x = node.text("activation", ""), Term(node.b, value)
    wanted = 2 if name == "Clip" else len(ACTIVATIONS.get(name, ("", ()))[1])
    if name and name != "Clip" and name not in ACTIVATIONS:
        listed = ", ".join(sorted([*ACTIVATIONS, "Clip"]))
        raise UnsupportedError(f"requires an activation out of {listed}, got {name}")
    if len(parameters) != wanted:
        what = f"{wanted} parameters of its activation {name or '(none)'}"
        raise UnsupportedError(f"requires {what}, got {list(parameters)}")
    if not name:
        return value
    if name == "Clip":
        return node.b.clip(value, *(x.number(bound).value for bound in parameters))
    op, names = ACTIVATIONS[name]
    given: dict[str, AttributeValue] = dict(zip(names, parameters, strict=True))
    return node.b.op(op, value, **given).results[0]


def import_convolution(node: OnnxNode) -> Sequence[SSAValue]:
    """`activation(conv(x, w) + bias + addend)`."""
    operands = [node.operand(0), node.operand(1), node.optional(2)]
    value = convolution(node, node.shape(1)[2:], *operands)
    addend = node.optional(3)
    value = value if addend is None else node.b.add(value, addend)
    return [activated(node, value, node.reals("activation_params"))]


def import_gemm(node: OnnxNode) -> Sequence[SSAValue]:
    """`activation(alpha * a @ b + beta * c)`, the matrices transposed where the node says so."""
    value = node.b.gemm(
        *node.operands,
        alpha=node.real("alpha", 1.0),
        beta=node.real("beta", 1.0),
        transpose_a=node.flag("transA"),
        transpose_b=node.flag("transB"),
    )
    names = [f"activation_{name}" for name in ("alpha", "beta")]
    return [activated(node, value, [node.real(name, 0.0) for name in names if node.has(name)])]


def import_matmul(node: OnnxNode) -> Sequence[SSAValue]:
    """`alpha * a @ b`, of which each may lie transposed, or have its rows before its batch."""
    lhs, rhs = (_transposed(node, position, name) for position, name in enumerate("AB"))
    value, alpha = lhs.matmul(rhs), node.real("alpha", 1.0)
    return [(value if alpha == 1 else value * alpha).value]


def _transposed(node: OnnxNode, position: int, name: str) -> Term:
    value = Term(node.b, node.operand(position))
    rank = len(value.shape)
    if rank > 2 and node.flag(f"transBatch{name}"):
        value = value.transpose([*range(1, rank - 1), 0, rank - 1])
    if rank > 1 and node.flag(f"trans{name}"):
        value = value.transpose([*range(rank - 2), rank - 1, rank - 2])
    return value


CONVOLUTION = "activation activation_params auto_pad dilations group kernel_shape pads strides"

IMPORTERS = importers(
    {
        "FusedConv": Signature(import_convolution, "x:F:n* w:F:m* b?:F:m z?:F:*", CONVOLUTION),
        "FusedGemm": Signature(
            import_gemm,
            "a:F:.. b:F:.. c?:F:*",
            "activation! activation_alpha activation_beta alpha beta transA transB",
        ),
        "FusedMatMul": Signature(
            import_matmul, "a:F:.* b:F:.*", "alpha transA transB transBatchA transBatchB"
        ),
        "TransposeMatMul": Signature(import_matmul, "a:F:.* b:F:.*", "alpha transA transB"),
    }
)
