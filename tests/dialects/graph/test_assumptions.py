"""What operators require of sizes that a call alone knows: what `infer` refuses of numbers, a call
refuses of named sizes, for `assumptions` has it.
"""
# pyright: basic

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.ir import Block

from tests.support import oracle
from tests.support.samples import SAMPLES
from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, Symbol
from weft.dialects.graph import OPS
from weft.dialects.graph.core.op import SEGMENTS
from weft.dialects.graph.core.types import ShapeAttr, tensor, type_of

SIDES = (0, 1, 2, 3, 5, 17)


def with_names(sample, draw):
    """Shapes in which sizes are names, one for equal ones or one each, and what these stand for."""
    shapes, sizes, apart = [], {}, draw.random() < 0.5
    for number, array in enumerate(sample.present):
        shape = []
        for axis, size in enumerate(array.shape):
            named = draw.random() < (0.3 if size < 2 else 0.8)
            name = f"n{number}_{axis}" if apart else f"n{size}"
            shape.append(Expr.of(name if named else size))
            sizes |= {name: size} if named else {}
        shapes.append(tuple(shape))
    return shapes, sizes


def specialised(op, sizes):
    """The operator with numbers for names. Raises TypeInferenceError where `infer` refuses them."""
    values = {Symbol(name): size for name, size in sizes.items()}

    def number(value):
        if not isinstance(value, ShapeAttr) or value.data is None:
            return value
        return ShapeAttr(tuple(Expr.of(dim.evaluate(values)) for dim in value.data))

    kinds = [
        tensor([dim.evaluate(values) for dim in kind.shape], kind.element)
        for kind in op.tensor_types()
    ]
    arguments = iter(Block(arg_types=kinds).args)
    slots = [None if each is None else next(arguments) for each in op.slots()]
    kept = {name: number(value) for name, value in op.properties.items() if name != SEGMENTS}
    return type(op).from_properties(slots, kept)


@pytest.mark.parametrize("cls", OPS, ids=lambda cls: cls.name.removeprefix("graph."))
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_s1_sizes_that_infer_refuses_are_refused_by_a_call(cls, data, seed):
    """s1, w1: no kernel runs on sizes that its operator was not defined for."""
    draw = random.Random(seed)
    sample = data.draw(SAMPLES[cls])
    shapes, sizes = with_names(sample, draw)
    try:
        op = oracle.operator(cls, sample, shapes)
    except TypeInferenceError:  # no name can stand for these
        return
    for _ in range(3):
        other = {name: draw.choice([size, *SIDES]) for name, size in sizes.items()}
        values = {Symbol(name): size for name, size in other.items()}
        held = all(one.evaluate(values) == two.evaluate(values) for one, two in op.assumptions())
        if not held:
            continue
        results = specialised(op, other).results  # which raises where a call is to be refused
        dims = [[dim.evaluate(values) for dim in type_of(y).shape] for y in op.results]
        assert dims == [list(type_of(y).static_shape) for y in results], f"{op} with {other}"
