"""ONNX operators as PyTorch's functions: those that a PyTorch user would call."""

from __future__ import annotations

import importlib
from typing import Any, Final

from weft.bench.engines.alike import ALIKE, Attributes, plain
from weft.bench.engines.onnx_plan import Function
from weft.bench.engines.onnx_windows import ceil_pads, pads_of
from weft.bench.session import PeerLacks

torch: Any = importlib.import_module("torch")
functional: Any = importlib.import_module("torch.nn.functional")

_DTYPES: Final = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32,
    7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
}  # fmt: skip
"""By ONNX's numbers of element types."""


def _conv(a: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    kernel = weight.shape[2:]
    pads = pads_of(a, x.shape[2:], kernel)
    if any(before != after for before, after in pads):
        x, pads = _padded(x, pads, 0.0), [(0, 0)] * len(pads)
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[len(kernel) - 1]
    return convolve(
        x, weight, bias, a.get("strides", 1), [before for before, _ in pads],
        a.get("dilations", 1), a.get("group", 1),
    )  # fmt: skip


def _conv_transpose(a: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    rank = weight.ndim - 2
    pads = pads_of(a, x.shape[2:], weight.shape[2:])
    if any(before != after for before, after in pads) or "output_shape" in a:
        raise PeerLacks("ConvTranspose with pads that differ")
    convolve = (functional.conv_transpose1d, functional.conv_transpose2d)[rank - 1]
    return convolve(
        x, weight, bias, a.get("strides", 1), [before for before, _ in pads],
        a.get("output_padding", 0), a.get("group", 1), a.get("dilations", 1),
    )  # fmt: skip


def _transpose(a: Attributes, x: Any) -> Any:
    """Attention's keys in the two steps in which its users write them: torch.compile looks for
    those, and takes one step for something else, which it then cannot compile.
    """
    axes = list(a.get("perm", range(x.ndim)[::-1]))
    if axes == [0, 2, 3, 1]:
        return x.permute(0, 2, 1, 3).transpose(-2, -1)
    return x.permute(axes)


def _extremum(function: Any, bound: str, x: Any, y: Any) -> Any:
    """The greater or the less of two values, of which one may be a number."""
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return function(x, y)
    tensor, number = (x, y) if isinstance(x, torch.Tensor) else (y, x)
    return torch.clamp(tensor, **{bound: number})


def _padded(x: Any, pads: list[tuple[int, int]], value: float) -> Any:
    return functional.pad(x, [each for pair in reversed(pads) for each in pair], value=value)


def _max_pool(a: Attributes, x: Any) -> Any:
    kernel = a["kernel_shape"]
    pads = ceil_pads(a, x.shape[2:], kernel, pads_of(a, x.shape[2:], kernel))
    if any(
        before != after or 2 * before > k for (before, after), k in zip(pads, kernel, strict=True)
    ):
        x, pads = _padded(x, pads, float("-inf")), [(0, 0)] * len(pads)
    pool = (functional.max_pool1d, functional.max_pool2d)[len(kernel) - 1]
    return pool(
        x, kernel, a.get("strides", 1), [before for before, _ in pads], a.get("dilations", 1)
    )


def _average_pool(a: Attributes, x: Any) -> Any:
    kernel = a["kernel_shape"]
    pads = pads_of(a, x.shape[2:], kernel)
    included = bool(a.get("count_include_pad", 0))
    pool = (functional.avg_pool1d, functional.avg_pool2d)[len(kernel) - 1]
    strides = a.get("strides", 1)
    if a.get("ceil_mode", 0):
        raise PeerLacks("AveragePool that rounds up")
    if any(before != after for before, after in pads):
        share = 1.0 if included else pool(_padded(torch.ones_like(x), pads, 0.0), kernel, strides)
        return pool(_padded(x, pads, 0.0), kernel, strides) / share
    padding = [before for before, _ in pads]
    return pool(x, kernel, strides, padding, count_include_pad=included)


def _batch_norm(a: Attributes, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return functional.batch_norm(x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5))


def _layer_norm(a: Attributes, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = a.get("axis", -1)
    return functional.layer_norm(x, x.shape[axis:], scale, bias, a.get("epsilon", 1e-5))


def _gemm(a: Attributes, x: Any, y: Any, bias: Any = None) -> Any:
    x = x.T if a.get("transA", 0) else x
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    if a.get("transB", 0) and (alpha, beta) == (1.0, 1.0) and (bias is None or bias.ndim == 1):
        return functional.linear(x, y, bias)
    y = y.T if a.get("transB", 0) else y
    if bias is None:
        return alpha * (x @ y)
    return torch.addmm(bias, x, y, beta=beta, alpha=alpha)


def _reduce(name: str) -> Function:
    def reduce(a: Attributes, x: Any, axes: Any = None) -> Any:
        axes = a.get("axes", axes)
        dims = list(range(x.ndim)) if axes is None else axes
        return getattr(torch, name)(x, dim=dims, keepdim=bool(a.get("keepdims", 1)))

    return reduce


def _slice(a: Attributes, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None):
    index = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes
    flipped: list[int] = []
    for n, axis in enumerate(axes):
        step = 1 if steps is None else steps[n]
        if step < 0:
            size = x.shape[axis]
            if starts[n] < size - 1 and starts[n] != -1 or ends[n] > -size:
                raise PeerLacks("Slice backwards over a part of an axis")
            flipped.append(axis)
            step = -step
            index[axis] = slice(None, None, step)
        else:
            index[axis] = slice(starts[n], ends[n], step)
    return (torch.flip(x, flipped) if flipped else x)[tuple(index)]


def _gather(a: Attributes, x: Any, indices: Any) -> Any:
    axis = a.get("axis", 0)
    if isinstance(indices, int):
        return torch.select(x, axis, indices)
    if axis == 0 and x.ndim == 2:
        return functional.embedding(indices, x)
    picked = torch.index_select(x, axis, indices.reshape(-1))
    axis %= x.ndim
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _attention(a: Attributes, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    flat = q.ndim == 3
    if flat:
        q, k, v = (
            each.reshape(*each.shape[:2], a[heads], -1).transpose(1, 2)
            for each, heads in ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads"))
        )
    out = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=bool(a.get("is_causal", 0)), scale=a.get("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )  # fmt: skip
    return out.transpose(1, 2).flatten(2) if flat else out


def _lstm(a: Attributes, x: Any, w: Any, r: Any, b: Any = None, *rest: Any) -> Any:
    """torch orders gates i f g o, ONNX i o f g."""
    if any(each is not None for each in rest) or a.get("direction", "forward") != "forward":
        raise PeerLacks("LSTM with states or directions")
    hidden = a["hidden_size"]
    order = torch.cat([torch.arange(hidden) + hidden * gate for gate in (0, 2, 3, 1)])
    w, r = w[0][order], r[0][order]
    biases = [] if b is None else [b[0, : 4 * hidden][order], b[0, 4 * hidden :][order]]
    zero = torch.zeros(1, x.shape[1], hidden)
    out, last, cell = torch.lstm(
        x, (zero, zero), [w, r, *biases], b is not None, 1, 0.0, False, False, False
    )
    return out.unsqueeze(1), last, cell


def _resize(a: Attributes, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    wanted = (
        sizes[2:] if sizes else [int(n * s) for n, s in zip(x.shape[2:], scales[2:], strict=True)]
    )
    mode, coordinates = (
        a.get("mode", "nearest"),
        a.get("coordinate_transformation_mode", "half_pixel"),
    )
    if mode == "nearest" and coordinates == "asymmetric" and a.get("nearest_mode") == "floor":
        return functional.interpolate(x, wanted, mode="nearest")
    if mode == "linear" and coordinates in ("half_pixel", "pytorch_half_pixel"):
        return functional.interpolate(x, wanted, mode="bilinear", align_corners=False)
    raise PeerLacks(f"Resize of mode {mode}, {coordinates}")


def _clip(a: Attributes, x: Any, low: Any = None, high: Any = None) -> Any:
    low, high = a.get("min", low), a.get("max", high)
    return functional.relu6(x) if (low, high) == (0.0, 6.0) else torch.clamp(x, low, high)


def _split(a: Attributes, x: Any, sizes: Any = None) -> Any:
    axis = a.get("axis", 0)
    even = -(-x.shape[axis] // a["results"])
    return torch.split(x, a.get("split", sizes) or even, axis)


def _pad(a: Attributes, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    if axes is not None or a.get("mode", "constant") != "constant":
        raise PeerLacks("Pad of axes or of another mode")
    return _padded(x, list(zip(pads[: x.ndim], pads[x.ndim :], strict=True)), value or 0.0)


def _instance_norm(a: Attributes, x: Any, scale: Any, bias: Any) -> Any:
    return functional.instance_norm(x, weight=scale, bias=bias, eps=a.get("epsilon", 1e-5))


def _top_k(a: Attributes, x: Any, k: list[int]) -> Any:
    largest, ordered = bool(a.get("largest", 1)), bool(a.get("sorted", 1))
    return torch.topk(x, k[0], a.get("axis", -1), largest, ordered)


def _dim(name: str, default: int) -> Function:
    def call(a: Attributes, x: Any) -> Any:
        return getattr(torch, name)(x, dim=a.get("axis", default))

    return call


def _arg(name: str) -> Function:
    def call(a: Attributes, x: Any) -> Any:
        return getattr(torch, name)(x, a.get("axis", 0), bool(a.get("keepdims", 1)))

    return call


_BY_NAME: Final = (
    "Abs", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil",
    "Round", "Sign", "MatMul", "Where", "Pow", "Relu",
)  # fmt: skip
"""ONNX's operators that are functions of that name in lower case."""

FUNCTIONS: Final[dict[str, Function]] = {
    **ALIKE,
    **{name: plain(getattr(torch, name.lower())) for name in _BY_NAME},
    "Neg": plain(torch.neg),
    "Reciprocal": plain(torch.reciprocal),
    "Not": plain(torch.logical_not),
    "And": plain(torch.logical_and),
    "Or": plain(torch.logical_or),
    "Max": plain(lambda x, y: _extremum(torch.maximum, "min", x, y)),
    "Min": plain(lambda x, y: _extremum(torch.minimum, "max", x, y)),
    "Clip": _clip,
    "Softplus": plain(functional.softplus),
    "Mish": plain(functional.mish),
    "HardSwish": plain(functional.hardswish),
    "HardSigmoid": lambda a, x: torch.clamp(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1),
    "LeakyRelu": lambda a, x: functional.leaky_relu(x, a.get("alpha", 0.01)),
    "Elu": lambda a, x: functional.elu(x, a.get("alpha", 1.0)),
    "Gelu": lambda a, x: functional.gelu(x, approximate=a.get("approximate", "none")),
    "PRelu": plain(lambda x, slope: torch.where(x < 0, slope * x, x)),
    "Concat": lambda a, *parts: torch.cat(parts, a["axis"]),
    "Cast": lambda a, x: x.to(_DTYPES[a["to"]]),
    "Transpose": _transpose,
    "Squeeze": lambda a, x, axes=None: torch.squeeze(x, tuple(a.get("axes", axes) or ())),
    "Unsqueeze": lambda a, x, axes=None: _unsqueezed(x, a.get("axes", axes)),
    "Expand": lambda a, x, shape: x * torch.ones(shape, dtype=x.dtype),
    "Tile": lambda a, x, repeats: x.repeat(repeats),
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Gather": _gather,
    "GatherElements": lambda a, x, index: torch.gather(x, a.get("axis", 0), index),
    "Softmax": _dim("softmax", -1),
    "LogSoftmax": _dim("log_softmax", -1),
    "ArgMax": _arg("argmax"),
    "ArgMin": _arg("argmin"),
    "TopK": _top_k,
    "CumSum": lambda a, x, axis: torch.cumsum(x, axis),
    "ReduceSum": _reduce("sum"),
    "ReduceMean": _reduce("mean"),
    "ReduceMax": _reduce("amax"),
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda a, x: x.mean(dim=list(range(2, x.ndim)), keepdim=True),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": lambda a, x: functional.local_response_norm(
        x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
    ),
    "Attention": _attention,
    "LSTM": _lstm,
    "Resize": _resize,
    "Trilu": lambda a, x, k=0: (torch.triu if a.get("upper", 1) else torch.tril)(x, k),
}


def _unsqueezed(x: Any, axes: list[int]) -> Any:
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x
