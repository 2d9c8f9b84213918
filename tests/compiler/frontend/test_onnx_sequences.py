"""Sequences and optionals, which the import resolves: what runs is tensors alone."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator

from weft.compiler.adapters.onnx_backend import prepare
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.errors import ModelError, UnsupportedError

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def model_of(text: str) -> ModelProto:
    return parser.parse_model(HEADER + text)


def check(text: str, *inputs: Any) -> list[Any]:
    """Compares what weft and ONNX's evaluator give; returns it."""
    model = model_of(text)
    names = [value.name for value in model.graph.input]
    wanted = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    given = list(prepare(model).run(inputs))
    for want, got in zip(wanted, given, strict=True):
        assert isinstance(want, list) == isinstance(got, list)
        pairs = zip(want, got, strict=True) if isinstance(want, list) else [(want, got)]
        for one, other in pairs:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other, one, rtol=1e-6)
    return given


def test_parts_are_counted_moved_and_joined():
    body = """
    agraph (float[4, 3] x) => (float[a, 3] y, int64 n) {
      size = Constant<value_ints: ints = [1, 3]>()
      parts = SplitToSequence<axis: int = 0>(x, size)
      last = Constant<value_int: int = -1>()
      large = SequenceAt(parts, last)
      more = SequenceInsert(parts, large, last)
      fewer = SequenceErase(more, last)
      n = SequenceLength(fewer)
      y = ConcatFromSequence<axis: int = 0>(fewer)
    }"""
    y, n = check(body, X)
    assert y.shape == (4, 3)
    assert n == 2


def test_a_branch_that_depends_on_data_gives_a_sequence():
    body = """
    agraph (float[3] x, bool c) => (seq(float[3]) y) {
      y = If(c) <
        then_branch = g1 () => (seq(float[3]) a) { two = Add(x, x)  a = SequenceConstruct(x, two) },
        else_branch = g2 () => (seq(float[3]) b) { less = Neg(x)  b = SequenceConstruct(less, x) }
      >
    }"""
    for flag in (True, False):
        check(body, X[0], np.array(flag))


def test_branches_of_other_lengths_are_refused():
    body = """
    agraph (float[3] x, float[1] f) => (seq(float[3]) y) {
      c = Cast<to: int = 9>(f)
      y = If(c) <
        then_branch = g1 () => (seq(float[3]) a) { a = SequenceConstruct(x, x) },
        else_branch = g2 () => (seq(float[3]) b) { b = SequenceConstruct(x) }
      >
    }"""
    with pytest.raises(UnsupportedError, match="got a sequence of 2 and a sequence of 1"):
        import_model(model_of(body))


def test_a_loop_reads_the_element_of_its_round():
    body = """
    agraph (float[4, 3] x, int64 n) => (float[3] y) {
      parts = SplitToSequence<axis: int = 0, keepdims: int = 0>(x)
      yes = Constant<value = bool {1}>()
      zero = Constant<value_floats: floats = [0.0, 0.0, 0.0]>()
      y = Loop(n, yes, zero) <
        body = g (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
          d = Identity(c)
          e = SequenceAt(parts, i)
          t = Add(s, e)
        }
      >
    }"""
    operators = str(import_model(model_of(body)).module)
    assert operators.count("graph.for") == 1
    (y,) = check(body, X, np.array(3))
    np.testing.assert_array_equal(y, X[:3].sum(0))


def test_a_loop_that_fills_a_sequence_is_imported_by_iterations():
    body = """
    agraph (float[3] x) => (seq(float[3]) y, float[n, 3] z) {
      none = SequenceEmpty()
      count = Constant<value_int: int = 3>()
      yes = Constant<value = bool {1}>()
      y, z = Loop(count, yes, none) <
        body = g (int64 i, bool c, seq(float[3]) s) => (bool d, seq(float[3]) t, float[3] e) {
          d = Identity(c)
          k = Cast<to: int = 1>(i)
          e = Mul(x, k)
          t = SequenceInsert(s, e)
        }
      >
    }"""
    check(body, X[1])


def test_a_loop_of_unknown_length_that_fills_a_sequence_is_refused():
    body = """
    agraph (float[3] x, float f) => (seq(float[3]) y) {
      none = SequenceEmpty()
      count = Cast<to: int = 7>(f)
      y = Loop(count, , none) <
        body = g (int64 i, bool c, seq(float[3]) s) => (bool d, seq(float[3]) t) {
          d = Identity(c)
          t = SequenceInsert(s, x)
        }
      >
    }"""
    with pytest.raises(UnsupportedError, match="requires a number of iterations"):
        import_model(model_of(body))


def test_a_map_walks_sequences_of_any_shapes():
    body = """
    agraph (seq(float[N]) x, float k) => (seq(float[N]) y) {
      y = SequenceMap(x, k) <
        body = g (float[N] a, float b) => (float[N] c) { c = Mul(a, b) }
      >
    }"""
    for count in (2, 3, 0):
        rows = [np.arange(size, dtype=np.float32) for size in range(1, 1 + count)]
        given = prepare(model_of(body)).run([rows, np.array(2, np.float32)])[0]
        assert len(given) == count
        for row, got in zip(rows, given, strict=True):
            np.testing.assert_array_equal(got, 2 * row)


@pytest.mark.parametrize(("position", "message"), [(3, "position from -2 to 1"), (-3, "got -3")])
def test_positions_outside_of_a_sequence_are_refused(position: int, message: str):
    body = f"""
    agraph (float[3] x) => (float[3] y) {{
      pair = SequenceConstruct(x, x)
      place = Constant<value_int: int = {position}>()
      y = SequenceAt(pair, place)
    }}"""
    with pytest.raises(ModelError, match=message):
        import_model(model_of(body))


def test_an_input_that_is_a_sequence_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="input 'x' requires a tensor type, got sequence"):
        import_model(model_of("agraph (seq(float[3]) x) => (int64 y) { y = SequenceLength(x) }"))


def test_operators_on_tensors_refuse_sequences():
    body = "agraph (float[3] x) => (float[3] y) { s = SequenceConstruct(x)  y = Neg(s) }"
    with pytest.raises(UnsupportedError, match="requires a tensor, got a sequence of 1"):
        import_model(model_of(body))


def test_an_optional_without_value_is_told_apart():
    body = """
    agraph (optional(float[3]) x) => (bool y) { y = OptionalHasElement(x) }"""
    prepared = prepare(model_of(body))
    assert bool(prepared.run([X[0]])[0])
    assert not prepared.run([None])[0]
