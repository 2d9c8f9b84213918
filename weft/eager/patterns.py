"""Which sizes of an operator's operands are equal, which are 1, and which are free: a kernel is
compiled for such a pattern, and never again for other sizes.

A rule takes the operands' shapes and gives their dims: names for sizes that vary, equal ones for
sizes that have to be equal; numbers for those that are part of the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from weft.dialects.errors import TypeInferenceError

Shape = tuple[int, ...]
Dims = tuple[int | str, ...]
Rule = Callable[[str, Sequence[Shape], Mapping[str, Any]], tuple[Dims, ...]]


def broadcast(
    name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]
) -> tuple[Dims, ...]:
    """Sizes are equal, counted from the last axis, or 1 beside others: these are in the code."""
    rank = max(map(len, shapes), default=0)
    columns: list[list[int | str]] = [[] for _ in shapes]
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis}
        wide = sizes - {1}
        if len(wide) > 1:
            got = " and ".join(str(list(shape)) for shape in shapes)
            rule = "requires operands whose dims are equal or 1"
            raise TypeInferenceError(f"{name} {rule}, got {got}")
        for shape, dims in zip(shapes, columns, strict=True):
            if len(shape) >= -axis:
                mixed = len(sizes) > 1 and shape[axis] == 1
                dims.append(1 if mixed else f"d{-axis}")
    return tuple(map(tuple, columns))


def separate(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """All sizes are free."""
    return tuple(
        tuple(f"{chr(97 + position)}{axis}" for axis in range(len(shape)))
        for position, shape in enumerate(shapes)
    )


def product(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """Matrices behind axes that are broadcast; the inner sizes are equal."""
    left, right = shapes
    inner = left[-1] if left else None, right[-2 if len(right) > 1 else -1] if right else None
    if None in inner or inner[0] != inner[1]:
        got = f"{list(left)} and {list(right)}"
        raise TypeInferenceError(f"{name} requires operands whose inner dims are equal, got {got}")
    heads = broadcast(name, (left[:-2], right[:-2]), attributes)
    rows = ("m",) if len(left) > 1 else ()
    columns = ("n",) if len(right) > 1 else ()
    return (*heads[0], *rows, "k"), (*heads[1], "k", *columns)


def joined(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """Sizes are equal but along the axis."""
    axis = attributes["axis"]
    rests = {(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}
    if len(rests) > 1:
        got = " and ".join(str(list(shape)) for shape in shapes)
        rule = "requires operands that differ along the axis alone"
        raise TypeInferenceError(f"{name} {rule}, got {got}")
    return tuple(
        tuple(f"a{position}" if at == axis else f"d{at}" for at in range(len(shape)))
        for position, shape in enumerate(shapes)
    )


def filters(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """Filters are part of the code with all their sizes, so are channels; images are free."""
    image, *rest = shapes
    free = tuple(f"d{axis}" for axis in range(2, len(image)))
    return ("batch", image[1], *free), *rest


def channels(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """Vectors of a number for each channel, behind an image with channels in the second place."""
    image, *rest = shapes
    dims = tuple("batch" if not axis else f"d{axis}" for axis in range(len(image)))
    return dims, *(("d1",) for _ in rest)


def summed(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """Sizes of one letter are equal."""
    terms = attributes["equation"].split("->")[0].split(",")
    if "..." in attributes["equation"] or [*map(len, terms)] != [*map(len, shapes)]:
        return tuple(shapes)
    return tuple(tuple(term) for term in terms)


def contracted(
    name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]
) -> tuple[Dims, ...]:
    """Sizes of the axes `left` of the one are those of the axes `right` of the other."""
    first, second = shapes
    pairs: dict[int, int] = dict(zip(attributes["right"], attributes["left"], strict=True))
    if any(second[axis] != first[other] for axis, other in pairs.items()):
        got = f"{list(first)} and {list(second)}"
        raise TypeInferenceError(f"{name} requires operands whose inner dims are equal, got {got}")
    inner = (f"a{pairs[axis]}" if axis in pairs else f"b{axis}" for axis in range(len(second)))
    return tuple(f"a{axis}" for axis in range(len(first))), tuple(inner)


def labelled(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """Numbers of each class along the last axis, labels without it, and the classes themselves."""
    numbers, labels, *classes = shapes
    if labels != numbers[:-1]:
        return tuple(shapes)
    heads = tuple(f"d{axis}" for axis in range(len(labels)))
    return (*heads, "classes"), heads, *(("classes",) for _ in classes)


def exact(name: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> tuple[Dims, ...]:
    """All sizes are part of the code."""
    return tuple(shapes)


RULES: Final[Mapping[str, Rule]] = {
    "matmul": product,
    "concat": joined,
    "conv": filters,
    "conv_transpose": filters,
    "batch_norm": channels,
    "instance_norm": channels,
    "group_norm": channels,
    "gather": separate,
    "gather_elements": separate,
    "einsum": summed,
    "contracted": contracted,
    "positions_before": separate,
    "program": exact,
    "class_cross_entropy": labelled,
    "negative_log_likelihood": labelled,
}
"""Operators and composites whose operands are not broadcast to each other."""


def rule_of(name: str) -> Rule:
    """The rule of the operator of that name."""
    return RULES.get(name, broadcast)
