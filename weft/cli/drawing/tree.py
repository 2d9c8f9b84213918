"""`weft inspect --tree`: what a call of a model runs, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.cli.drawing.drawn import drawn
from weft.cli.table import shown_bytes, shown_flops
from weft.dialects.errors import printable

if TYPE_CHECKING:
    from rich.tree import Tree


def drawn_tree(metadata: Mapping[str, Any]) -> str:
    """Inputs, each call of a kernel with its work, schedules and nodes, weights, memory, outputs;
    kernels that run side by side are below their group.
    """
    from rich.tree import Tree

    root = Tree(_text(metadata["prefix"]))
    _add(root, "inputs", [_tensor(each) for each in metadata["inputs"]])
    _add_calls(root, metadata)
    weights = metadata["weights"]
    size = shown_bytes(sum({each["offset"]: each["bytes"] for each in weights}.values()))
    root.add(_text(f"weights: {len(weights)}, {size}"))
    root.add(_text(f"memory: {shown_bytes(metadata['workspace_bytes'])} at its peak"))
    _add(root, "outputs", [_tensor(each) for each in metadata["outputs"]])
    return drawn(root)


def _add_calls(root: Tree, metadata: Mapping[str, Any]) -> None:
    schedules = {each["name"]: each["schedules"] for each in metadata["kernels"]}
    groups = {
        frozenset(name for branch in group["branches"] for name in branch): number
        for number, group in enumerate(metadata.get("concurrent", ()), 1)
    }
    calls: Sequence[Mapping[str, Any]] = metadata.get("calls", ())
    branch = root.add(_text(f"program: {len(calls)} calls of {len(schedules)} kernels"))
    for number, call in enumerate(calls):
        kernel, nodes = call["kernel"], call["nodes"]
        work = f"{shown_flops(call['flops'])}, {shown_bytes(call['bytes'])}"
        how = ", ".join(dict.fromkeys(schedules.get(kernel, ())))
        side = [str(group) for names, group in groups.items() if kernel in names]
        beside = f"  side by side in group {', '.join(side)}" if side else ""
        line = branch.add(_text(f"{number} {kernel}  {work}  {how}{beside}"))
        for node in nodes:
            line.add(_text(node))


def _add(root: Tree, title: str, lines: Sequence[str]) -> None:
    branch = root.add(_text(title))
    for line in lines:
        branch.add(_text(line))


def _tensor(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['name']}  {tensor['dtype']}  [{', '.join(map(str, tensor['dims']))}]"


def _text(text: str) -> Any:
    """Text in which nothing is markup or a terminal's code."""
    from rich.text import Text

    return Text(printable(text))
