"""Shapes of operands and attributes that go together, of the operators that rewrites are about."""

from collections.abc import Callable, Sequence
from random import Random

from weft.dialects.graph import OPS
from weft.dialects.graph.ops.reduce import ReduceOp

Shape = Sequence[int]
Attributes = Callable[..., dict[str, object]]
Plan = tuple[list[Shape | None], Attributes]
"""The shapes of the operands that have to be there, None for one that is broadcast to the first;
and the attributes, from the shapes that they have got.
"""

OPTIONAL = {"clip": 2, "pad": 1, "conv": 1, "conv_transpose": 1, "gemm": 1}
"""How many operands may be absent."""


def beside(random: Random, shape: Shape) -> Shape:
    """A shape that is broadcast to another, or to which that is."""
    kept = [dim if random.random() < 0.5 else 1 for dim in shape]
    return random.choice((shape, shape, (), kept, kept, kept[random.randint(0, len(kept)) :]))


def elementwise(random: Random, shape: Shape) -> Plan:
    """Any shapes that are broadcast to each other."""
    return [shape, None, None], lambda *_: {}


def _transpose(random: Random, shape: Shape) -> Plan:
    order = list(range(len(shape)))
    if random.random() < 0.7:
        order[-2:] = order[-2:][::-1]
    else:
        random.shuffle(order)
    source = [shape[order.index(axis)] for axis in range(len(order))]
    return [source], lambda _: {"permutation": order}


def _expand(random: Random, shape: Shape) -> Plan:
    kept = [dim if random.random() < 0.5 else 1 for dim in shape]
    return [kept[random.randint(0, len(kept)) :]], lambda *_: {"shape": shape}


def _reshape(random: Random, shape: Shape) -> Plan:
    """With one more dim of 1."""

    def dims(source: Shape) -> dict[str, object]:
        at = random.randint(0, len(source))
        return {"shape": [*source[:at], 1, *source[at:]]}

    return [shape], dims


def _slice(random: Random, shape: Shape) -> Plan:
    def box(source: Shape) -> dict[str, object]:
        own = [(0, dim, 1) if random.random() < 0.5 else _line(random, dim) for dim in source]
        starts, sizes, steps = ([each[part] for each in own] for part in range(3))
        return {"starts": starts, "sizes": sizes, "steps": steps}

    return [[dim + random.randint(0, 2) for dim in shape]], box


def _scattered(random: Random, shape: Shape) -> Plan:
    """A line along one axis at most."""
    whole = random.randrange(len(shape) + 1)
    source = [dim if axis == whole else 1 for axis, dim in enumerate(shape)]
    starts = [0 if axis == whole else random.randrange(dim) for axis, dim in enumerate(shape)]
    return [source], lambda *_: {"shape": shape, "starts": starts, "steps": [1] * len(shape)}


def _line(random: Random, dim: int) -> tuple[int, int, int]:
    """A start, a size and a step within an axis."""
    step, start = random.choice((1, 1, 1, 2, -1)), random.randrange(dim)
    room = dim - start if step > 0 else start + 1
    return start, random.randint(1, -(-room // abs(step))), step


def _split(random: Random, shape: Shape) -> Plan:
    def parts(source: Shape) -> dict[str, object]:
        axis = random.randrange(len(source))
        first = random.randint(0, source[axis])
        return {"axis": axis, "sizes": [first, source[axis] - first]}

    return [shape], parts


def _along(random: Random, shape: Shape) -> Plan:
    return [shape, random.choice(((), (2,), (2, 2)))], lambda *sources: {
        "axis": random.randrange(min(len(source) or 1 for source in sources[:1]))
    }


def _reduce(random: Random, shape: Shape) -> Plan:
    wider = [*shape, random.randint(1, 3)]

    def axes(source: Shape) -> dict[str, object]:
        count = random.randint(1, max(1, len(source) - 1))
        return {"axes": random.sample(range(len(source)), count), "keepdims": random.random() < 0.5}

    return [wider], axes


def _matmul(random: Random, shape: Shape) -> Plan:
    (*batch, rows, columns), inner = (1, 2, *shape)[-max(2, len(shape)) :], random.randint(1, 3)
    right = random.choice(([inner, columns], [*batch, inner, columns]))
    return [[*batch, rows, inner], right], lambda *_: {}


def _gemm(random: Random, shape: Shape) -> Plan:
    rows, columns, inner = (random.randint(1, 3) for _ in range(3))
    turned = [random.random() < 0.5 for _ in range(2)]
    left, right = [rows, inner], [inner, columns]
    options = {"alpha": random.choice((1.0, 2.0)), "beta": random.choice((1.0, 2.0))}
    options |= {"transpose_a": turned[0], "transpose_b": turned[1]}
    return [left[::-1] if turned[0] else left, right[::-1] if turned[1] else right], (
        lambda *_: options
    )


def _image(random: Random) -> list[int]:
    return [random.randint(2, 5) for _ in range(random.choice((1, 2)))]


def _conv(random: Random, shape: Shape) -> Plan:
    spatial, groups = _image(random), random.choice((1, 1, 2))
    inputs, outputs = groups * random.randint(1, 2), groups * random.randint(1, 2)
    kernel = [random.randint(1, 2) for _ in spatial]
    options = _window(random, len(spatial)) | {"group": groups}
    return [[1, inputs, *spatial], [outputs, inputs // groups, *kernel]], lambda *_: options


def _conv_transpose(random: Random, shape: Shape) -> Plan:
    (image, (outputs, inputs, *kernel)), attributes = _conv(random, shape)
    groups = image[1] // inputs
    return [image, [image[1], outputs // groups, *kernel]], lambda *_: {"group": groups}


def _window(random: Random, rank: int) -> dict[str, object]:
    dilations = [random.choice((1, 1, 2)) for _ in range(rank)]
    pads = [random.choice((0, 0, 1)) for _ in range(2 * rank)]
    return {"strides": [random.randint(1, 2) for _ in range(rank)], "pads": pads} | (
        {"dilations": dilations}
    )


def _pool(random: Random, shape: Shape) -> Plan:
    spatial = _image(random)
    kernel = [random.randint(1, 3) for _ in spatial]
    options = _window(random, len(spatial)) | {"kernel": kernel, "ceil_mode": random.random() < 0.5}
    return [[1, 2, *spatial]], lambda *_: options


def _average_pool(random: Random, shape: Shape) -> Plan:
    shapes, attributes = _pool(random, shape)
    return shapes, lambda *_: attributes() | {"count_include_pad": random.random() < 0.5}


def _pad(random: Random, shape: Shape) -> Plan:
    def pads(source: Shape) -> dict[str, object]:
        outer = 0 if random.random() < 0.8 else 1
        sides = [[outer, outer, *(random.randint(0, 1) for _ in source[2:])] for _ in range(2)]
        return {"pads": sides[0] + sides[1]}

    return [shape], pads


def _batch_norm(random: Random, shape: Shape) -> Plan:
    image = [2, 2, *shape[2:]]
    return [image, [2], [2], [2], [2]], lambda *_: {"epsilon": 1.0}


def _sorted(random: Random, shape: Shape) -> Plan:
    axis = random.randrange(len(shape))

    def attributes(source: Shape) -> dict[str, object]:
        return {"axis": axis, "descending": random.random() < 0.5, "count": [source[axis]]}

    return [shape], attributes


def _elements(random: Random, shape: Shape) -> Plan:
    axis = random.randrange(len(shape))
    return [shape, shape], lambda *_: {"axis": axis}


PLANS: dict[str, Callable[[Random, Shape], Plan]] = {
    "transpose": _transpose,
    "expand": _expand,
    "reshape": _reshape,
    "slice": _slice,
    "scatter_slice": _scattered,
    "split": _split,
    "concat": _along,
    "gather": _along,
    "gather_elements": _elements,
    "argsort": _sorted,
    "matmul": _matmul,
    "gemm": _gemm,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _pool,
    "average_pool": _average_pool,
    "pad": _pad,
    "batch_norm": _batch_norm,
    **{op.name.removeprefix("graph."): _reduce for op in OPS if issubclass(op, ReduceOp)},
}
"""By name; of any other operator operands are broadcast, and it has no attributes."""
