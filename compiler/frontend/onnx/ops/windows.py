"""ONNX operators that slide a window: convolutions and poolings, with `auto_pad` made explicit."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, dims_attr
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import Shape
from weft.dialects.graph.core.window import same_pads, transposed_pads

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


class _Window(Struct, frozen=True):
    """The attributes that all sliding windows share; lists have an entry a spatial dim."""

    spatial: Shape
    kernel: Shape
    strides: list[int]
    dilations: list[int]
    auto_pad: str

    @property
    def keeps_dims(self) -> bool:
        """Whether the pads follow from the output's dims."""
        return self.auto_pad.startswith("SAME")

    @property
    def is_upper(self) -> bool:
        """Whether an odd element of padding goes to the end."""
        return self.auto_pad == "SAME_UPPER"

    def pads(self, node: OnnxNode) -> AttributeValue:
        """The padding before all spatial dims, then after them."""
        if self.keeps_dims:
            pads = same_pads(
                self.spatial, self.kernel, self.strides, self.dilations, upper=self.is_upper
            )
            return _pads_attribute(pads)
        zeros = [0] * (2 * len(self.spatial))
        return zeros if self.auto_pad == "VALID" else node.integers("pads", zeros)


def _window(node: OnnxNode, kernel: Shape) -> _Window:
    spatial = node.shape()[2:]
    if len(kernel) != len(spatial) or not spatial:
        raise ModelError(f"requires a kernel of {len(spatial)} dims, got {len(kernel)}")
    ones = [1] * len(spatial)
    strides, dilations = node.integers("strides", ones), node.integers("dilations", ones)
    if len(strides) != len(spatial) or len(dilations) != len(spatial):
        got = f"{len(strides)} and {len(dilations)}"
        raise ModelError(f"requires {len(spatial)} strides and dilations, got {got}")
    if min(strides + dilations) < 1:
        raise ModelError(f"requires strides and dilations above 0, got {strides} and {dilations}")
    auto_pad = node.text("auto_pad", "NOTSET")
    if auto_pad not in AUTO_PADS:
        raise ModelError(f"requires auto_pad out of {', '.join(AUTO_PADS)}, got {auto_pad}")
    return _Window(spatial, kernel, strides, dilations, auto_pad)


def filter_window(node: OnnxNode, kernel: Shape) -> _Window:
    """The window of a convolution; a given kernel shape must be the filter's."""
    given = node.integers("kernel_shape", ())
    if node.has("kernel_shape") and tuple(Expr.of(dim) for dim in given) != kernel:
        got = f"{given} and [{', '.join(map(str, kernel))}]"
        raise ModelError(f"requires a kernel_shape that is the filter's, got {got}")
    return _window(node, kernel)


def _pool_window(node: OnnxNode) -> _Window:
    return _window(node, tuple(Expr.of(dim) for dim in node.attribute("kernel_shape").ints))


def _pads_attribute(pads: Sequence[Expr]) -> AttributeValue:
    constants = [pad.constant for pad in pads]
    numbers = [pad for pad in constants if pad is not None]
    return numbers if len(numbers) == len(pads) else dims_attr(pads)


def import_convolution(node: OnnxNode) -> Sequence[SSAValue]:
    """A convolution in groups."""
    return [convolution(node, node.shape(1)[2:], *node.operands)]


def convolution(node: OnnxNode, kernel: Shape, *operands: SSAValue | None) -> SSAValue:
    """What a node's attributes say of the convolution of these operands; its first is the image."""
    return node.b.conv(*operands, **window_attributes(node, kernel))


def window_attributes(node: OnnxNode, kernel: Shape) -> dict[str, AttributeValue]:
    """The attributes of `graph.conv` for a node's."""
    window = filter_window(node, kernel)
    return {
        "group": node.integer("group", 1),
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads(node),
    }


def import_transposed_convolution(node: OnnxNode) -> Sequence[SSAValue]:
    """A transposed convolution; wanted output dims decide the pads."""
    window = filter_window(node, node.shape(1)[2:])
    extra = node.integers("output_padding", [0] * len(window.spatial))
    pads = window.pads(node)
    wanted = _wanted_dims(node, window)
    if wanted:
        extra = [_missing(window, axis, wanted[axis], extra[axis]) for axis in range(len(extra))]
        pads = _transposed_pads(window, wanted, extra)
    return [
        node.b.conv_transpose(
            *node.operands,
            group=node.integer("group", 1),
            strides=window.strides,
            dilations=window.dilations,
            pads=pads,
            output_padding=extra,
        )
    ]


def _wanted_dims(node: OnnxNode, window: _Window) -> list[Expr]:
    """The spatial dims that the result is to have, none where the pads decide them."""
    given = [Expr.of(dim) for dim in node.integers("output_shape", ())]
    if given or not window.keeps_dims:
        return given[-len(window.spatial) :]
    steps = zip(window.spatial, window.strides, strict=True)
    return [dim * stride for dim, stride in steps]


def _missing(window: _Window, axis: int, wanted: Expr, extra: int) -> int:
    """How many elements the windows leave uncovered at the end, `extra` at least."""
    reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
    covered = (window.spatial[axis] - 1) * window.strides[axis] + reach
    return max(extra, (wanted - covered).constant or 0)


def _transposed_pads(
    window: _Window, wanted: Sequence[Expr], extra: Sequence[int]
) -> AttributeValue:
    pads = transposed_pads(
        window.spatial,
        window.kernel,
        window.strides,
        window.dilations,
        extra,
        wanted,
        upper=window.is_upper,
    )
    return _pads_attribute(pads)


def _pool_attributes(node: OnnxNode) -> dict[str, AttributeValue]:
    window = _pool_window(node)
    return {
        "kernel": node.attribute("kernel_shape").ints[:],
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads(node),
        "ceil_mode": node.flag("ceil_mode") and not window.keeps_dims,
    }


def import_max_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """The greatest elements, and their places in the whole tensor where something reads them."""
    attributes = _pool_attributes(node)
    values = node.b.max_pool(node.operand(0), **attributes)
    if not node.uses(1):
        return [values]
    column_major = node.flag("storage_order")
    positions = node.b.max_pool_indices(node.operand(0), column_major=column_major, **attributes)
    return [values, positions]


def import_average_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """Means of the elements in each window."""
    counts_pads = node.flag("count_include_pad")
    attributes = _pool_attributes(node)
    return [node.b.average_pool(node.operand(0), count_include_pad=counts_pads, **attributes)]


def import_lp_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """Norms of the elements in each window."""
    p = node.integer("p", 2)
    if p < 1:
        raise UnsupportedError(f"requires a p of at least 1, got {p}")
    return [node.b.lp_pool(node.operand(0), p=p, **_pool_attributes(node))]


IMPORTERS: dict[str, Importer] = {
    "AveragePool": import_average_pool,
    "Conv": import_convolution,
    "ConvTranspose": import_transposed_convolution,
    "LpPool": import_lp_pool,
    "MaxPool": import_max_pool,
}
