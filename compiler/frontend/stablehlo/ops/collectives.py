"""Collectives of programs for one device: in a group of one each keeps what it has."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term


def in_groups(name: str, alone: Sequence[int]) -> HloImporter:
    """A collective whose groups an attribute lists: those of device 0 alone."""

    def build(node: Node) -> Sequence[Term]:
        listed = node.integers(name)
        if listed != list(alone):
            raise UnsupportedError(f"requires one device, got {name} of {listed}")
        return node.operands

    return build


def collective_permute(node: Node) -> Sequence[Term]:
    """What device 0 receives: what it sends itself, else zeros."""
    if node.integers("source_target_pairs"):
        return in_groups("source_target_pairs", [0, 0])(node)
    return [each.number(0).expand(each.shape) for each in node.operands]


def device_number(node: Node) -> Sequence[Term]:
    """The number of the one device."""
    return [node.number(0, node.result.element)]


COLLECTIVES: dict[str, HloImporter] = {
    **{
        name: in_groups("replica_groups", [0])
        for name in [
            "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "reduce_scatter",
        ]
    },
    "collective_permute": collective_permute,
    "partition_id": device_number,
    "replica_id": device_number,
}  # fmt: skip
"""By the name in StableHLO."""
