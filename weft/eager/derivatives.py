"""Derivatives of programs that run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.array.views import Views
from weft.dialects.errors import WeftError
from weft.eager.tape import DEPTH, Node, cotangents, detached, is_recorded
from weft.eager.tensor import Tensor
from weft.state import Change, put_back_on_error, values_of


def pull_back(
    function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[Any, Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]]:
    """What the function returns, and what gives the cotangents of the arguments from those of
    tensors that it gave. Operators of the function and of what it calls are noted while it runs.
    """
    inputs = [_beginning(argument) for argument in arguments]
    with put_back_on_error() as changes:
        DEPTH.count += 1
        try:
            returned = function(*inputs)
        finally:
            DEPTH.count -= 1
    if not DEPTH.count:
        _forget_records(changes)

    def pull(results: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Tensor]:
        found = cotangents(results, seeds, inputs)
        return [
            Tensor.of(np.zeros(given.shape, given.dtype)) if each is None else each
            for given, each in zip(inputs, found, strict=True)
        ]

    return returned, pull


def _forget_records(changes: Sequence[Change]) -> None:
    """Lets go of the record that the state of modules belongs to, which the next call would
    continue with otherwise.
    """
    for holder, name, *_ in changes:
        value = values_of(holder).get(name)
        if isinstance(value, Tensor) and is_recorded(value):
            values_of(holder)[name] = detached(value)


def _beginning(argument: Any) -> Tensor:
    """The argument as a tensor with which a record begins, inside of one that is already kept."""
    given = argument if isinstance(argument, ArrayOperators) else Tensor(argument)
    if not isinstance(given, Tensor) or given.dtype.kind in "biu":
        got = given.dtype if isinstance(given, Tensor) else "one that is being traced"
        raise WeftError(f"{users_line()}: a gradient requires arguments of floats, got {got}")
    begun = detached(given)
    begun.views = Views(fixed="an argument of a function that is differentiated")
    if DEPTH.count and is_recorded(given):
        begun._node = Node(_through, [given], [given._array])
    else:
        begun._node = Node(None, (), [given._array])
    return begun


def _through(node: Node, arriving: list[Tensor | None], wanted: tuple[int, ...]) -> list[Tensor]:
    """The cotangent of a tensor is that of what began with it."""
    return [each for each in arriving if each is not None]
