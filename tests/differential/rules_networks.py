"""Rules: convolutions, pools and the norms of images."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.writer import Rule, Unfit, Value, Writer


def _image(w: Writer) -> Value:
    """An image of two or four channels; made of another tensor where there is none."""
    w.graph_only()

    def fits(each: Value) -> bool:
        return each.is_float and each.rank == 4 and all(isinstance(dim, int) for dim in each.dims)

    found = w.fits(lambda each: fits(each) and each.dims[1] in (2, 4) and min(each.dims[2:]) > 2)
    if found and w.random.random() < 0.8:
        return w.random.choice(found)
    x = w.floats(low=1)
    shape = (1, w.random.choice([2, 4]), w.random.choice([4, 5, 6, 8]), w.random.choice([4, 5, 7]))
    if min(w.least(dim) for dim in x.dims) < 1:
        raise Unfit
    count = shape[0] * shape[1] * shape[2] * shape[3]
    flat = w.put(f"wnp.sin({x}).sum() * wnp.arange({count}, dtype=np.{x.dtype})", x.dtype, [count])
    return w.put(f"wnp.cos({flat}).reshape({shape})", x.dtype, shape)


def _filter(w: Writer, x: Value, shape: tuple[int, ...]) -> str:
    size = 1
    for each in shape:
        size *= each
    scale = w.random.choice([0.37, 0.71])
    return f"wnp.sin(wnp.arange({size}, dtype=np.{x.dtype}) * {scale} + wnp.tanh({x}).sum()).reshape({shape}) * 0.4"


def _out(size: int, kernel: int, stride: int, pad: int, dilation: int = 1) -> int:
    return (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1


def convolution(w: Writer) -> Value:
    """Filters of several shapes."""
    x = _image(w)
    batch, channels, height, width = (int(dim) for dim in x.dims)
    side, stride, pad = (
        w.random.choice([1, 2, 3, 3]),
        w.random.choice([1, 1, 2]),
        w.random.choice([0, 1]),
    )
    group = w.random.choice([1, 1, 2, channels])
    out = 4
    weights = _filter(w, x, (out, channels // group, side, side))
    bias = w.random.choice(["", f", wnp.cos(wnp.arange({out}, dtype=np.{x.dtype}))"])
    dims = [batch, out, _out(height, side, stride, pad), _out(width, side, stride, pad)]
    text = f"{x}.op('conv', {x}, {weights}{bias}, strides=[{stride}] * 2, pads=[{pad}] * 4, dilations=[1, 1], group={group})"
    return w.put(text, x.dtype, dims)


def transposed(w: Writer) -> Value:
    """A convolution the other way."""
    x = _image(w)
    batch, channels, height, width = (int(dim) for dim in x.dims)
    stride = w.random.choice([1, 2])
    weights = _filter(w, x, (channels, 2, 3, 2))
    dims = [batch, 2, (height - 1) * stride + 3, (width - 1) * stride + 2]
    text = f"{x}.op('conv_transpose', {x}, {weights}, strides=[{stride}] * 2, pads=[0] * 4, dilations=[1, 1], group=1, output_padding=[0, 0])"
    return w.put(text, x.dtype, dims)


def pool(w: Writer) -> Value:
    """Windows of images."""
    x = _image(w)
    side, stride = w.random.choice([2, 3]), w.random.choice([1, 2])
    name, more = w.random.choice([("max_pool", ""), ("average_pool", ", count_include_pad=True"), ("max_pool", ""),
                                  ("average_pool", ", count_include_pad=False"), ("lp_pool", ", p=2")])  # fmt: skip
    pad = w.random.choice([0, 1])
    dims = [*x.dims[:2], *(_out(int(dim), side, stride, pad) for dim in x.dims[2:])]
    text = f"{x}.op('{name}', {x}, kernel=[{side}] * 2, strides=[{stride}] * 2, pads=[{pad}] * 4, dilations=[1, 1], ceil_mode=False{more})"
    return w.put(text, x.dtype, dims)


def places_of_pool(w: Writer) -> Value:
    """Where the greatest elements of windows stand."""
    x = _image(w)
    dims = [*x.dims[:2], *(_out(int(dim), 2, 2, 0) for dim in x.dims[2:])]
    text = f"{x}.results('max_pool_indices', {x}, kernel=[2, 2], strides=[2, 2], pads=[0] * 4, dilations=[1, 1], ceil_mode=False, column_major=False)"
    return w.put(f"{text}[-1]", "int64", dims)


def whole_pool(w: Writer) -> Value:
    """Whole images."""
    x = _image(w)
    name, more = w.random.choice([("average", ""), ("max", ""), ("lp", ", p=2")])
    return w.put(f"{x}.op('global_{name}_pool', {x}{more})", x.dtype, [*x.dims[:2], 1, 1])


def norm(w: Writer) -> Value:
    """Norms of channels and groups of them."""
    x = _image(w)
    vector = f"wnp.cos(wnp.arange({x.dims[1]}, dtype=np.{x.dtype}) + wnp.tanh({x}).sum())"
    text = w.random.choice([
        "{x}.op('instance_norm', {x}, {v}, {v} * 0.5, epsilon=0.01)",
        "{x}.op('group_norm', {x}, {v}, {v} * 0.5, groups=2, epsilon=0.01)",
        "{x}.op('batch_norm', {x}, {v}, {v} * 0.5, {v} * 0.1, {v} * {v} + 0.5, epsilon=0.01)",
        "{x}.op('lrn', {x}, alpha=0.25, beta=0.75, bias=1.5, size=3)",
        "{x}.op('mean_variance_norm', {x}, axes=[0, 2, 3])",
    ])  # fmt: skip
    return w.like(text.format(x=x, v=vector), x)


def rearranged(w: Writer) -> Value:
    """Channels and pixels in each other's place."""
    x = _image(w)
    batch, channels, height, width = (int(dim) for dim in x.dims)
    mode = w.random.choice(["DCR", "CRD"])
    if channels == 4 and w.random.random() < 0.5:
        return w.put(f"{x}.op('depth_to_space', {x}, blocksize=2, mode='{mode}')", x.dtype,
                     [batch, 1, 2 * height, 2 * width])  # fmt: skip
    if height % 2 or width % 2:
        raise Unfit
    return w.put(f"{x}.op('space_to_depth', {x}, blocksize=2, mode='{mode}')", x.dtype,
                 [batch, 4 * channels, height // 2, width // 2])  # fmt: skip


def windows(w: Writer) -> Value:
    """Windows side by side, and added up again."""
    x = _image(w)
    height, width = (int(dim) for dim in x.dims[2:])
    how = "strides=[1, 1], dilations=[1, 1], pads=[1] * 4"
    unfolded = w.put(f"{x}.op('unfold', {x}, kernel=[2, 3], {how}) * 0.5", x.dtype,
                     [*x.dims[:2], 2, 3, _out(height, 2, 1, 1), _out(width, 3, 1, 1)])  # fmt: skip
    return w.put(f"{x}.op('fold', {unfolded}, spatial=({height}, {width}), {how})", x.dtype, x.dims)


def regions(w: Writer) -> Value:
    """The greatest elements of regions."""
    x = _image(w)
    boxes = f"np.array([[0, 0, 0, 3, 3], [0, 1, 0, 2, 5]], np.{x.dtype})"
    text = f"{x}.op('max_region_pool', {x}, {boxes}, pooled=[2, 2], scale=1.0)"
    return w.put(text, x.dtype, [2, x.dims[1], 2, 2])


def attention(w: Writer) -> Value:
    """Softmax of products, times another."""
    x = w.pick(lambda each: each.is_float and each.rank in (2, 3)
               and min(w.least(dim) for dim in each.dims) > 0)  # fmt: skip
    w.operator_only()
    y = w.beside(x, same=True)
    return w.like(f"wnp.softmax(({x} @ {y}.mT) * 0.5, -1) @ wnp.tanh({y})", x)


RULES: Sequence[Rule] = (
    convolution, convolution, convolution, transposed, pool, pool, places_of_pool, whole_pool, norm, norm, rearranged,
    windows, regions, attention, attention, attention,
)  # fmt: skip
