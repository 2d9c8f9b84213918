"""Random operators: convolutions of all attributes, products, pools, reductions, normalisations,
transposes and elementwise functions, of constant and symbolic sizes, on constants and on inputs.
A seed gives the same cases everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from benchmarks.case import Case, Inputs, random_array

OPSET: Final = 23
IR_VERSION: Final = 10

MOST_FLOPS: Final = 4e8
MOST_ELEMENTS: Final = 1 << 22
"""Larger operators are drawn again, so that a sweep over many stays short."""

SYMBOLIC: Final = 0.3
"""The share of operators some of whose sizes the model does not know."""

CONSTANT: Final = 0.7
"""The share of filters and right operands that are constants."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """One node on operands of these shapes. Those with a number in `constants` are stored in the
    model, with equal elements where it is `uniform`; `integers` are operands of integers that the
    operator's attributes were before. `symbolic` holds axes of the first operand whose size the
    model does not know; `flops` is about what it computes.
    """

    family: str
    op: str
    shapes: Sequence[Shape]
    constants: Sequence[int] = ()
    integers: Sequence[tuple[int, Sequence[int]]] = ()
    symbolic: Sequence[int] = ()
    uniform: bool = False
    flops: float = 0.0
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def fits(self) -> bool:
        """Whether it is small enough for a sweep over many."""
        elements = max(prod(shape) for shape in self.shapes)
        return self.flops <= MOST_FLOPS and elements <= MOST_ELEMENTS

    def text(self) -> str:
        """The operator in a line: what is computed on what, `*` behind sizes that are symbolic and
        `const` in front of operands that are stored.
        """
        operands = [
            ("const " if number in self.constants else "")
            + "x".join(
                f"{size}*" if number == 0 and axis in self.symbolic else f"{size}"
                for axis, size in enumerate(shape)
            )
            for number, shape in enumerate(self.shapes)
        ]
        operands += [str(list(numbers)) for _, numbers in self.integers]
        attributes = " ".join(f"{name}={value}" for name, value in self.attributes.items())
        equal = " of equal elements" if self.uniform else ""
        return f"{self.op}({', '.join(operands)}){equal} {attributes}".rstrip()

    def model(self) -> ModelProto:
        """The operator as a model of one node."""
        names = [f"x{number}" for number in range(len(self.shapes))]
        stored = [
            numpy_helper.from_array(
                self._array(number) / prod(self.shapes[number][1:]) ** 0.5, name
            )
            for number, name in enumerate(names)
            if number in self.constants
        ]
        for position, numbers in self.integers:
            names.insert(position, f"numbers{position}")
            stored.append(
                helper.make_tensor(names[position], TensorProto.INT64, [len(numbers)], numbers)
            )
        node = helper.make_node(self.op, names, ["y"], name=self.op, **self.attributes)
        inputs = [
            helper.make_tensor_value_info(f"x{number}", TensorProto.FLOAT, self._dims(number))
            for number in range(len(self.shapes))
            if number not in self.constants
        ]
        integer = self.op in ("ArgMax", "ArgMin")
        output = TensorProto.INT64 if integer else TensorProto.FLOAT
        outputs = [helper.make_tensor_value_info("y", output, None)]
        graph = helper.make_graph([node], self.op, inputs, outputs, stored)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return shape_inference.infer_shapes(model, strict_mode=True)

    def inputs(self) -> Inputs:
        """An array for each operand that is not stored."""
        numbers = [n for n in range(len(self.shapes)) if n not in self.constants]
        return {f"x{number}": self._array(number) for number in numbers}

    def _array(self, number: int) -> Any:
        values = random_array(self.shapes[number], TensorProto.FLOAT, number)
        if self.uniform and number in self.constants:
            values[...] = 0.25
        positive = self.op in ("Sqrt", "Log", "BatchNormalization", "ReduceLogSum", "Pow")
        return abs(values) + 0.1 if positive else values

    def _dims(self, number: int) -> list[int | str]:
        axes = self.symbolic if number == 0 else ()
        return [
            f"n{axis}" if axis in axes else size for axis, size in enumerate(self.shapes[number])
        ]


def random_cases(seed: int, count: int) -> list[Case]:
    """So many cases of a seed, each of a family that is drawn by its weight. The names say the
    seed, the number and the family; `describe` says the rest.
    """
    return [
        Case(f"random_{seed}_{n:03}_{each.family}", each.model, each.inputs)
        for n, each in enumerate(random_operators(seed, count))
    ]


def random_operators(seed: int, count: int) -> list[Operator]:
    """The operators of `random_cases`."""
    choice = random.Random(seed)
    families, weights = zip(*FAMILIES, strict=True)
    found: list[Operator] = []
    while len(found) < count:
        (family,) = choice.choices(families, weights)
        drawn = family(choice)
        if drawn.fits:
            found.append(drawn)
    return found


def _extent(choice: random.Random, least: int, most: int) -> int:
    """A size between bounds, each doubling a little more often than the one before it: as people
    choose them (a multiple of a power of two) or any.
    """
    size = round(least * (most / least) ** choice.random() ** 0.7)
    unit = choice.choice([1, 1, 2, 4, 8, 16, 32])
    return max(least, size // unit * unit)


def _symbolic(choice: random.Random, axes: Sequence[int]) -> Sequence[int]:
    """Some of these axes, or none of them."""
    if choice.random() >= SYMBOLIC:
        return ()
    return tuple(axis for axis in axes if choice.random() < 0.6) or tuple(axes[:1])


def _padding(choice: random.Random, spans: Sequence[int]) -> list[int]:
    """Padding in front of each axis, then behind each, for windows of these spans: for results of
    about the operand's size, none, or any.
    """
    padding = choice.choice(["same", "same", "none", "random"])
    if padding == "same":
        return [span // 2 for span in spans] * 2
    if padding == "none":
        return [0] * 2 * len(spans)
    return [choice.randrange(span) for span in [*spans, *spans]]


def _convolution(choice: random.Random) -> Operator:
    rank = choice.choice([1, 2, 2, 2, 2, 2, 2, 3])
    group = choice.choice([1, 1, 1, 1, 2, 4, 0])  # 0: depthwise
    inner = _extent(choice, 1 if choice.random() < 0.2 else 8, 256)
    if group == 0:
        channels, group = inner, inner
        wider = channels * choice.choice([1, 1, 1, 2])
    else:
        channels = max(1, inner // group) * group
        wider = group * max(1, _extent(choice, 4, 256) // group)
    most = {1: 2048, 2: 112, 3: 24}[rank]
    sizes = [_extent(choice, 5, most) for _ in range(rank)]
    if choice.random() < 0.6:
        sizes = sizes[:1] * rank
    square = choice.random() < 0.8
    taps = [choice.choice([1, 1, 2, 3, 3, 3, 5, 7]) for _ in range(rank)]
    taps = taps[:1] * rank if square else taps
    strides = [choice.choice([1, 1, 1, 2, 2, 3])] * rank
    dilations = [choice.choice([1, 1, 1, 1, 2, 3, 6])] * rank
    spans = [d * (k - 1) + 1 for k, d in zip(taps, dilations, strict=True)]
    pads = _padding(choice, spans)
    out = [
        (size + pads[axis] + pads[rank + axis] - spans[axis]) // strides[axis] + 1
        for axis, size in enumerate(sizes)
    ]
    if min(out) < 1:
        return _convolution(choice)
    batch = choice.choice([1, 1, 1, 2, 4])
    constant = choice.random() < CONSTANT
    shapes = [(batch, channels, *sizes), (wider, channels // group, *taps)]
    with_bias = choice.random() < 0.5
    return Operator(
        "conv",
        "Conv",
        [*shapes, (wider,)] if with_bias else shapes,
        constants=([1, 2] if with_bias else [1]) if constant else (),
        symbolic=_symbolic(choice, [0, *range(2, 2 + rank)]),
        uniform=constant and choice.random() < 0.05,
        flops=2.0 * batch * wider * (channels // group) * prod(taps) * prod(out),
        attributes={
            "kernel_shape": taps,
            "strides": strides,
            "pads": pads,
            "dilations": dilations,
            "group": group,
        },
    )


def _transposed_convolution(choice: random.Random) -> Operator:
    group = choice.choice([1, 1, 1, 2])
    channels, wider = group * _extent(choice, 4, 128), _extent(choice, 4, 96)
    size = _extent(choice, 4, 56)
    taps = choice.choice([2, 3, 4, 5])
    stride = choice.choice([1, 2, 2, 3])
    pads = [choice.randrange(taps)] * 4
    if (size - 1) * stride + taps - 2 * pads[0] < 1:
        return _transposed_convolution(choice)
    return Operator(
        "conv_transpose",
        "ConvTranspose",
        [(1, channels, size, size), (channels, wider, taps, taps)],
        constants=[1] if choice.random() < CONSTANT else (),
        symbolic=_symbolic(choice, [2, 3]),
        flops=2.0 * channels * wider * taps**2 * size**2,
        attributes={"strides": [stride] * 2, "pads": pads, "group": group},
    )


def _product(choice: random.Random) -> Operator:
    m, k, n = (_extent(choice, 1 if choice.random() < 0.25 else 16, 1500) for _ in range(3))
    flops = 2.0 * m * k * n
    constant = [1] if choice.random() < CONSTANT / 2 else ()
    if choice.random() < 0.4:
        transposed = choice.randrange(2), choice.randrange(2)
        lhs, rhs = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n)
        symbolic = _symbolic(choice, [1 if transposed[0] else 0])
        attributes = {"transA": transposed[0], "transB": transposed[1]}
        return Operator(
            "gemm", "Gemm", [lhs, rhs], constant, (), symbolic, False, flops, attributes
        )
    batch: Shape = choice.choice([(), (), (2,), (12,), (2, 8)])
    with_batch = batch if not constant and choice.random() < 0.7 else ()
    symbolic = _symbolic(choice, [len(batch)])
    shapes = [(*batch, m, k), (*with_batch, k, n)]
    return Operator("matmul", "MatMul", shapes, constant, (), symbolic, False, prod(batch) * flops)


def _attention(choice: random.Random) -> Operator:
    batch, heads = choice.choice([1, 1, 2]), choice.choice([1, 4, 8, 12])
    length, keys = (_extent(choice, 1 if choice.random() < 0.3 else 16, 512) for _ in range(2))
    size = choice.choice([32, 64, 64, 80, 128])
    causal = int(choice.random() < 0.3)
    keys = length if causal or choice.random() < 0.7 else keys
    q, k = (batch, heads, length, size), (batch, heads, keys, size)
    flops = 4.0 * batch * heads * length * keys * size
    attributes = {"is_causal": causal}
    return Operator("attention", "Attention", [q, k, k], (), (), (), False, flops, attributes)


def _image(choice: random.Random) -> Shape:
    side = _extent(choice, 4, 128)
    return choice.choice([1, 1, 2]), _extent(choice, 1, 256), side, choice.choice([side, side, 17])


def _pool(choice: random.Random) -> Operator:
    shape = _image(choice)
    op = choice.choice(["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    symbolic = _symbolic(choice, [0, 2, 3])
    if op.startswith("Global"):
        return Operator("pool", op, [shape], symbolic=symbolic)
    taps = choice.choice([2, 2, 3, 3, 5, 7])
    if min(shape[2:]) < taps:
        return _pool(choice)
    attributes = {
        "kernel_shape": [taps] * 2,
        "strides": [choice.choice([1, 2, 2, taps])] * 2,
        "pads": [choice.choice([0, taps // 2])] * 4,
        "ceil_mode": int(choice.random() < 0.2),
    }
    return Operator("pool", op, [shape], symbolic=symbolic, attributes=attributes)


def _shape(choice: random.Random, least: int = 1, most: int = 4) -> Shape:
    rank = choice.randint(least, most)
    longest = {1: MOST_ELEMENTS, 2: 2048, 3: 256, 4: 96, 5: 32}[rank]
    return tuple(_extent(choice, 1 if choice.random() < 0.1 else 4, longest) for _ in range(rank))


REDUCTIONS: Final = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
)


def _reduction(choice: random.Random) -> Operator:
    shape = _shape(choice)
    symbolic = _symbolic(choice, range(len(shape)))
    if choice.random() < 0.15:
        axis = choice.randrange(len(shape))
        op = choice.choice(["ArgMax", "ArgMin"])
        return Operator("arg", op, [shape], symbolic=symbolic, attributes={"axis": axis})
    axes = sorted(choice.sample(range(len(shape)), choice.randint(1, len(shape))))
    attributes = {"keepdims": choice.randrange(2)}
    op = choice.choice(REDUCTIONS)
    return Operator("reduce", op, [shape], (), [(1, axes)], symbolic, attributes=attributes)


def _normalisation(choice: random.Random) -> Operator:
    op = choice.choice(
        [
            "Softmax",
            "Softmax",
            "LogSoftmax",
            "LayerNormalization",
            "LayerNormalization",
            "RMSNormalization",
            "BatchNormalization",
            "InstanceNormalization",
            "LpNormalization",
        ]
    )
    if op in ("BatchNormalization", "InstanceNormalization"):
        shape = _image(choice)
        count = 4 if op == "BatchNormalization" else 2
        symbolic = _symbolic(choice, [0, 2, 3])
        shapes, constants = [shape, *[shape[1:2]] * count], range(1, 1 + count)
        return Operator("norm", op, shapes, constants, (), symbolic)
    shape = _shape(choice)
    axis = choice.choice([len(shape) - 1] * 3 + list(range(len(shape))))
    symbolic = _symbolic(choice, range(len(shape)))
    attributes = {"axis": axis}
    if op in ("LayerNormalization", "RMSNormalization"):
        count = 2 if op == "LayerNormalization" else 1
        shapes, constants = [shape, *[shape[axis:]] * count], range(1, 1 + count)
        symbolic = [each for each in symbolic if each < axis]
        return Operator("norm", op, shapes, constants, (), symbolic, attributes=attributes)
    return Operator("norm", op, [shape], symbolic=symbolic, attributes=attributes)


def _transpose(choice: random.Random) -> Operator:
    shape = _shape(choice, 2, 5)
    order = list(range(len(shape)))
    while order == sorted(order):
        choice.shuffle(order)
    symbolic = _symbolic(choice, range(len(shape)))
    return Operator(
        "transpose", "Transpose", [shape], symbolic=symbolic, attributes={"perm": order}
    )


UNARY: Final = ("Relu", "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Gelu", "HardSwish", "Sin")
BINARY: Final = ("Add", "Sub", "Mul", "Div", "Max", "Pow")


def _elementwise(choice: random.Random) -> Operator:
    shape = _shape(choice)
    symbolic = _symbolic(choice, range(len(shape)))
    if choice.random() < 0.5:
        return Operator("elementwise", choice.choice(UNARY), [shape], symbolic=symbolic)
    other = tuple(1 if choice.random() < 0.3 else size for size in shape)
    other = other[choice.choice([0, 0, len(shape) - 1]) :]
    fixed = [axis for axis in symbolic if (other[::-1] + (1,) * 9)[len(shape) - 1 - axis] == 1]
    return Operator("elementwise", choice.choice(BINARY), [shape, other], symbolic=fixed)


Family = Callable[[random.Random], Operator]

FAMILIES: Final[Sequence[tuple[Family, int]]] = (
    (_convolution, 30),
    (_transposed_convolution, 4),
    (_product, 20),
    (_attention, 4),
    (_pool, 8),
    (_reduction, 10),
    (_normalisation, 10),
    (_transpose, 7),
    (_elementwise, 7),
)
"""What draws an operator, with its weight."""
