"""A node that could not be imported, as it is listed beside the others."""

from __future__ import annotations

from msgspec import Struct
from onnx import NodeProto

from weft.compiler.frontend.onnx.graph import brief
from weft.dialects.errors import WeftError


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
