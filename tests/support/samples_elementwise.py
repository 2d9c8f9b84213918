"""Samples of the elementwise operators: all element types, operands that are broadcast."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, bools, floats, integers, shapes
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.elementwise import BinaryOp, UnaryOp
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E4M3FN,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    FLOATS,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    STORED,
    UI2,
    UI4,
    UI8,
    UI16,
    UI32,
    UI64,
    UNSIGNED,
)
from weft.dialects.graph.ops import (
    activation,
    arithmetic,
    comparison,
    exponential,
    extremum,
    trigonometry,
)
from weft.dialects.graph.ops.cast import BitcastOp, CastOp

NONE = st.just({})
"""No attributes."""


def numbers(shape, element, low: float = -3, high: float = 3):
    """Numbers of an element type; unsigned ones start at zero, or higher where `low` is."""
    dtype = numpy_dtype(element)
    if element == BOOL:
        return bools(shape)
    if element in FLOATS:
        return floats(shape, low, high, dtype)
    least = max(low, 0) if element in UNSIGNED else low
    return integers(shape, int(np.ceil(least)), int(high), dtype)


def elements(cls: type[GraphOp]):
    """An element type that the operator takes; f32 and f64 often."""
    return st.sampled_from(
        [element for element in (F32, F64, *cls.ELEMENTS) if element in cls.ELEMENTS]
    )


@st.composite
def unary(draw, cls: type[UnaryOp], low=-3, high=3, attributes=NONE, min_dims=0) -> Sample:
    element = draw(elements(cls))
    array = draw(numbers(draw(shapes(min_dims)), element, low, high))
    return Sample([array], draw(attributes))


@st.composite
def broadcast_pair(draw, count: int = 2) -> list[tuple[int, ...]]:
    """Shapes that broadcast against each other: some dims are 1, some leading ones missing."""
    shape = draw(shapes())
    found = []
    for _ in range(count):
        narrow = tuple(draw(st.sampled_from([dim, dim, 1])) for dim in shape)
        found.append(narrow[draw(st.integers(0, len(shape))) :] if draw(st.booleans()) else narrow)
    return found


@st.composite
def binary(
    draw, cls: type[BinaryOp], lhs=(-3, 3), rhs=(-3, 3), attributes=NONE, taken=None
) -> Sample:
    element = draw(elements(cls) if taken is None else st.sampled_from(taken))
    left, right = draw(broadcast_pair())
    operands = [draw(numbers(left, element, *lhs)), draw(numbers(right, element, *rhs))]
    return Sample(operands, draw(attributes))


@st.composite
def divisions(draw, cls: type[BinaryOp], attributes=NONE, taken=None) -> Sample:
    """Divisors other than zero, of both signs."""
    sample = draw(binary(cls, (-7, 7), (1, 4), attributes, taken))
    dividend, divisor = sample.operands
    if divisor.dtype.kind != "u":
        sign = draw(integers(divisor.shape, 0, 1)) * 2 - 1
        divisor = (divisor * sign).astype(divisor.dtype)
    return Sample([dividend, divisor], sample.attributes)


@st.composite
def powers(draw) -> Sample:
    element = draw(elements(exponential.PowOp))
    left, right = draw(broadcast_pair())
    if element in FLOATS:
        return Sample([draw(numbers(left, element, 0.5, 2)), draw(numbers(right, element, -2, 2))])
    return Sample([draw(numbers(left, element, -3, 3)), draw(numbers(right, element, -3, 5))])


@st.composite
def clips(draw) -> Sample:
    element = draw(elements(extremum.ClipOp))
    low = draw(st.none() | numbers((), element, -2, 0))
    high = draw(st.none() | numbers((), element, 1, 2))
    return Sample([draw(numbers(draw(shapes()), element)), low, high])


@st.composite
def choices(draw) -> Sample:
    element = draw(elements(comparison.ComparisonOp))
    condition, left, right = draw(broadcast_pair(3))
    return Sample(
        [draw(bools(condition)), draw(numbers(left, element)), draw(numbers(right, element))]
    )


@st.composite
def special_floats(draw, attributes=NONE) -> Sample:
    element = draw(st.sampled_from(FLOATS))
    array = draw(numbers(draw(shapes()), element))
    kinds = draw(integers(array.shape, 0, 3))
    values = np.choose(kinds, [array.astype(np.float64), np.nan, np.inf, -np.inf])
    return Sample([np.asarray(values).astype(array.dtype)], draw(attributes))


@st.composite
def slopes(draw) -> Sample:
    """A slope that has at most the operand's dims."""
    element = draw(elements(activation.PreluOp))
    shape = draw(shapes())
    narrow = tuple(draw(st.sampled_from([dim, 1])) for dim in shape)
    narrow = narrow[draw(st.integers(0, len(narrow))) :]
    return Sample([draw(numbers(shape, element)), draw(numbers(narrow, element))])


@st.composite
def casts(draw) -> Sample:
    source = draw(st.sampled_from([*NUMBERS, BOOL]) | st.sampled_from(STORED))
    target = draw(st.sampled_from([*NUMBERS, BOOL]) | st.sampled_from(STORED))
    limit = 300 if source in (*FLOATS, F32) else 100
    if source not in STORED:
        return Sample([draw(numbers(draw(shapes()), source, -limit, limit))], {"to": target})
    codes = draw(integers(draw(shapes()), 0, (1 << source.bitwidth) - 1, np.uint8))
    return Sample([codes.view(numpy_dtype(source))], {"to": target})


@st.composite
def bitcasts(draw) -> Sample:
    """Patterns of bits; those of bools are 0 and 1."""
    families = [
        [UI8, I8, BOOL, F8E4M3FN, F8E5M2FNUZ, F8E8M0FNU],
        [UI16, I16, F16, BF16],
        [UI32, I32, F32],
        [UI64, I64, F64],
        [F6E2M3FN, F6E3M2FN],
        [I4, UI4, F4E2M1FN],
        [I2, UI2],
    ]
    source, target = draw(
        st.lists(st.sampled_from(draw(st.sampled_from(families))), min_size=2, max_size=2)
    )
    bits = 1 if BOOL in (source, target) else source.bitwidth
    dtype = numpy_dtype(source)
    most = min((1 << bits) - 1, 2**63 - 1)
    codes = draw(integers(draw(shapes()), 0, most, f"u{dtype.itemsize}"))
    return Sample([codes.view(dtype)], {"to": target})


def fixed(**values: AttributeValue):
    return st.just(values)


def parameters(*names: str):
    """Float attributes between 0.25 and 2."""
    return st.fixed_dictionaries({name: st.integers(1, 8).map(lambda n: n / 4) for name in names})


PLAIN = (
    arithmetic.NegOp,
    arithmetic.AbsOp,
    arithmetic.SignOp,
    arithmetic.FloorOp,
    arithmetic.CeilOp,
    arithmetic.RoundOp,
    exponential.ExpOp,
    exponential.Expm1Op,
    exponential.ErfOp,
    trigonometry.SinOp,
    trigonometry.CosOp,
    trigonometry.AtanOp,
    trigonometry.SinhOp,
    trigonometry.CoshOp,
    trigonometry.TanhOp,
    trigonometry.AsinhOp,
    activation.ReluOp,
    activation.SigmoidOp,
    activation.HardSwishOp,
    activation.SoftplusOp,
    activation.MishOp,
    comparison.LogicalNotOp,
    comparison.BitwiseNotOp,
)
PLAIN_PAIRS = (
    arithmetic.AddOp,
    arithmetic.SubOp,
    arithmetic.MulOp,
    extremum.MaxOp,
    extremum.MinOp,
    comparison.EqualOp,
    comparison.LessOp,
    comparison.LessEqualOp,
    comparison.GreaterOp,
    comparison.GreaterEqualOp,
    comparison.LogicalAndOp,
    comparison.LogicalOrOp,
    comparison.LogicalXorOp,
    comparison.BitwiseAndOp,
    comparison.BitwiseOrOp,
    comparison.BitwiseXorOp,
)
SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    **{cls: unary(cls) for cls in PLAIN},
    **{cls: binary(cls) for cls in PLAIN_PAIRS},
    arithmetic.DivOp: divisions(arithmetic.DivOp),
    arithmetic.ModOp: divisions(
        arithmetic.ModOp, st.fixed_dictionaries({"fmod": st.booleans()}), (F32, *INTEGERS)
    ),
    extremum.ClipOp: clips(),
    arithmetic.ReciprocalOp: unary(arithmetic.ReciprocalOp, 0.25, 3),
    exponential.LogOp: unary(exponential.LogOp, 0.25, 3),
    exponential.Log1pOp: unary(exponential.Log1pOp, -0.75, 3),
    exponential.SqrtOp: unary(exponential.SqrtOp, 0.25, 3),
    exponential.PowOp: powers(),
    trigonometry.TanOp: unary(trigonometry.TanOp, -1.25, 1.25),
    trigonometry.AsinOp: unary(trigonometry.AsinOp, -0.75, 0.75),
    trigonometry.AcosOp: unary(trigonometry.AcosOp, -0.75, 0.75),
    trigonometry.AcoshOp: unary(trigonometry.AcoshOp, 1.25, 4),
    trigonometry.AtanhOp: unary(trigonometry.AtanhOp, -0.75, 0.75),
    activation.GeluOp: unary(
        activation.GeluOp,
        attributes=st.fixed_dictionaries({"approximate": st.sampled_from(["none", "tanh"])}),
    ),
    activation.EluOp: unary(activation.EluOp, attributes=parameters("alpha")),
    activation.SeluOp: unary(activation.SeluOp, attributes=parameters("alpha", "gamma")),
    activation.CeluOp: unary(activation.CeluOp, attributes=parameters("alpha")),
    activation.LeakyReluOp: unary(activation.LeakyReluOp, attributes=parameters("alpha")),
    activation.PreluOp: slopes(),
    activation.ThresholdedReluOp: unary(
        activation.ThresholdedReluOp, attributes=parameters("alpha")
    ),
    activation.HardSigmoidOp: unary(
        activation.HardSigmoidOp, attributes=parameters("alpha", "beta")
    ),
    activation.SoftsignOp: unary(activation.SoftsignOp, min_dims=1),  # ONNX's refuses rank 0
    activation.SwishOp: unary(activation.SwishOp, attributes=parameters("alpha")),
    comparison.IsNanOp: special_floats(),
    comparison.IsInfOp: special_floats(
        st.fixed_dictionaries({"negative": st.booleans(), "positive": st.booleans()})
    ),
    comparison.WhereOp: choices(),
    comparison.BitShiftOp: binary(
        comparison.BitShiftOp,
        (-100, 100),
        (-3, 70),
        st.fixed_dictionaries({"direction": st.sampled_from(["LEFT", "RIGHT"])}),
    ),
    CastOp: casts(),
    BitcastOp: bitcasts(),
}
