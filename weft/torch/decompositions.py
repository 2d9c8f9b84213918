"""How operators are taken apart before weft sees them: torch's table without what weft has whole,
and what torch has no table for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import torch
from torch import nn
from torch._decomp import core_aten_decompositions, get_decompositions

from weft.compiler.frontend.torch.operands import AtenTable
from weft.compiler.frontend.torch.table import ATEN

aten = torch.ops.aten
NOT_CORE: Final = [
    aten.grid_sampler_2d, aten.narrow_copy, aten._native_batch_norm_legit,
    aten.upsample_bilinear2d.vec, aten.upsample_nearest2d.vec, aten.nll_loss_forward,
    aten._batch_norm_with_update_functional, aten.batch_norm_backward, aten.max_unpool2d,
]  # fmt: skip
"""What torch can take apart beside the core."""


BY_SIZES: Final = (aten.split.Tensor, aten.unbind.int)
"""What has as many results as sizes say: torch knows their number where sizes vary."""


def _factored(a: Any) -> tuple[Any, Any, Any]:
    """The factors that torch makes, those of the transposed matrix where that has its columns next
    to each other; their diagonal; and the sign of the exchanges of rows.
    """
    factors, pivots, _ = aten.linalg_lu_factor_ex(a.mT if a.is_contiguous() else a)
    moved = pivots != torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    sign = 1 - 2 * (moved.sum(-1) % 2)
    return factors, pivots, sign.to(a.dtype)


def _det(a: Any) -> Any:
    factors, pivots, sign = _factored(a)
    return factors.diagonal(0, -2, -1).prod(-1) * sign, factors, pivots


def _slogdet(a: Any) -> Any:
    factors, pivots, sign = _factored(a)
    diagonal = factors.diagonal(0, -2, -1)
    return diagonal.sign().prod(-1) * sign, diagonal.abs().log().sum(-1), factors, pivots


def _encoder_layer(
    x: Any, width: int, heads: int, w_qkv: Any, b_qkv: Any, w_out: Any, b_out: Any, gelu: bool,
    norm_first: bool, eps: float, scale_1: Any, shift_1: Any, scale_2: Any, shift_2: Any,
    w_1: Any, b_1: Any, w_2: Any, b_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """A layer of nn.TransformerEncoder in inference. A mask is of pairs of tokens (0), of the keys
    of each example (1) or of both by head (2), and holds for what is left out.
    """
    linear, norm = nn.functional.linear, nn.functional.layer_norm

    def attention(y: Any) -> Any:
        q, k, v = (
            each.unflatten(-1, (heads, width // heads)).transpose(-3, -2)
            for each in linear(y, w_qkv, b_qkv).chunk(3, -1)
        )
        kept = None if mask is None else mask.to(torch.bool).logical_not()
        kept = kept[:, None, None] if kept is not None and mask_type == 1 else kept
        found = nn.functional.scaled_dot_product_attention(q, k, v, kept)
        return linear(found.transpose(-3, -2).flatten(-2), w_out, b_out)

    def forward(y: Any) -> Any:
        y = linear(y, w_1, b_1)
        return linear(nn.functional.gelu(y) if gelu else y.relu(), w_2, b_2)

    for part, scale, shift in ((attention, scale_1, shift_1), (forward, scale_2, shift_2)):
        x = x + part(norm(x, [width], scale, shift, eps) if norm_first else x)
        x = x if norm_first else norm(x, [width], scale, shift, eps)
    return x


@cache
def _foreach() -> dict[Any, Callable[..., Any]]:
    """Operators on lists of tensors, as optimisers have them: torch's own loops over the lists."""
    loops = torch._C.DispatchKey.CompositeExplicitAutograd
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    packets = [getattr(aten, n[6:]) for n in sorted(names) if n.startswith("aten::_foreach_")]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return {op: partial(op._op_dk, loops) for op in overloads if not op._schema.is_mutable}


OWN: Final[dict[Any, Callable[..., Any]]] = {
    aten._linalg_det.default: _det,
    aten._linalg_slogdet.default: _slogdet,
    aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}


@cache
def _of_torch() -> dict[Any, tuple[str, Callable[..., Any]]]:
    """Torch's table, with the names of overloads; what draws random numbers is not among it. It
    is made once: that takes as long as compiling a small graph. Operators of other libraries that
    torch composes of others are taken apart without it, also when they come later.
    """
    table = dict(core_aten_decompositions().items()) | get_decompositions(NOT_CORE)
    seeded = torch.Tag.nondeterministic_seeded
    return {
        op: (str(op), function)
        for op, function in table.items()
        if seeded not in getattr(op, "tags", ())
    }


def decompositions(whole: AtenTable = ATEN) -> dict[Any, Any]:
    """By operator; those of a table stay whole."""
    kept = {
        op: function
        for op, (name, function) in _of_torch().items()
        if name not in whole or op in BY_SIZES
    }
    return kept | OWN | _foreach()
