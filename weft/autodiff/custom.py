"""What a program says of its derivative: what is computed again, what counts as a constant, and
rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from weft.array.operators import ArrayOperators, users_line
from weft.autodiff.derivatives import vjp
from weft.autodiff.vjp import filled, is_traced, lifted, recording_of, region
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.eager.tape import DEPTH, Node, detached, is_recorded, recorded
from weft.eager.tensor import Tensor
from weft.tracing.recognize import is_traced_tensor
from weft.trees import Structure, flatten, leaves_of, tree_map, unflatten

if TYPE_CHECKING:
    from xdsl.ir import Block, SSAValue

    from weft.dialects import graph
    from weft.dialects.graph import CheckpointOp, CustomVjpOp
    from weft.tracing import traced
    from weft.tracing.traced import Recording, Traced
else:
    graph = deferred("weft.dialects.graph")
    traced = deferred("weft.tracing.traced")

Function = Callable[..., Any]


def stop_gradient(tree: Any) -> Any:
    """Tensors that count as constants where what is computed of them is differentiated."""

    def stopped(leaf: Any) -> Any:
        if is_traced_tensor(leaf):
            return leaf.op("stop_gradient", leaf)
        return detached(leaf) if isinstance(leaf, Tensor) else leaf

    return tree_map(stopped, tree)


def checkpoint(function: Function) -> Function:
    """The function, of which a compiled derivative keeps nothing but what it reads: it is computed
    again where the derivative needs it. On tensors with values it is the function itself.
    """

    @wraps(function)
    def computed(*arguments: Any) -> Any:
        leaves = leaves_of(arguments)
        if not is_traced(leaves):
            return function(*arguments)
        recording = recording_of(leaves)
        with region(recording) as body:
            results, structure = _yielded(recording, function(*arguments))
        op = graph.CheckpointOp.of(_ended(body, results), recording.builder().location)
        return _rebuilt(recording, op, structure)

    return computed


def custom_vjp(function: Function, forward: Function, backward: Function) -> Function:
    """The function with a derivative of its own.

    `forward` takes the function's arguments and gives a pair: what the function returns, and a tree
    of tensors for `backward`. That takes this tree and the cotangents of what the function returns,
    and gives a tuple of the arguments' cotangents. All three are functions of their arguments
    alone. Raises WeftError, which names the line, where `backward` gives other cotangents.
    """

    @wraps(function)
    def computed(*arguments: Any) -> Any:
        leaves, structure = flatten(arguments)
        inputs = [leaf for _, leaf in leaves]
        if is_traced(inputs):
            return _traced_rule(forward, backward, inputs, structure)
        return _eager_rule(function, forward, backward, inputs, structure)

    return computed


def custom_jvp(function: Function, rule: Function) -> Function:
    """The function with a derivative of its own along directions.

    `rule` takes a tuple of arguments and one of their directions, and gives a pair: what the
    function returns, and how that changes; the change is linear in the directions. What derivatives
    in reverse need is the transpose of it. The arguments are floats.
    """

    def forward(*arguments: Any) -> tuple[Any, Any]:
        return function(*arguments), arguments

    def backward(arguments: Any, cotangents: Any) -> Any:
        nothing = tree_map(lambda x: filled(0.0, _tensor(x)), arguments)
        _, back = vjp(lambda *directions: rule(arguments, directions)[1], *nothing)
        return back(cotangents)

    return custom_vjp(function, forward, backward)


def _tensor(leaf: Any) -> Any:
    return leaf if isinstance(leaf, ArrayOperators) else Tensor(leaf)


def _traced_rule(
    forward: Function, backward: Function, leaves: Sequence[Any], structure: Structure
) -> Any:
    recording = recording_of(leaves)
    inputs = [lifted(recording, leaf) for leaf in leaves]
    with region(recording) as body:
        arguments = _arguments(recording, body, inputs)
        returned, saved = forward(*unflatten(structure, iter(arguments)))
        results, shape = _yielded(recording, returned)
        residuals, tree = _yielded(recording, saved)
    with region(recording) as derivative:
        kept = _arguments(
            recording, derivative, [traced.Traced(recording, each) for each in residuals]
        )
        seeds = _arguments(
            recording, derivative, [traced.Traced(recording, each) for each in results]
        )
        given = backward(unflatten(tree, iter(kept)), unflatten(shape, iter(seeds)))
        found = [each.value for each in _checked(given, inputs, structure)]
    op = graph.CustomVjpOp.of(
        [each.value for each in inputs],
        _ended(body, [*results, *residuals]),
        _ended(derivative, found),
        len(residuals),
        recording.builder().location,
    )
    return _rebuilt(recording, op, shape)


def _eager_rule(
    function: Function,
    forward: Function,
    backward: Function,
    leaves: Sequence[Any],
    structure: Structure,
) -> Any:
    operands = [_tensor(leaf) for leaf in leaves]
    if not DEPTH.count or not any(map(is_recorded, operands)):
        return function(*unflatten(structure, iter(leaves)))
    returned, saved = forward(*unflatten(structure, iter(leaves)))
    results, shape = flatten(returned)
    values = [leaf for _, leaf in results]

    def pull(
        node: Node, arriving: list[Tensor | None], wanted: tuple[int, ...]
    ) -> Sequence[Tensor]:
        seeds = [
            filled(0.0, value) if each is None else each
            for value, each in zip(values, arriving, strict=True)
        ]
        found = _checked(backward(saved, unflatten(shape, iter(seeds))), operands, structure)
        return [found[position] for position in wanted]

    return unflatten(shape, iter(recorded(values, operands, pull)))


def _checked(given: Any, inputs: Sequence[Any], structure: Structure) -> list[Any]:
    """The cotangents that a rule gave, one for each tensor among the arguments."""
    leaves, shape = flatten(given)
    if shape != structure:
        rule = "a derivative's rule requires a tuple of the arguments' cotangents"
        raise WeftError(f"{users_line()}: {rule}, got another structure")
    found: list[Any] = []
    for (name, leaf), like in zip(leaves, inputs, strict=True):
        each = leaf if isinstance(leaf, ArrayOperators) else like.lifted(leaf)
        if tuple(each.shape) != tuple(like.shape) or each.dtype != like.dtype:
            rule = f"the cotangent of argument {name} requires {like.dtype} of {like.shape}"
            raise WeftError(f"{users_line()}: {rule}, got {each.dtype} of {each.shape}")
        found.append(each)
    return found


def _arguments(recording: Recording, block: Block, like: Sequence[Traced]) -> list[Traced]:
    """Arguments of a region, of the types of tensors."""
    return [traced.Traced(recording, block.insert_arg(each.type, len(block.args))) for each in like]


def _yielded(recording: Recording, returned: Any) -> tuple[list[SSAValue], Structure]:
    """The tensors of a tree, as values that a region may hand back."""
    leaves, structure = flatten(returned)
    return [lifted(recording, leaf).value for _, leaf in leaves], structure


def _ended(block: Block, values: Sequence[SSAValue]) -> Block:
    block.add_op(graph.YieldOp.create(operands=values))
    return block


def _rebuilt(recording: Recording, op: CheckpointOp | CustomVjpOp, structure: Structure) -> Any:
    """Appends the operator; returns the tree of its results."""
    inserted = recording.builder().builder.insert(op)
    results = iter([traced.Traced(recording, result) for result in inserted.results])
    return unflatten(structure, results)
