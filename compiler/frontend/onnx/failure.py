"""A node that could not be imported, as it is listed beside the others."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from onnx import NodeProto
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.graph import brief
from weft.compiler.frontend.onnx.values import Value
from weft.dialects.errors import TypeInferenceError, UnsupportedError, WeftError
from weft.dialects.graph.core.types import type_of


class Failure(Struct, frozen=True):
    """A node that could not be imported, and why."""

    node: NodeProto
    error: WeftError
    breaks_rule: bool
    """Whether the sizes of the operands are none that the operator can have."""

    def describe(self, opset: int) -> str:
        """The node's name, type, domain and opset, and the reason, on one line."""
        version = "" if self.node.domain else f" {opset}"
        domain = self.node.domain or "ai.onnx"
        who = f"node '{self.node.name}' ({self.node.op_type}, {domain}{version})"
        return brief(f"{who}: {self.error}")

    @property
    def text(self) -> str:
        """The node and the reason, shorter."""
        return f"node '{self.node.name}' ({self.node.op_type}): {self.error}"


def lacking(node: NodeProto) -> UnsupportedError:
    """The error of a node whose operator is none of weft's."""
    return UnsupportedError(f"weft requires an operator that it has, got {node.op_type}")


def undecided(error: WeftError, operands: Sequence[Value | None]) -> WeftError:
    """The error of a node; a rule of types that was broken by sizes which only a call knows may
    hold in a call, so that the model may be sound.
    """
    tensor_types = [type_of(value) for value in operands if isinstance(value, SSAValue)]
    dims = [dim for each in tensor_types if each.has_rank for dim in each.shape]
    if isinstance(error, TypeInferenceError) and any(dim.constant is None for dim in dims):
        return UnsupportedError(str(error))
    return error
