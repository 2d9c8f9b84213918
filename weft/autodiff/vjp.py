"""Derivatives in reverse, of programs that run at once and of programs that are traced."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array.operators import users_line
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.eager.derivatives import pull_back as pull_back_eager
from weft.eager.tape import DEPTH, forget
from weft.eager.tensor import Tensor
from weft.tracing.recognize import is_traced_tensor
from weft.trees import leaves_of

if TYPE_CHECKING:
    from xdsl import ir
    from xdsl.ir import Block

    from weft.tracing import traced
    from weft.tracing.traced import Recording, Traced
else:
    ir = deferred("xdsl.ir")
    traced = deferred("weft.tracing.traced")

Pull = Callable[[Sequence[Any], Sequence[Any]], list[Any]]
"""From tensors that a function gave, and their cotangents, to those of its arguments."""


def is_traced(leaves: Sequence[Any]) -> bool:
    """Whether a graph is being made of these tensors."""
    return any(map(is_traced_tensor, leaves))


def pull_back(function: Callable[..., Any], leaves: Sequence[Any]) -> tuple[Any, Pull]:
    """What a function returns for tensors, and what gives the cotangents of these.

    Raises WeftError, which names the line, for tensors that are no floats.
    """
    if is_traced(leaves):
        return _traced(function, leaves)
    return pull_back_eager(function, leaves)


def _traced(function: Callable[..., Any], leaves: Sequence[Any]) -> tuple[Any, Pull]:
    recording = recording_of(leaves)
    inputs = [_beginning(recording, each) for each in leaves]
    block = recording.block
    returned = function(*inputs)

    def pull(results: Sequence[Traced], seeds: Sequence[Traced]) -> list[Traced]:
        from weft.compiler.graph.differentiate.cotangents import cotangents

        found = cotangents(
            recording.builder(),
            [each.value for each in results],
            [each.value for each in seeds],
            [each.value for each in inputs],
            block,
        )
        return [traced.Traced(recording, each) for each in found]

    return returned, pull


def recording_of(leaves: Sequence[Any]) -> Recording:
    """The graph in the making that traced tensors are part of."""
    return next(each.recording for each in leaves if is_traced_tensor(each))


def _beginning(recording: Recording, argument: Any) -> Traced:
    """The argument as a value of its own: what else reads the argument is not differentiated."""
    given = lifted(recording, argument)
    if given.dtype.kind in "biu":
        rule = "a gradient requires arguments of floats"
        raise WeftError(f"{users_line()}: {rule}, got {given.dtype}")
    return recording.apply("identity", given)


def lifted(recording: Recording, leaf: Any) -> Traced:
    """A tensor, an array or a number as a part of a graph in the making."""
    if isinstance(leaf, Tensor):
        return recording.held(leaf)
    if not is_traced_tensor(leaf):
        return recording.constant(np.asarray(leaf))
    if leaf.recording is not recording:
        raise WeftError(f"{users_line()}: a graph requires tensors of one trace, got two")
    return leaf


def filled(value: float, like: Any) -> Any:
    """A tensor of one value, of the dims and the dtype of another."""
    if is_traced_tensor(like):
        return traced.Traced(like.recording, like.recording.builder().filled(value, like.value))
    return Tensor.of(np.full(tuple(like.shape), value, np.dtype(like.dtype)))


def forget_records(tree: Any) -> None:
    """Lets go of the record that tensors with values belong to, where no derivative is being taken
    around them.
    """
    for leaf in leaves_of(tree) if not DEPTH.count else ():
        if isinstance(leaf, Tensor):
            forget(leaf)


@contextmanager
def region(recording: Recording) -> Generator[Block]:
    """A new block, which operators are appended to meanwhile."""
    outer, recording.block = recording.block, ir.Block()
    try:
        with recording.closed():
            yield recording.block
            recording.end_promoted(recording.block)
    finally:
        recording.block = outer
