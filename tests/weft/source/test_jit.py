"""`weft.jit` and `weft.compile` of functions: signatures, guards, explanations, derivatives."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Spec
from weft.source.interpret import read_function
from weft.tracing.trace import record
from weft.trees import flatten_exactly

FIVE, TWO = np.float64(5), np.float64(2)
SCALE = 2.0
WEIGHT = np.ones(3)


def first_example(x1, x2):
    return np.log(x1) + x1 * x2 - np.sin(x2)


GOLDEN = """\
%0 = graph.log %x1
%1 = graph.mul %x1, %x2
%2 = graph.add %0, %1
%3 = graph.sin %x2
%4 = graph.sub %2, %3"""

GRADIENT = """\
%0 = graph.identity %x0
%1 = graph.identity %x1
%2 = graph.log %0
%3 = graph.mul %0, %1
%4 = graph.add %2, %3
%5 = graph.sin %1
%6 = graph.sub %4, %5
%7 = graph.constant
%8 = graph.expand %7
%9 = graph.neg %8
%10 = graph.cos %1
%11 = graph.mul %9, %10
%12 = graph.mul %8, %1
%13 = graph.mul %8, %0
%14 = graph.add %11, %13
%15 = graph.reciprocal %0
%16 = graph.mul %8, %15
%17 = graph.add %12, %16"""


def body(module):
    """The operators and operands of a graph."""
    lines = [line.strip() for line in str(module).split("\n") if " = graph." in line]
    return "\n".join(line.split(" : ")[0].split(" {")[0] for line in lines)


def test_the_first_example_has_one_graph_from_source_and_from_a_trace():
    def traced(x1, x2):
        from weft.numpy import log, sin

        return log(x1) + x1 * x2 - sin(x2)

    scalar = Spec("float64")
    assert body(read_function(first_example, [scalar, scalar], {}).module) == GOLDEN
    assert body(record(traced, scalar, scalar).module) == GOLDEN
    gradient = weft.grad(first_example, (0, 1))
    assert body(read_function(gradient, [scalar, scalar], {}).module) == GRADIENT
    assert body(record(weft.grad(traced, (0, 1)), scalar, scalar).module) == GRADIENT


def test_the_first_example_and_its_gradient():
    def both(x1, x2):
        return weft.value_and_grad(first_example, (0, 1))(x1, x2)

    value, (d1, d2) = weft.jit(both)(TWO, FIVE)
    assert value == pytest.approx(11.652071, abs=1e-6)
    assert (d1, d2) == (pytest.approx(5.5), pytest.approx(1.716338, abs=1e-6))
    outside = weft.jit(weft.grad(first_example, (0, 1)))(TWO, FIVE)
    around = weft.grad(weft.jit(first_example), (0, 1))(weft.Tensor(TWO), weft.Tensor(FIVE))
    for each in (outside, around):
        np.testing.assert_allclose(np.stack([np.asarray(part) for part in each]), [d1, d2])


def test_a_derivative_goes_through_control_flow():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            if x[i] > 0:
                total += x[i] * x[i] * i
        return total

    x = np.arange(20.0) - 9.5
    expected = np.where(x > 0, 2 * x * np.arange(20), 0)
    np.testing.assert_allclose(weft.jit(weft.grad(f))(x), expected)
    np.testing.assert_allclose(weft.grad(weft.jit(f))(weft.Tensor(x)).numpy(), expected)


def test_a_signature_is_dtypes_shapes_and_values():
    @weft.jit
    def power(x, n, name="sum"):
        y = x**n
        return y.sum() if name == "sum" else y

    x = np.arange(3.0)
    assert power(x, 2) == 5
    assert power(x + 1, 2) == 14
    assert len(power.compilations) == 1
    assert power(x, 3) == 9
    np.testing.assert_array_equal(power(x, 3, name="all"), x**3)
    assert power(np.arange(4), 3).dtype == np.int64
    assert len(power.compilations) == 4
    text = power.explain()
    assert "power(x: float64[3], n: 2)\n  compiled because it was called for the first time" in text
    assert "compiled because n: 3; was n: 2" in text
    assert "test_jit.py" in text


def test_lambdas_of_one_line_are_told_apart():
    pair = [lambda x: x + 1 if x.sum() > 0 else x - 1, lambda x: (lambda y: y * 3)(x) and x]
    inner = (lambda x: lambda y: x and y * 2)(1)
    one = np.float64(1)
    assert [weft.jit(each)(one) for each in (*pair, inner)] == [2, 1, 2]


def test_values_are_told_apart_as_python_has_them():
    given = weft.jit(lambda x, value: (x + 1, value))
    x = np.ones(1)
    for value in (1, True, 1.0, 0.0, -0.0):
        assert str(given(x, value)[1]) == str(value)
    assert len(given.compilations) == 5


def test_sizes_that_vary_compile_once():
    @weft.jit(specs=[Spec("float64", ("n", 3))])
    def means(x):
        rows = []
        for row in x:
            rows.append(row.mean())
        return np.stack(rows), len(x)

    for n in (1, 5, 50):
        x = np.random.default_rng(n).normal(size=(n, 3))
        got, count = means(x)
        np.testing.assert_allclose(got, x.mean(axis=1))
        assert count == n
    assert len(means.compilations) == 1


def test_arrays_in_a_tuple_of_the_surroundings():
    pair = np.full(3, 2.0), np.ones(3)

    @weft.jit
    def line(x):
        factor, summand = pair
        for each in pair:
            x = x * each
        return x * factor + summand

    np.testing.assert_array_equal(line(np.arange(3.0)), np.arange(3.0) * 4 + 1)


def test_surroundings_may_change():
    global SCALE, WEIGHT
    scaled = weft.jit(lambda x: x * SCALE + WEIGHT)
    x = np.arange(3.0)
    np.testing.assert_array_equal(scaled(x), x * 2 + 1)
    WEIGHT = np.full(3, 5.0)  # read again
    WEIGHT[0] = 7
    np.testing.assert_array_equal(scaled(x), x * 2 + [7, 5, 5])
    assert len(scaled.compilations) == 1
    SCALE = 3.0
    np.testing.assert_array_equal(scaled(x), x * 3 + [7, 5, 5])
    assert "SCALE is 3.0, was 2.0" in scaled.explain()
    SCALE, WEIGHT = 2.0, np.ones(3)


def test_objects_are_watched():
    class Layer:
        def __init__(self):
            self.weight, self.active = np.eye(3), True

        @weft.jit
        def forward(self, x):
            return self.weight @ x if self.active else x

    layer, x = Layer(), np.arange(3.0)
    np.testing.assert_array_equal(layer.forward(x), x)
    layer.weight = 2 * layer.weight
    np.testing.assert_array_equal(layer.forward(x), 2 * x)
    layer.active = False
    np.testing.assert_array_equal(layer.forward(x), x)
    assert len(Layer.forward.compilations) == 2


def test_compile_takes_functions():
    exe = weft.compile(first_example, [Spec("float64", ("n",)), Spec("float64", ("n",))])
    x = np.linspace(1, 2, 7)
    (y,) = exe(x, x)
    np.testing.assert_allclose(y, first_example(x, x))
    exe = weft.compile(lambda x: x + WEIGHT, [np.zeros(3)])
    assert [each.name for each in exe.inputs] == ["x"]


def test_tensors_give_tensors():
    got = weft.jit(lambda x: {"y": x * 2, "n": 3})(weft.Tensor([1.0, 2.0]))
    assert isinstance(got["y"], weft.Tensor)
    assert got["n"] == 3
    np.testing.assert_array_equal(got["y"].numpy(), [2, 4])


def test_trees_of_arguments_and_results():
    @weft.jit
    def step(state, rate=0.5):
        return {name: (value - rate * value, name) for name, value in state.items()}

    got = step({"a": np.ones(2), "b": np.zeros(1)}, rate=0.25)
    np.testing.assert_array_equal(got["a"][0], [0.75, 0.75])
    assert got["b"][1] == "b"


def test_explain_says_what_became_of_statements():
    @weft.jit
    def f(x, flag):
        if flag:
            x = x * 2
        for i in range(3):
            x = x + i
        while x.sum() < 100:
            x = x * 2
        return x

    f(np.ones(2), True)
    text = f.explain()
    for what in ("True, known while compiling", "3 rounds, read one by one", "graph.while"):
        assert what in text


def test_exceptions_of_the_program_are_its_own():
    @weft.jit
    def f(x, kind):
        if kind not in ("a", "b"):
            raise KeyError(f"no {kind}")
        return x

    with pytest.raises(KeyError, match="no c") as caught:
        f(np.ones(1), "c")
    assert "test_jit.py" in caught.value.__notes__[0]


class DecisionTransformerGPT2Attention:
    """The attention whose `forward` the seeds quote; its parts on arrays of every kind."""

    def __init__(self, size, heads, is_cross_attention=False):
        rng = np.random.default_rng(0)
        self.split_size, self.num_heads, self.head_dim = size, heads, size // heads
        self.reorder_and_upcast_attn = False
        columns = 2 * size if is_cross_attention else 3 * size
        self._kernels = {"c_attn": rng.normal(size=(size, columns)) / 4, "c_proj": np.eye(size)}
        if is_cross_attention:
            self._kernels["q_attn"] = np.eye(size)
            self.q_attn = lambda x: Parts(x @ self._kernels["q_attn"])

    def c_attn(self, x):
        return Parts(x @ self._kernels["c_attn"])

    def c_proj(self, x):
        return x @ self._kernels["c_proj"]

    def resid_dropout(self, x):
        return x

    def _split_heads(self, x, heads, size):
        x = x.x if isinstance(x, Parts) else x
        return x.reshape((*x.shape[:-1], heads, size)).transpose(0, 2, 1, 3)

    def _merge_heads(self, x, heads, size):
        x = x.transpose(0, 2, 1, 3)
        return x.reshape((*x.shape[:-2], heads * size))

    def _attn(self, query, key, value, attention_mask=None, head_mask=None):
        weights = query @ key.transpose(0, 1, 3, 2) / value.shape[-1] ** 0.5
        if not hasattr(self, "q_attn"):
            n, m = query.shape[-2], key.shape[-2]
            weights = wnp.where(np.tril(np.ones((n, m), dtype=bool), m - n), weights, -1e9)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = wnp.exp(weights - weights.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        if head_mask is not None:
            weights = weights * head_mask
        return weights @ value, weights

    def forward(
        self, hidden_states, layer_past=None, attention_mask=None, head_mask=None,
        encoder_hidden_states=None, encoder_attention_mask=None, use_cache=False,
        output_attentions=False,
    ):  # fmt: skip
        if encoder_hidden_states is not None:
            if not hasattr(self, "q_attn"):
                raise ValueError(
                    "If class is used as cross attention, the weights `q_attn` have to be defined. "
                    "Please make sure to instantiate class with `is_cross_attention=True`."
                )

            query = self.q_attn(hidden_states)
            key, value = self.c_attn(encoder_hidden_states).split(self.split_size, dim=2)
            attention_mask = encoder_attention_mask
        else:
            query, key, value = self.c_attn(hidden_states).split(self.split_size, dim=2)

        query = self._split_heads(query, self.num_heads, self.head_dim)
        key = self._split_heads(key, self.num_heads, self.head_dim)
        value = self._split_heads(value, self.num_heads, self.head_dim)

        if layer_past is not None:
            past_key, past_value = layer_past
            key = wnp.concat((past_key, key), axis=-2)
            value = wnp.concat((past_value, value), axis=-2)

        if use_cache is True:  # noqa: SIM108  as quoted
            present = (key, value)
        else:
            present = None

        if self.reorder_and_upcast_attn:
            attn_output, attn_weights = self._upcast_and_reordered_attn(
                query, key, value, attention_mask, head_mask
            )
        else:
            attn_output, attn_weights = self._attn(query, key, value, attention_mask, head_mask)

        attn_output = self._merge_heads(attn_output, self.num_heads, self.head_dim)
        attn_output = self.c_proj(attn_output)
        attn_output = self.resid_dropout(attn_output)

        outputs = (attn_output, present)
        if output_attentions:
            outputs += (attn_weights,)

        return outputs


class Parts:
    """An array that is split as PyTorch's tensors are."""

    def __init__(self, x):
        self.x = x

    def split(self, size, dim):
        assert dim == 2
        return tuple(self.x[:, :, i : i + size] for i in range(0, self.x.shape[dim], size))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_cache": True, "output_attentions": True},
        {"attention_mask": np.linspace(-1, 0, 5)},
        {"layer_past": tuple(np.random.default_rng(3).normal(size=(2, 2, 2, 3, 4)))},
        {"encoder_hidden_states": np.random.default_rng(2).normal(size=(2, 7, 8))},
    ],
)
def test_the_decision_transformers_attention_in_every_mode(options):
    cross = "encoder_hidden_states" in options
    layer = DecisionTransformerGPT2Attention(8, 2, is_cross_attention=cross)
    x = np.random.default_rng(1).normal(size=(2, 5, 8))
    expected, form = flatten_exactly(layer.forward(x, **options))
    calls = (
        weft.jit(layer.forward)(x, **options),
        layer.forward(weft.Tensor(x), **options),
        weft.trace(lambda x: layer.forward(x, **options), x)(x),
    )
    for got in calls:
        leaves, own = flatten_exactly(got)
        assert own == form
        for value, wanted in zip(leaves, expected, strict=True):
            assert (value is None) == (wanted is None)
            if wanted is not None:
                np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-9)


def test_the_decision_transformers_attention_raises():
    layer = DecisionTransformerGPT2Attention(8, 2)
    x = np.ones((2, 5, 8))
    with pytest.raises(ValueError, match="q_attn"):
        weft.jit(layer.forward)(x, encoder_hidden_states=x)


def _cube(a):
    return a * a * a


def test_derivatives_at_known_numbers():
    assert weft.jit(weft.grad(_cube))(2.0) == 12.0
    at_three = weft.jit(lambda x: x + weft.grad(weft.grad(_cube))(3.0))
    np.testing.assert_allclose(at_three(np.ones(2)), [19.0, 19.0])
    along = weft.jit(lambda x: x + weft.jvp(_cube, [2.0], [1.0])[1])
    np.testing.assert_allclose(along(np.ones(2)), [13.0, 13.0])


def test_integers_of_derivatives_are_refused_at_the_call():
    with pytest.raises(weft.WeftError, match=r"test_jit\.py:\d+: a gradient requires .* floats"):
        weft.jit(weft.grad(_cube))(2)


def test_tensors_of_arrays_of_the_surroundings():
    numbers = np.arange(3, dtype=np.float32)
    got = weft.jit(lambda x: x + weft.Tensor(numbers))(numbers)
    np.testing.assert_array_equal(got, numbers * 2)


def _of_loops(x):
    for _ in range(20):
        x = x * 1.1
        for _ in range(12):
            x = weft.watch(x + 0.1, "inner")
    return x.sum()


def test_watched_values_of_loops_come_with_the_result():
    found = weft.jit(_of_loops).watch("inner")
    for x in (np.ones(2), np.ones(3)):
        result, values = found(x)
        assert result == pytest.approx(_of_loops(x))
        assert [each.shape for each in values.values()] == [(20, len(x))] * 12
        np.testing.assert_allclose(values["inner/11"][-1].sum(), result)
    with pytest.raises(weft.OptionError, match=r"names of values \(inner\), got other"):
        weft.jit(_of_loops).watch("other")(np.ones(2))
    with pytest.raises(weft.OptionError, match=r"as by weft.watch\(x, 'inner'\), got none"):
        weft.jit(np.tanh).watch("inner")(np.ones(2))


def test_a_function_that_is_compiled_again_and_again_warns_once():
    scaled = weft.jit(lambda x, factor: x * factor)
    for number in range(1, 8):
        scaled(np.ones(2), float(number))
    with pytest.warns(weft.RecompileWarning, match="8 times, now because of factor: 8.0"):
        scaled(np.ones(2), 8.0)
    scaled(np.ones(2), 9.0)
    assert repr(scaled) == "<weft.jit <lambda>: 9 compiled>"
    given = weft.jit(lambda x, factor: x * factor, specs={"factor": weft.Spec("float64")})
    for number in range(1, 10):
        np.testing.assert_array_equal(given(np.ones(2), float(number)), np.full(2, number))
    assert len(given.compilations) == 1
