"""graph -> graph: convolutions of 3 x 3 taps by Winograd's minimal filtering, where that pays.

    conv(x, w, b) -> winograd_result(einsum(winograd_tiles(x), G w Gt), b)

The filter is transformed here, in f64. A model of multiply-adds, of what the transforms cost and of
the bytes of the filters decides, over what is known of the sizes: filters grow by 16 / 9 for tiles
of 2 x 2 and by 4 for those of 4 x 4, an artifact holds them, and a whole network reads them from
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from dialects.context import weights_of
from dialects.graph import OPS_BY_NAME, ConstantOp
from dialects.graph.builder import GraphBuilder
from dialects.graph.conv import ConvOp
from dialects.graph.types import F32, ShapeAttr, type_of
from dialects.graph.winograd import POINTS, TAPS, transformed_filter
from dialects.weights import WeightStore

EQUATION = "ncpt,poc->nopt"

FEWEST_CHANNELS = 16
"""Of the image and of the result; with fewer the transforms are most of the work."""

TRANSFORM_COST = 35.0
"""Of an element of a transformed tile, made and read again, in floating-point operations."""

BYTE_COST = 2.2
"""Of a byte of filters, read from memory, in floating-point operations of one core."""

STORED_COST = 6.0
"""Of a byte by which filters grow, in floating-point operations: time is not all that counts, and
a network that holds more reads more from memory.
"""

LEAST_GAIN = 1.1
"""Less than this in the model is within its error.

The first two are fitted to the times of single layers of ResNet-50, VGG-19, SqueezeNet, Inception
and a U-Net, filters out of the caches: within a sixth each; what is chosen by them alone takes on
average a twentieth longer than the best.
"""


@dataclass(frozen=True)
class WinogradPass(ModulePass):
    """Rewrites every convolution that a smaller number of products pays for."""

    name = "weft-winograd"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            size = _best_size(conv)
            filters = conv.filter.owner
            known = isinstance(filters, ConstantOp) and (
                filters.literal is not None or (filters.key and filters.key.data in weights)
            )
            if size is not None and known:
                _rewrite(conv, size, weights)


def _best_size(conv: ConvOp) -> int | None:
    """The size of the tiles with which a convolution is fastest; None for a direct one."""
    kind, filters = type_of(conv.image), type_of(conv.filter)
    if not kind.has_rank or not filters.has_rank or kind.rank != 4 or kind.element != F32:
        return None
    window = conv.window()
    simple = window.strides == window.dilations == (1, 1) and conv.groups == 1
    outputs, inputs = (dim.constant for dim in filters.shape[:2])
    spatial = [dim.constant for dim in conv.result_type.shape[2:]]
    if not simple or filters.shape[2:] != (TAPS, TAPS) or outputs is None or inputs is None:
        return None
    if any(dim is None for dim in spatial) or min(outputs, inputs) < FEWEST_CHANNELS:
        return None
    image = (kind.shape[0].constant or 1, *(dim or 0 for dim in spatial))
    costs = {size: _cost(size, inputs, outputs, image) for size in POINTS}
    best = min(costs, key=lambda size: costs[size])
    direct = 2.0 * TAPS * TAPS * inputs * outputs * prod(image)
    return best if costs[best] * LEAST_GAIN <= direct else None


def _cost(size: int, inputs: int, outputs: int, image: tuple[int, ...]) -> float:
    """About how many operations tiles of that size take."""
    batch, *spatial = image
    tiles = batch * prod(-(-dim // size) for dim in spatial)
    count = (size + TAPS - 1) ** 2
    transforms = TRANSFORM_COST * count * tiles * (inputs + outputs)
    products = 2.0 * count * inputs * outputs * tiles
    filters, growth = 4 * count * inputs * outputs, 4 * (count - TAPS * TAPS) * inputs * outputs
    return transforms + products + BYTE_COST * filters + STORED_COST * growth


def _rewrite(conv: ConvOp, size: int, weights: WeightStore) -> None:
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    filters = conv.filter.owner
    assert isinstance(filters, ConstantOp), "the caller asked for a known filter"
    stem = filters.key.data if filters.key is not None else conv.onnx_name or "filter"
    transformed = transformed_filter(filters.array(weights), size)
    stored = ConstantOp.stored(f"{stem}.winograd{size}", transformed, weights, conv.location)
    window = conv.window()
    pads = ShapeAttr((*window.before, *window.after))
    tiles = b.winograd_tiles(conv.image, size=size, pads=pads)
    products = b.einsum(tiles, b.builder.insert(stored).results[0], equation=EQUATION)
    spatial = ShapeAttr(conv.result_type.shape[2:])
    result = b.winograd_result(products, conv.bias, size=size, spatial=spatial)
    result.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result)
    conv.detach()
    conv.erase()
