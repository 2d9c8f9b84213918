"""ONNX operators as JAX's functions, which XLA compiles together."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

from weft.bench.engines.alike import ALIKE, Attributes, plain
from weft.bench.engines.onnx_plan import Function
from weft.bench.engines.onnx_windows import ceil_pads, pads_of
from weft.bench.session import PeerLacks

jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")
lax: Any = importlib.import_module("jax.lax")

_DTYPES: Final = {
    1: jnp.float32, 2: jnp.uint8, 3: jnp.int8, 5: jnp.int16, 6: jnp.int32,
    7: jnp.int64, 9: jnp.bool_, 10: jnp.float16, 11: jnp.float64, 16: jnp.bfloat16,
}  # fmt: skip
"""By ONNX's numbers of element types."""

_LAYOUTS: Final = {1: ("NCW", "OIW", "NCW"), 2: ("NCHW", "OIHW", "NCHW")}


def _conv(a: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    rank = weight.ndim - 2
    pads = pads_of(a, x.shape[2:], weight.shape[2:])
    out = lax.conv_general_dilated(
        x,
        weight,
        a.get("strides", [1] * rank),
        pads,
        rhs_dilation=a.get("dilations", [1] * rank),
        dimension_numbers=_LAYOUTS[rank],
        feature_group_count=a.get("group", 1),
    )
    return out if bias is None else out + _channels(bias, x.ndim)


def _conv_transpose(a: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    if a.get("group", 1) != 1 or "output_shape" in a:
        raise PeerLacks("ConvTranspose with groups")
    rank = weight.ndim - 2
    kernel, dilations = weight.shape[2:], a.get("dilations", [1] * rank)
    extra = a.get("output_padding", [0] * rank)
    pads = [
        ((width - 1) * dilation - before, (width - 1) * dilation - after + more)
        for (before, after), width, dilation, more in zip(
            pads_of(a, x.shape[2:], kernel), kernel, dilations, extra, strict=True
        )
    ]
    spatial = tuple(range(2, weight.ndim))
    out = lax.conv_general_dilated(
        x,
        jnp.flip(weight, spatial).swapaxes(0, 1),
        [1] * rank,
        pads,
        lhs_dilation=a.get("strides", [1] * rank),
        rhs_dilation=dilations,
        dimension_numbers=_LAYOUTS[rank],
    )
    return out if bias is None else out + _channels(bias, x.ndim)


def _channels(vector: Any, rank: int) -> Any:
    return vector.reshape(1, -1, *[1] * (rank - 2))


def _windows(a: Attributes, x: Any, start: Any, combine: Any) -> tuple[Any, Any]:
    """The combined windows, and the same of ones: how many elements each had."""
    kernel = a["kernel_shape"]
    pads = ceil_pads(a, x.shape[2:], kernel, pads_of(a, x.shape[2:], kernel))
    shape = (1, 1, *kernel)
    strides = (1, 1, *a.get("strides", [1] * len(kernel)))
    dilations = (1, 1, *a.get("dilations", [1] * len(kernel)))

    def reduce(values: Any) -> Any:
        return lax.reduce_window(
            values, start, combine, shape, strides, [(0, 0), (0, 0), *pads],
            window_dilation=dilations,
        )  # fmt: skip

    return reduce(x), reduce(jnp.ones_like(x))


def _max_pool(a: Attributes, x: Any) -> Any:
    return _windows(a, x, -jnp.inf, lax.max)[0]


def _average_pool(a: Attributes, x: Any) -> Any:
    total, count = _windows(a, x, 0.0, lax.add)
    if a.get("count_include_pad", 0):
        if a.get("ceil_mode", 0):
            raise PeerLacks("AveragePool that counts pads and rounds up")
        count = 1
        for size in a["kernel_shape"]:
            count *= size
    return total / count


def _batch_norm(a: Attributes, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    factor = scale * lax.rsqrt(variance + a.get("epsilon", 1e-5))
    return x * _channels(factor, x.ndim) + _channels(bias - mean * factor, x.ndim)


def _normalized(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon)


def _layer_norm(a: Attributes, x: Any, scale: Any, bias: Any = None) -> Any:
    axes = tuple(range(a.get("axis", -1) % x.ndim, x.ndim))
    out = _normalized(x, axes, a.get("epsilon", 1e-5)) * scale
    return out if bias is None else out + bias


def _instance_norm(a: Attributes, x: Any, scale: Any, bias: Any) -> Any:
    out = _normalized(x, tuple(range(2, x.ndim)), a.get("epsilon", 1e-5))
    return out * _channels(scale, x.ndim) + _channels(bias, x.ndim)


def _gemm(a: Attributes, x: Any, y: Any, bias: Any = None) -> Any:
    x = x.T if a.get("transA", 0) else x
    y = y.T if a.get("transB", 0) else y
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    out = x @ y if alpha == 1.0 else alpha * (x @ y)
    return out if bias is None else out + (bias if beta == 1.0 else beta * bias)


def _reduce(name: str) -> Function:
    def reduce(a: Attributes, x: Any, axes: Any = None) -> Any:
        axes = a.get("axes", axes)
        dims = None if axes is None else tuple(axes)
        return getattr(jnp, name)(x, axis=dims, keepdims=bool(a.get("keepdims", 1)))

    return reduce


def _slice(
    a: Attributes, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> Any:
    index = [slice(None)] * x.ndim
    for n, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else steps[n]
        end = None if step < 0 and ends[n] < -x.shape[axis] else ends[n]
        index[axis] = slice(starts[n], end, step)
    return x[tuple(index)]


def _split(a: Attributes, x: Any, sizes: Any = None) -> Any:
    axis = a.get("axis", 0)
    even = -(-x.shape[axis] // a["results"])
    sizes = a.get("split", sizes) or [even] * (a["results"] - 1)
    ends = [sum(sizes[: n + 1]) for n in range(a["results"] - 1)]
    return jnp.split(x, ends, axis)


def _pad(a: Attributes, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    if axes is not None or a.get("mode", "constant") != "constant":
        raise PeerLacks("Pad of axes or of another mode")
    pairs = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    return jnp.pad(x, pairs, constant_values=value or 0.0)


def _attention(a: Attributes, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """`jax.nn.dot_product_attention` wants (batch, length, heads, size)."""
    heads = (a.get("q_num_heads"), a.get("kv_num_heads"), a.get("kv_num_heads"))
    flat = q.ndim == 3
    if flat:
        q, k, v = (
            each.reshape(*each.shape[:2], n, -1) for each, n in zip((q, k, v), heads, strict=True)
        )
    else:
        q, k, v = (each.swapaxes(1, 2) for each in (q, k, v))
    masked = mask is not None and mask.dtype == jnp.bool_
    out = jax.nn.dot_product_attention(
        q, k, v, bias=None if masked else mask, mask=mask if masked else None,
        scale=a.get("scale"), is_causal=bool(a.get("is_causal", 0)),
    )  # fmt: skip
    return out.reshape(*out.shape[:2], -1) if flat else out.swapaxes(1, 2)


def _lstm(a: Attributes, x: Any, w: Any, r: Any, b: Any = None, *rest: Any) -> Any:
    """Gates in ONNX's order: i o f c."""
    if any(each is not None for each in rest) or a.get("direction", "forward") != "forward":
        raise PeerLacks("LSTM with states or directions")
    hidden = a["hidden_size"]
    bias = 0.0 if b is None else b[0, : 4 * hidden] + b[0, 4 * hidden :]
    fed = x @ w[0].T + bias

    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, o, f, g = jnp.split(row + h @ r[0].T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], hidden), x.dtype)
    (h, c), out = lax.scan(step, (zero, zero), fed)
    return out[:, None], h[None], c[None]


def _resize(a: Attributes, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    rates = scales or [new / old for new, old in zip(sizes, x.shape, strict=True)]
    mode, coordinates = (
        a.get("mode", "nearest"),
        a.get("coordinate_transformation_mode", "half_pixel"),
    )
    whole = all(rate == int(rate) for rate in rates)
    if mode == "nearest" and coordinates == "asymmetric" and whole:
        for axis, rate in enumerate(rates):
            x = x if rate == 1 else jnp.repeat(x, int(rate), axis)
        return x
    if mode == "linear" and coordinates in ("half_pixel", "pytorch_half_pixel") and whole:
        shape = [int(size * rate) for size, rate in zip(x.shape, rates, strict=True)]
        return jax.image.resize(x, shape, "linear", antialias=False)
    raise PeerLacks(f"Resize of mode {mode}, {coordinates}")


def _lrn(a: Attributes, x: Any) -> Any:
    size = a["size"]
    below, above = (size - 1) // 2, size // 2
    squares = lax.reduce_window(
        x * x, 0.0, lax.add, (1, size, 1, 1), (1, 1, 1, 1), [(0, 0), (below, above), (0, 0), (0, 0)]
    )
    return x / (a.get("bias", 1.0) + a.get("alpha", 1e-4) / size * squares) ** a.get("beta", 0.75)


def _axes(value: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


_BY_NAME: Final = (
    "Abs", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Floor", "Ceil", "Round", "Sign",
    "MatMul", "Where", "Reciprocal",
)  # fmt: skip
"""ONNX's operators that are functions of that name in lower case."""

FUNCTIONS: Final[dict[str, Function]] = {
    **ALIKE,
    **{name: plain(getattr(jnp, name.lower())) for name in _BY_NAME},
    "Neg": plain(jnp.negative),
    "Not": plain(jnp.logical_not),
    "And": plain(jnp.logical_and),
    "Or": plain(jnp.logical_or),
    "Pow": plain(lambda x, y: x**y),
    "Max": plain(jnp.maximum),
    "Min": plain(jnp.minimum),
    "Erf": plain(jax.scipy.special.erf),
    "Relu": plain(jax.nn.relu),
    "Sigmoid": plain(jax.nn.sigmoid),
    "Softplus": plain(jax.nn.softplus),
    "Mish": plain(jax.nn.mish),
    "HardSwish": plain(jax.nn.hard_swish),
    "HardSigmoid": lambda a, x: jnp.clip(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1),
    "LeakyRelu": lambda a, x: jax.nn.leaky_relu(x, a.get("alpha", 0.01)),
    "Elu": lambda a, x: jax.nn.elu(x, a.get("alpha", 1.0)),
    "Gelu": lambda a, x: jax.nn.gelu(x, approximate=a.get("approximate", "none") == "tanh"),
    "PRelu": plain(lambda x, slope: jnp.where(x < 0, slope * x, x)),
    "Clip": lambda a, x, low=None, high=None: jnp.clip(x, a.get("min", low), a.get("max", high)),
    "Concat": lambda a, *parts: jnp.concatenate(parts, a["axis"]),
    "Cast": lambda a, x: x.astype(_DTYPES[a["to"]]),
    "Transpose": lambda a, x: x.transpose(a.get("perm")),
    "Squeeze": lambda a, x, axes=None: jnp.squeeze(x, _axes(a.get("axes", axes))),
    "Unsqueeze": lambda a, x, axes=None: jnp.expand_dims(x, _axes(a.get("axes", axes))),
    "Expand": lambda a, x, shape: jnp.broadcast_to(x, jnp.broadcast_shapes(x.shape, tuple(shape))),
    "Tile": lambda a, x, repeats: jnp.tile(x, repeats),
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Gather": lambda a, x, index: jnp.take(x, index, a.get("axis", 0)),
    "GatherElements": lambda a, x, index: jnp.take_along_axis(x, index, a.get("axis", 0)),
    "Softmax": lambda a, x: jax.nn.softmax(x, a.get("axis", -1)),
    "LogSoftmax": lambda a, x: jax.nn.log_softmax(x, a.get("axis", -1)),
    "ArgMax": lambda a, x: jnp.argmax(
        x, a.get("axis", 0), keepdims=bool(a.get("keepdims", 1))
    ).astype(jnp.int64),
    "CumSum": lambda a, x, axis: jnp.cumsum(x, axis),
    "ReduceSum": _reduce("sum"),
    "ReduceMean": _reduce("mean"),
    "ReduceMax": _reduce("max"),
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda a, x: x.mean(tuple(range(2, x.ndim)), keepdims=True),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "Attention": _attention,
    "LSTM": _lstm,
    "Resize": _resize,
    "Trilu": lambda a, x, k=0: (jnp.triu if a.get("upper", 1) else jnp.tril)(x, k),
}
