"""graph -> graph: notes which outputs take the memory of which inputs, as the user names them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp
from xdsl.ir import SSAValue

from weft.compiler.driver.named_sizes import Donation
from weft.compiler.graph.bound_sizes import graph_function
from weft.dialects.errors import OptionError
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.loop.program import DONATED


def donate_inputs(
    module: ModuleOp,
    input_names: Sequence[str],
    output_names: Sequence[str],
    pairs: Sequence[Donation],
) -> None:
    """Notes the pairs on the graph function of the module. Raises OptionError for names that the
    model has not, or that are named twice, and for an output that is not of its input's type.
    """
    if not pairs:
        return
    _require_names("inputs", input_names, [each.input for each in pairs])
    _require_names("outputs", output_names, [each.output for each in pairs])
    function = graph_function(module)
    returned = function.get_return_op()
    assert returned is not None, "a graph returns"
    positions: list[tuple[int, int]] = []
    for each in pairs:
        source, target = input_names.index(each.input), output_names.index(each.output)
        _require_type(each, function.body.block.args[source], returned.arguments[target])
        positions.append((source, target))
    function.attributes[DONATED] = ArrayAttr(
        [ArrayAttr([IntAttr(source), IntAttr(target)]) for source, target in positions]
    )


def _require_names(what: str, names: Sequence[str], given: Sequence[str]) -> None:
    wrong = [name for at, name in enumerate(given) if name not in names or name in given[:at]]
    if wrong:
        rule = f"donate requires {what} of the model ({', '.join(names)}), each once"
        raise OptionError(f"{rule}, got {', '.join(wrong)}")


def _require_type(pair: Donation, source: SSAValue, target: SSAValue) -> None:
    have, want = type_of(target), type_of(source)
    if have.element == want.element and not _never_equal(have, want):
        return
    owner = target.owner
    node = owner.onnx_name if isinstance(owner, GraphOp) else None
    made = f" of {node}" if node else ""
    rule = f"donate requires an output of its input's type, {want} as '{pair.input}'"
    raise OptionError(f"{rule}, got {have} for '{pair.output}'{made}")


def _never_equal(one: TensorType, other: TensorType) -> bool:
    """Whether two types have other dims in every call."""
    if not (one.has_rank and other.has_rank):
        return False
    if one.rank != other.rank:
        return True
    return any(
        (a - b).constant not in (None, 0) for a, b in zip(one.shape, other.shape, strict=True)
    )
