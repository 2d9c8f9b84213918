"""Every operator x every facet, on the operator's samples."""
# pyright: basic

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint

from tests.support import oracle
from tests.support.sample import Sample
from tests.support.samples import SAMPLES
from weft.compiler.graph.differentiate.reverse_path import path_between
from weft.dialects.context import WeftContext
from weft.dialects.errors import TypeInferenceError, WeftError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph import OPS, OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.elementwise import BinaryOp, UnaryOp
from weft.dialects.graph.core.op import AttributeValue, ints
from weft.dialects.graph.core.types import BOOL, F32, F64, FLOATS, NARROW_FLOATS, ShapeAttr, type_of
from weft.dialects.graph.mesh.attributes import ShardingAttr
from weft.dialects.graph.ops.cast import BitcastOp, CastOp
from weft.dialects.weights import Array

EXAMPLES = settings(
    max_examples=6, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
TOLERANCES = {"float64": 1e-11, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Relative to the greatest element, by element type; other types must be equal."""

ONNX_TOLERANCES = TOLERANCES | {"float64": 1e-7, "float32": 1e-5}
"""ONNX's evaluator has constants of f32 in the bodies of its functions."""

WITH_VJP = [op for op in OPS if op.has_vjp()]
WITH_ONNX = [op for op in OPS if op.ONNX is not None]


def name_of(cls: type[GraphOp]) -> str:
    return cls.name.removeprefix("graph.")


def each(classes):
    return pytest.mark.parametrize("cls", classes, ids=name_of)


def check_close(actual: Array, expected: Array, tolerances=TOLERANCES) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    tolerance = tolerances.get(expected.dtype.name)
    if element_type(expected.dtype) in NARROW_FLOATS:  # NumPy takes their NaN for unequal
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    if tolerance is None:
        np.testing.assert_array_equal(actual, expected)
        return
    wide = expected.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    scale = max(1.0, finite.max(initial=0.0))
    np.testing.assert_allclose(
        actual.astype(np.float64), wide, rtol=tolerance, atol=tolerance * scale
    )


def lists_sizes(cls: type[GraphOp]) -> bool:
    """Whether an attribute lists sizes, which a sample knows as numbers alone."""
    properties = cls.get_irdl_definition().properties.values()
    return any(ShapeAttr in (definition.constr.get_bases() or ()) for definition in properties)


def test_every_operator_has_samples():
    assert set(SAMPLES) == set(OPS)


def named_below(cls: type[GraphOp]) -> set[str]:
    """The names of weft's own operators among the subclasses of a class."""
    own = {each for each in cls.__subclasses__() if each.__module__.startswith("weft.dialects.")}
    names = {each.__dict__["name"] for each in own if "name" in each.__dict__}
    return names.union(*map(named_below, own))


def test_every_operator_that_is_defined_is_listed():
    assert named_below(GraphOp) == {op.name for op in OPS}


@each(OPS)
@EXAMPLES
@given(data=st.data())
def test_inferred_types_are_those_of_the_reference(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    op = oracle.operator(cls, sample)
    results = oracle.references(op, sample.present)
    inferred = [type_of(result) for result in op.results]
    assert [kind.static_shape for kind in inferred] == [array.shape for array in results]
    assert [numpy_dtype(kind.element) for kind in inferred] == [array.dtype for array in results]


@each(OPS)
@EXAMPLES
@given(data=st.data(), generic=st.booleans())
def test_text_round_trip(cls: type[GraphOp], data: st.DataObject, generic: bool):
    module = oracle.module_of(oracle.operator(cls, data.draw(SAMPLES[cls])))
    module.verify()
    text = printed(module, generic)
    parsed = Parser(WeftContext(), text).parse_module()
    parsed.verify()
    assert printed(parsed, generic) == text
    assert parsed.is_structurally_equivalent(module)


def printed(module, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


@each(OPS)
@EXAMPLES
@given(data=st.data())
def test_lowered_loops_compute_the_reference(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    op = oracle.operator(cls, sample)
    expected = oracle.references(op, sample.present)
    outputs = oracle.run_lowered(op, sample.present, expected)
    for actual, array in zip(outputs, expected, strict=True):
        check_close(actual, array)


@each([op for op in OPS if not lists_sizes(op)])
@EXAMPLES
@given(data=st.data())
def test_symbolic_dims_stand_for_any_size(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    expected = oracle.references(oracle.operator(cls, sample), sample.present)
    sizes = {f"n{dim}": dim for array in sample.present for dim in array.shape if dim > 1}
    shapes = [
        tuple(Expr.of(f"n{dim}" if dim > 1 else dim) for dim in x.shape) for x in sample.present
    ]
    try:
        op = oracle.operator(cls, sample, shapes)
    except TypeInferenceError:  # a number that the dims must divide or be, which no symbol can show
        reject()
    symbols: dict[Atom, int] = {Symbol(name): size for name, size in sizes.items()}
    inferred = [[dim.evaluate(symbols) for dim in type_of(y).shape] for y in op.results]
    assert inferred == [list(array.shape) for array in expected]
    outputs = oracle.run_lowered(op, sample.present, expected, sizes)
    for actual, array in zip(outputs, expected, strict=True):
        check_close(actual, array)


@each(OPS)
@settings(max_examples=2)  # the first is the simplest sample alone
@given(data=st.data())
def test_compiled_code_computes_the_reference(cls: type[GraphOp], data: st.DataObject):
    samples = data.draw(st.lists(SAMPLES[cls], min_size=1, max_size=8))
    ops, results = oracle.run_compiled(cls, samples)
    for op, sample, outputs in zip(ops, samples, results, strict=True):
        expected = oracle.references(op, sample.present)
        for actual, array in zip(outputs, expected, strict=True):
            check_close(actual, array)


def on_special_floats(cls: type[GraphOp]) -> Sample:
    """Every pair (or each) of the floats where functions are odd; the attributes of a sample."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-42, -3e38], np.float32)
    count = len(cls.get_irdl_definition().operands)
    grids = np.meshgrid(*[special] * count)
    return Sample([grid.reshape(-1) for grid in grids], SPECIAL_ATTRIBUTES.get(name_of(cls), {}))


SPECIAL_ATTRIBUTES: dict[str, dict[str, AttributeValue]] = {
    "celu": {"alpha": 0.5},
    "elu": {"alpha": 0.5},
    "gelu": {"approximate": "none"},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "is_inf": {"negative": True, "positive": False},
    "leaky_relu": {"alpha": 0.5},
    "mod": {"fmod": True},
    "selu": {"alpha": 1.5, "gamma": 1.25},
    "shard": {"sharding": ShardingAttr(((),))},
    "stage": {"index": 1},
    "swish": {"alpha": 0.5},
    "thresholded_relu": {"alpha": 0.5},
    "watch": {"label": "hidden"},
}
ON_FLOATS = [
    op
    for op in OPS
    if issubclass(op, (UnaryOp, BinaryOp)) and F32 in op.ELEMENTS and op not in (CastOp, BitcastOp)
]


@each(ON_FLOATS)
def test_special_floats_are_computed_as_by_the_reference(cls: type[GraphOp]):
    sample = on_special_floats(cls)
    op = oracle.operator(cls, sample)
    (expected,) = oracle.references(op, sample.present)
    ((_,), ((compiled,),)) = oracle.run_compiled(cls, [sample])
    (interpreted,) = oracle.run_lowered(op, sample.present, [expected])
    for actual in (interpreted, compiled):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@each(WITH_VJP)
@EXAMPLES
@given(data=st.data())
def test_vjp_is_the_slope_of_finite_differences(cls: type[GraphOp], data: st.DataObject):
    sample = differentiable(data.draw(SAMPLES[cls]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 31)))
    op = oracle.operator(cls, sample)
    assume(all(type_of(result).element in FLOATS for result in op.results))
    directions = [rng.normal(size=x.shape) * (x.dtype == np.float64) for x in sample.present]
    outputs = oracle.references(op, sample.present)
    cotangents = [rng.normal(size=y.shape) for y in outputs]
    try:
        gradients = oracle.gradients(op, sample.present, cotangents)
    except WeftError:  # an attribute that has no derivative rule, as a mode of padding; not all may
        reject()
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    expected = finite_difference(op, sample.present, directions, cotangents)
    assert slope == pytest.approx(expected, rel=1e-5, abs=1e-5)


def differentiable(sample: Sample) -> Sample:
    """The sample in f64, moved a little so that no element lies on a kink or ties with another."""
    assume(any(is_float(operand) for operand in sample.present))
    rng = np.random.default_rng(0)
    operands = [
        operand.astype(np.float64) + rng.uniform(0.004, 0.028, operand.shape)
        if operand is not None and is_float(operand)
        else operand
        for operand in sample.operands
    ]
    attributes = {name: F64 if name == "to" else v for name, v in sample.attributes.items()}
    return Sample(operands, attributes)


def is_float(array: Array) -> bool:
    return element_type(array.dtype) in FLOATS


def finite_difference(op: GraphOp, inputs, directions, cotangents, step: float = 1e-6) -> float:
    """The slope of the results' product with the cotangents along a direction of the operands."""
    moved = [
        [x + sign * step * d if is_float(x) else x for x, d in zip(inputs, directions, strict=True)]
        for sign in (1, -1)
    ]
    upper, lower = (oracle.references(op, operands) for operands in moved)
    difference = sum(
        float(((up - down) * c).sum()) for up, down, c in zip(upper, lower, cotangents, strict=True)
    )
    return difference / (2 * step)


@each(WITH_ONNX)
def test_onnx_name_has_these_attributes_and_defaults(cls: type[GraphOp]):
    assert cls.ONNX is not None
    schema = onnx.defs.get_schema(cls.ONNX.name, cls.ONNX.domain)
    properties = cls.get_irdl_definition().properties
    for name, (ours, default) in cls.ONNX.attributes.items():
        assert ours in properties
        attribute = schema.attributes[name]
        if default is None:
            assert attribute.required or not attribute.default_value.name
        else:
            given_default = onnx.helper.get_attribute_value(attribute.default_value)
            given_default = given_default.decode() if isinstance(default, str) else given_default
            assert given_default == default


EVALUATOR_DIFFERS = {
    "global_lp_pool": "it has no such operator",
    "global_max_pool": "it drops dims of images of one spatial dim",
    "lp_norm": "it adds up elements, not their magnitudes, where p is 1",
    "max_region_pool": "it has no such operator",
    "lrn": "it takes the number of examples for that of channels",
    "mean_variance_norm": "it takes f32 only, and the variance in one pass",
}
"""Where ONNX's own evaluator departs from ONNX; test_onnxruntime.py beside judges these."""


@each([op for op in WITH_ONNX if name_of(op) not in EVALUATOR_DIFFERS])
@EXAMPLES
@given(data=st.data())
def test_reference_agrees_with_onnx(cls: type[GraphOp], data: st.DataObject):
    sample = widened(data.draw(SAMPLES[cls]))
    assume(onnx_allows(cls, sample))
    op = oracle.operator(cls, sample)
    outputs = run_onnx(op, sample)
    expected = oracle.references(op, sample.present)
    for actual, array in zip(outputs, expected, strict=True):
        check_close(np.asarray(actual).astype(array.dtype), array, ONNX_TOLERANCES)


def widened(sample: Sample) -> Sample:
    """The sample with f16 and bf16, which ONNX's evaluator computes in, as f32."""
    operands = [
        operand.astype(np.float32)
        if operand is not None and is_float(operand) and operand.dtype.itemsize == 2
        else operand
        for operand in sample.operands
    ]
    return Sample(operands, sample.attributes)


def onnx_type(array: Array) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def onnx_allows(cls: type[GraphOp], sample: Sample) -> bool:
    """Whether ONNX defines the operator for these element types."""
    assert cls.ONNX is not None
    schema = onnx.defs.get_schema(cls.ONNX.name, cls.ONNX.domain)
    for position, operand in enumerate(sample.operands):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if operand is not None and type_name(operand) not in formal.types:
            return False
    return True


def type_name(array: Array) -> str:
    names = {"float32": "float", "float64": "double"}
    return f"tensor({names.get(array.dtype.name, array.dtype.name)})"


def run_onnx(op: GraphOp, sample: Sample) -> list[Array]:
    """The results of ONNX's own reference evaluator on a model of one node."""
    assert op.ONNX is not None
    inputs = ["" if x is None else f"x{position}" for position, x in enumerate(sample.operands)]
    outputs = [f"y{position}" for position in range(len(op.results))]
    attributes: dict[str, Any] = {
        name: python_value(op.properties[ours])
        for name, (ours, _) in op.ONNX.attributes.items()
        if ours in op.properties
    }
    node = onnx.helper.make_node(op.ONNX.name, inputs, outputs, domain=op.ONNX.domain, **attributes)
    feeds = {name: x for name, x in zip(inputs, sample.operands, strict=True) if x is not None}
    graph = onnx.helper.make_graph(
        [node],
        "one_node",
        [onnx.helper.make_tensor_value_info(n, onnx_type(x), x.shape) for n, x in feeds.items()],
        [
            onnx.helper.make_tensor_value_info(name, onnx_type(array), array.shape)
            for name, array in zip(outputs, oracle.references(op, sample.present), strict=True)
        ],
    )
    results = ReferenceEvaluator(onnx.helper.make_model(graph)).run(None, feeds)
    return [np.asarray(result) for result in results]


def python_value(attribute: Attribute):
    """The value of an attribute that ONNX has too."""
    if isinstance(attribute, IntegerAttr):
        number = attribute.value.data
        return int(number != 0) if attribute.type == BOOL else number
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return list(ints(attribute))
    assert isinstance(attribute, StringAttr), f"ONNX has no attribute like {attribute}"
    return attribute.data


WITHOUT_VJP = {
    "couple_probabilities",
    "equal_strings",
    "integer_conv",
    "integer_matmul",
    "hash_strings",
    "copy_strings",
    "argsort_strings",
    "match_strings",
    "find_matches",
    "tree_ensemble",
    "arg_max",
    "arg_min",
    "argsort",
    "bit_shift",
    "bitcast",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "constant",
    "dequantize_gguf",
    "dims",
    "equal",
    "gguf_scales",
    "greater",
    "greater_equal",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "max_pool_indices",
    "max_region_pool",
    "mersenne_twister",
    "nonzero",
    "pack_words",
    "random_bits",
    "dynamic_reshape",
    "shape",
    "size",
    "stop_gradient",
    "threefry",
}
"""Operators that differentiation refuses or passes by; one leaves the set when it gets a `vjp`."""


def test_operators_without_a_derivative_are_known():
    assert {name_of(op) for op in OPS if not op.has_vjp()} == WITHOUT_VJP


@each(WITH_VJP)
@EXAMPLES
@given(data=st.data())
def test_derivatives_are_made_of_operators_with_derivatives(
    cls: type[GraphOp], data: st.DataObject
):
    op = oracle.operator(cls, differentiable(data.draw(SAMPLES[cls])))
    block = op.parent
    assert block is not None
    seeds = [block.insert_arg(type_of(each), len(block.args)) for each in op.results]
    try:
        op.vjp(seeds, GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME))
    except WeftError:  # an attribute that has no derivative rule
        reject()
    emitted = list(block.ops)
    path = path_between(block, [r for each in emitted for r in each.results], block.args)
    assert [each.name for each in path.ops if not each.has_vjp()] == []
