"""ONNX operators that tensors of every framework have as the same operators and methods."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any, Final

from weft.bench.engines.onnx_plan import Function

Attributes = dict[str, Any]


def plain(function: Any) -> Function:
    """A function that takes no attributes."""
    return lambda a, *operands: function(*operands)


def _reshape(a: Attributes, x: Any, shape: list[int]) -> Any:
    return x.reshape([x.shape[n] if size == 0 else size for n, size in enumerate(shape)])


ALIKE: Final[dict[str, Function]] = {
    "Add": plain(operator.add),
    "Sub": plain(operator.sub),
    "Mul": plain(operator.mul),
    "Div": plain(operator.truediv),
    "Equal": plain(operator.eq),
    "Less": plain(operator.lt),
    "Greater": plain(operator.gt),
    "GreaterOrEqual": plain(operator.ge),
    "LessOrEqual": plain(operator.le),
    "Sum": lambda a, *terms: reduce(operator.add, terms),
    "Identity": lambda a, x: x,
    "Dropout": lambda a, x, *_: x,
    "Flatten": lambda a, x: x.reshape(reduce(operator.mul, x.shape[: a.get("axis", 1)], 1), -1),
    "Reshape": _reshape,
}
