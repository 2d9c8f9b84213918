"""`x[...] = y` of tensors with values: the memory itself changes where nothing else holds it, and
otherwise another array takes its place. A traced element makes a traced tensor of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from weft.array.indexing import invalid, parts_of
from weft.array.operators import ArrayOperators, is_number, listed, users_line
from weft.array.rearrangements import stack
from weft.array.views import assign, family, is_alone, require_changeable
from weft.dialects.errors import WeftError
from weft.dialects.weights import Array
from weft.eager.tape import DEPTH, Node, is_recorded, made, only
from weft.tracing.recognize import is_traced_tensor

if TYPE_CHECKING:
    from weft.eager.tensor import Tensor
    from weft.tracing.traced import Recording


def write(x: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value`. Raises WeftError, which names the line, for arguments of differentiated
    functions, and for what does not fit.
    """
    require_changeable(x)
    value = _tensor(x, value)
    given = cast("Any", index) if isinstance(index, tuple) else (index,)
    traced = next((each for each in (value, *given) if is_traced_tensor(each)), None)
    if traced is not None:
        promote(x, traced.recording)
        x[index] = value
        return
    parts = parts_of(index)
    recorded = DEPTH.count and (is_recorded(x) or isinstance(value, ArrayOperators))
    if not recorded and is_alone(x) and _is_own(x._array):
        _fill(x._array, parts, value)
        return
    assign(x, written(x, parts, value))


def _is_own(array: Array) -> bool:
    """Whether one tensor alone holds an array."""
    return array.base is None and array.flags.writeable and _holders(array) <= _ALONE


def _holders(array: Array) -> int:
    return sys.getrefcount(array)


def _alone() -> int:
    """How many holders Python counts of an array that one tensor holds; versions differ."""
    tensor = SimpleNamespace(_array=np.empty(0))

    def asked(array: Array) -> int:
        return _holders(array)

    return asked(tensor._array)


_ALONE: Final = _alone()


def _tensor(x: Tensor, value: Any) -> Any:
    """What is assigned, as a tensor or an array of NumPy."""
    if isinstance(value, ArrayOperators) or is_number(value):
        return value
    several = listed(value)
    if any(isinstance(each, ArrayOperators) for each in several):
        return stack([_tensor(x, each) for each in several])
    return np.asarray(value)


def _fill(array: Array, parts: Any, value: Any) -> None:
    try:
        array[parts] = getattr(value, "_array", value)
    except IndexError as error:
        raise invalid(str(error)) from error
    except (ValueError, TypeError) as error:
        raise WeftError(f"{users_line()}: an assignment requires elements that fit: {error}") \
            from error  # fmt: skip


def written(x: Tensor, parts: Any, value: Any) -> Any:
    """A tensor with other elements at an index."""
    if is_traced_tensor(value):
        return value.recording.constant(x._array).with_part(parts, value)
    array = x._array.copy()
    _fill(array, parts, value)
    operands = [x, value] if isinstance(value, type(x)) else [x]
    noted = DEPTH.count and any(map(is_recorded, operands))
    node = Node(_backward(parts), operands, [array]) if noted else None
    return made(type(x), [array], node)[0]


def _backward(parts: Any) -> Any:
    def backward(node: Node, arriving: list[Tensor | None], wanted: tuple[int, ...]) -> Any:
        cotangent = only(arriving)
        found: list[Any] = []
        for position in wanted:
            if position:
                found.append(_of_value(cotangent, parts, node.operands[1]))
            else:
                found.append(written(cotangent, parts, 0))
        return found

    return backward


def _of_value(cotangent: Tensor, parts: Any, value: Tensor) -> Any:
    """The cotangent of what was assigned, the last one where an index names a position twice."""
    part = cast("Any", cotangent[parts])
    if any(getattr(each, "ndim", 0) for each in parts):
        owner = cast("Any", np.full(cotangent.shape, -1))
        numbers = cast("Any", np.arange(part.size)).reshape(part.shape)
        owner[parts] = numbers
        part = part * (owner[parts] == numbers).astype(part.dtype)
    front = part.ndim - value.ndim
    spread = [axis + front for axis, size in enumerate(value.shape)
              if size != part.shape[axis + front]]  # fmt: skip
    axes: Sequence[int] = [*range(max(front, 0)), *spread]
    found = part.sum(axes) if axes else part
    return found.reshape(value.shape).astype(value.dtype)


def promote(x: Any, recording: Recording) -> None:
    """Makes a traced tensor of one with values, and of all that show its elements, or are shown."""
    whole, *views = family(x)
    for each in (whole, *views):
        if is_recorded(each):
            rule = "a traced element requires an array that is not being differentiated"
            raise WeftError(f"{users_line()}: {rule}, got one that is")
        recording.promote(each)
    for each in views:
        each.become(each.views.link.read(each.views.link.base))
