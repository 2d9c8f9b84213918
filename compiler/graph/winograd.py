"""graph -> graph: convolutions of 3 x 3 taps by Winograd's minimal filtering, where that pays.

    conv(x, w, b) -> winograd_result(einsum(winograd_tiles(x), G w Gt), b)

A constant filter is transformed while compiling, another one, as in training, in each call. A model
of multiply-adds, of what transforms cost and of the bytes of the filters decides, over what is
known of the sizes: filters grow by 16 / 9 for tiles of 2 x 2 and by 4 for those of 4 x 4, an
artifact holds them, and a whole network reads them from memory. Another model, of rounding errors,
has tiles of 2 x 2 where results are images and those of 4 x 4 in many layers would be seen in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.bound_sizes import graph_function
from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph import OPS_BY_NAME, ConstantOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, ShapeAttr, type_of
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.graph.ops.matmul import GemmOp, MatmulOp
from weft.dialects.graph.ops.pool import GlobalMaxPoolOp
from weft.dialects.graph.ops.reduce import ExtremumOp, ReductionOp
from weft.dialects.graph.ops.winograd import POINTS, TAPS
from weft.dialects.interval import UNBOUNDED, Range
from weft.dialects.loop.program import BOUNDS, bound_ranges
from weft.dialects.module_attributes import code_options
from weft.dialects.weights import WeightStore

EQUATION = "ncpt,poc->nopt"

SUM_BLOCK = 64
"""Terms of a product that are added up one after the other: most of what tiles of 4 x 4 lose is
lost there, for the sums nearly cancel each other in the result. With 128 they lose a quarter more.
"""

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

LIKELY: Final = 224
"""Height and width of a model's image where only a call knows them."""

LEAST_GAIN = 1.1
"""Less than this in the model is within its error.

The first two are fitted to the times of single layers of ResNet-50, VGG-19, SqueezeNet, Inception
and a U-Net, filters out of the caches: within a sixth each; what is chosen by them alone takes on
average a twentieth longer than the best.
"""

LOSS: Final[Mapping[int | None, float]] = {None: 1.1e-7, 2: 2.3e-7, 4: 6.6e-7}
"""The relative error, root mean square against f64, of a layer's result by the size of its tiles;
measured on 16 to 512 channels. Those of layers that follow each other add up as squares.
"""

LOST_BY_LAYER = 2.4e-7
"""What each layer may lose on average: one and a half times what other runtimes' direct ones do."""

LOST_ANYWAY = 1e-6
"""What results may lose whatever there are of layers."""

_F32_BYTES: Final = 4

FEWEST_POSITIONS = 16
"""A sum over so many of them, as in front of a classifier, makes their errors small beside it."""


class WinogradPass(ModulePass):
    """Rewrites every convolution that a smaller number of products pays for."""

    name = "weft-winograd"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        blocks: dict[Block, list[ConvOp]] = {}
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            assert conv.parent is not None, "a convolution lies in a block"
            blocks.setdefault(conv.parent, []).append(conv)
        costs: dict[ConvOp, dict[int | None, float]] = {}
        sizes: dict[ConvOp, int] = {}
        bounds = bound_ranges(graph_function(op).attributes.get(BOUNDS))
        for block, convs in blocks.items():
            own = {conv: _costs(conv, bounds, weights) for conv in convs}
            sizes |= _sizes(convs, own, summed_terms(block))
            costs |= own
        stored = {conv: size for conv, size in sizes.items() if constant_of(conv.filter, weights)}
        kept = _within(stored, costs, _room(op, weights))
        for conv, size in sizes.items():
            if conv in kept or conv not in stored:
                _rewrite(conv, size, weights)


def _room(module: ModuleOp, weights: WeightStore) -> float:
    """How many bytes filters may grow by."""
    text = code_options(module).max_weights_bytes
    if not text:
        return inf
    constants = (op for op in module.walk() if isinstance(op, ConstantOp) and op.key is not None)
    keys = {op.key.data for op in constants if op.key is not None and op.key.data in weights}
    stored = sum(weights[key].nbytes for key in keys)
    return float(text[:-1]) * stored - stored if text.endswith("x") else float(text) - stored


def _within(
    sizes: Mapping[ConvOp, int], costs: Mapping[ConvOp, Mapping[int | None, float]], room: float
) -> dict[ConvOp, int]:
    """Those of the convolutions whose filters may grow, the ones that gain the most by a byte."""

    def gain(conv: ConvOp) -> float:
        return (costs[conv][None] - costs[conv][sizes[conv]]) / _growth(conv, sizes[conv])

    kept: set[ConvOp] = set()
    for conv in sorted(sizes, key=gain, reverse=True):
        growth = _growth(conv, sizes[conv])
        if growth <= room:
            kept.add(conv)
            room -= growth
    return {conv: size for conv, size in sizes.items() if conv in kept}


def _growth(conv: ConvOp, size: int) -> int:
    """The bytes that a filter grows by for tiles of a size."""
    filters = prod(dim.constant or 0 for dim in type_of(conv.filter).shape[:2])
    return _F32_BYTES * ((size + TAPS - 1) ** 2 - TAPS * TAPS) * filters


def _sizes(
    convs: Sequence[ConvOp],
    costs: Mapping[ConvOp, Mapping[int | None, float]],
    summed: Mapping[SSAValue, float],
) -> dict[ConvOp, int]:
    """The size of the tiles of each convolution that is not direct. Those of 4 x 4 go first to what
    gains the most, as long as what results lose by them is allowed.
    """
    chosen = {conv: min(each, key=lambda size: each[size]) for conv, each in costs.items() if each}
    seen = [conv for conv in convs if summed.get(conv.result, 0) < _enough(conv)]
    exact = {conv: _fastest(costs[conv], but=4) for conv in seen if chosen.get(conv) == 4}
    lost = sum(LOSS[exact.get(conv, chosen.get(conv))] ** 2 for conv in seen)
    allowed = max(LOST_ANYWAY**2, len(seen) * LOST_BY_LAYER**2)
    gains = {conv: costs[conv][size] - costs[conv][4] for conv, size in exact.items()}
    for conv in sorted(gains, key=lambda conv: -gains[conv]):
        more = LOSS[4] ** 2 - LOSS[exact[conv]] ** 2
        if lost + more <= allowed:
            lost += more
        else:
            chosen[conv] = exact[conv]
    return {conv: size for conv, size in chosen.items() if size is not None}


def _fastest(costs: Mapping[int | None, float], *, but: int) -> int | None:
    return min((size for size in costs if size != but), key=lambda size: costs[size])


def _enough(conv: ConvOp) -> float:
    """How many terms a sum over many positions of a convolution's result has at least."""
    channels = conv.result_type.shape[1].constant if conv.result_type.has_rank else None
    return FEWEST_POSITIONS * (channels or inf)


def summed_terms(block: Block) -> dict[SSAValue, float]:
    """How many terms the longest sum has that stands between a value and what a block produces, on
    the way where it is shortest; `inf` for a reduction over many elements.
    """
    terms: dict[SSAValue, float] = {}
    for op in reversed(block.ops):
        inner = [value for each in op.walk() if each is not op for value in each.operands]
        behind = [terms.get(result, inf) for result in op.results]
        own = 0.0 if op.regions or not behind else max(_terms(op), min(behind))
        for value in (*op.operands, *inner):
            terms[value] = min(terms.get(value, inf), own)
    return terms


def _terms(op: Operation) -> float:
    """How many terms a product adds up, `inf` for a reduction of many; 0 for other operators."""
    if isinstance(op, ReductionOp) and not isinstance(op, (ExtremumOp, GlobalMaxPoolOp)):
        tensor_type = type_of(op.operand)
        count = op.count().constant if tensor_type.has_rank else None
        return inf if count is not None and count >= FEWEST_POSITIONS else 0.0
    if isinstance(op, (MatmulOp, GemmOp)):
        tensor_type = type_of(op.operands[0])
        inner = (
            tensor_type.shape[-1].constant if tensor_type.has_rank and tensor_type.rank else None
        )
        return float(inner or 0)
    return 0.0


def _costs(
    conv: ConvOp, bounds: Mapping[Atom, Range], weights: WeightStore
) -> dict[int | None, float]:
    """What a convolution takes directly, None, and with tiles of the sizes that pay; empty for one
    that has to be direct: where a call gives the filter, to be transformed each time, and the size
    of the image, which may be too small for that, too.
    """
    tensor_type, filters = type_of(conv.image), type_of(conv.filter)
    if (
        not tensor_type.has_rank
        or not filters.has_rank
        or tensor_type.rank != 4
        or tensor_type.element != F32
    ):
        return {}
    # The transforms are those of 3 x 3 taps at stride 1; they would cost narrower types than f32
    # too many of their digits.
    window = conv.window()
    simple = window.strides == window.dilations == (1, 1) and conv.groups == 1
    outputs, inputs = (dim.constant for dim in filters.shape[:2])
    spatial = [_likely(dim, bounds) for dim in conv.result_type.shape[2:]]
    if not simple or filters.shape[2:] != (TAPS, TAPS) or outputs is None or inputs is None:
        return {}
    stored = constant_of(conv.filter, weights) is not None
    guessed = any(dim.constant is None for dim in conv.result_type.shape[2:])
    if min(outputs, inputs) < FEWEST_CHANNELS or (guessed and not stored):
        return {}
    image = (tensor_type.shape[0].constant or 1, *spatial)
    direct = 2.0 * TAPS * TAPS * inputs * outputs * prod(image)
    costs: dict[int | None, float] = {
        size: _cost(size, inputs * outputs, inputs + outputs, image, stored=stored)
        for size in POINTS
    }
    paying = {size: cost for size, cost in costs.items() if cost * LEAST_GAIN <= direct}
    return {None: direct} | paying


def _likely(dim: Expr, bounds: Mapping[Atom, Range]) -> int:
    """A height or width where sizes that only a call knows are LIKELY, within their bounds."""
    sizes: dict[Atom, int] = {}
    for symbol in map(Symbol, dim.symbols()):
        least, most = bounds.get(symbol, UNBOUNDED)
        sizes[symbol] = max(least or 1, LIKELY if most is None else min(LIKELY, most))
    return max(1, dim.evaluate(sizes))


def _cost(size: int, filters: int, channels: int, image: tuple[int, ...], *, stored: bool) -> float:
    """About how many operations tiles of that size take, of filters that are stored transformed, or
    are transformed in each call.
    """
    batch, *spatial = image
    tiles = batch * prod(-(-dim // size) for dim in spatial)
    count = (size + TAPS - 1) ** 2
    transforms = TRANSFORM_COST * count * tiles * channels
    products = 2.0 * count * filters * tiles
    growth = STORED_COST * _F32_BYTES * (count - TAPS * TAPS)
    own = BYTE_COST * _F32_BYTES * count + (growth if stored else TRANSFORM_COST * count)
    return transforms + products + own * filters


def _rewrite(conv: ConvOp, size: int, weights: WeightStore) -> None:
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    filters = constant_of(conv.filter, weights)
    transformed = b.winograd_filter(conv.filter, size=size)
    if filters is not None:
        stem = filters.key.data if filters.key is not None else conv.onnx_name or "filter"
        (transformed,) = evaluate_constants([transformed], [f"{stem}.winograd{size}"], weights)
    window = conv.window()
    pads = ShapeAttr((*window.before, *window.after))
    tiles = b.winograd_tiles(conv.image, size=size, pads=pads)
    products = b.einsum(tiles, transformed, equation=EQUATION, block=SUM_BLOCK)
    spatial = ShapeAttr(conv.result_type.shape[2:])
    result = b.winograd_result(products, conv.bias, size=size, spatial=spatial)
    result.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result)
    conv.detach()
    conv.erase()
