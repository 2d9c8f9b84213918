"""More losses: each a function of a few tensors, whose values are combined by `reduction` ("mean",
"sum" or "none"), and modules that compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import weft.numpy as wnp
from weft.array.composites import composite
from weft.nn.layers import cosine_similarity
from weft.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
)
from weft.nn.module import Module
from weft.tracing.control import scan

Loss = Callable[..., Any]


def _binary(p: Any, labels: Any) -> Any:
    """Minus the logarithm of the probability of labels of 0 and 1, at most 100."""
    logarithms = (wnp.maximum(wnp.log(each), -100.0) for each in (p, 1.0 - p))
    yes, no = logarithms
    return -(labels * yes + (1.0 - labels) * no)


def _divergence(logarithms: Any, target: Any) -> Any:
    """`target (log target - logarithms)`: Kullback and Leibler's divergence by elements."""
    positive = target > 0.0
    return wnp.where(positive, target * (wnp.log(wnp.where(positive, target, 1.0)) - logarithms), 0)


def _smooth(x: Any, y: Any, beta: float = 1.0) -> Any:
    """The absolute difference, rounded off by a parabola within `beta`."""
    size = abs(x - y)
    near = wnp.minimum(size, beta)
    return near * near * (0.5 / beta) + (size - near)


def _hinge(x: Any, labels: Any, margin: float = 1.0) -> Any:
    """`x` for labels of 1, `max(0, margin - x)` for -1."""
    return wnp.where(labels > 0, x, wnp.maximum(margin - x, 0.0))


def _cosine(x: Any, y: Any, labels: Any, margin: float = 0.0) -> Any:
    """1 less the cosine for labels of 1, what the cosine is above `margin` for -1."""
    cosine = cosine_similarity(x, y, -1)
    return wnp.where(labels > 0, 1.0 - cosine, wnp.maximum(cosine - margin, 0.0))


def _ranking(x: Any, y: Any, labels: Any, margin: float = 0.0) -> Any:
    """`max(0, margin - label (x - y))`."""
    return wnp.maximum(margin - labels * (x - y), 0.0)


def _distance(x: Any, y: Any) -> Any:
    return wnp.sqrt(((x - y + 1e-6) ** 2).sum(-1))


def _triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    swap: bool = False,
    distance_function: Loss = _distance,
) -> Any:
    """By how much the near one is not nearer, by `margin`, than the far one, or with `swap` than
    the far one is to the anchor or to the near one.
    """
    first, second = (distance_function(anchor, each) for each in (positive, negative))
    if swap:
        second = wnp.minimum(second, distance_function(positive, negative))
    return wnp.maximum(first - second + margin, 0.0)


def _soft_margin(x: Any, labels: Any) -> Any:
    """`log(1 + exp(-label x))`."""
    return (-labels * x).apply("softplus")


def _margins(x: Any, labels: Any, margin: float = 1.0) -> Any:
    """The mean, over the classes, of `max(0, margin - x[label] + x[class])`, but of the label's."""
    chosen = wnp.take_along_axis(x, labels[:, None], -1)
    total = wnp.maximum(margin - chosen + x, 0.0).sum(-1) - margin
    return total / wnp.ones_like(x).sum(-1)


def _label_margins(x: Any, labels: Any) -> Any:
    """The mean, over the classes, of `max(0, 1 - x[label] + x[class])` for each label up to the
    first that is -1, and each class that is none of these.
    """
    held = wnp.cumprod((labels >= 0).astype(x.dtype), -1)
    chosen = wnp.take_along_axis(x, wnp.maximum(labels, 0), -1)
    one = wnp.ones_like(x)
    classes = (wnp.cumsum(one, -1) - 1.0).astype(labels.dtype)
    same = (labels[..., :, None] == classes[..., None, :]).astype(x.dtype)
    others = 1.0 - wnp.minimum((same * held[..., :, None]).sum(-2), 1.0)
    losses = wnp.maximum(1.0 - chosen[..., :, None] + x[..., None, :], 0.0)
    return (losses * held[..., :, None] * others[..., None, :]).sum((-1, -2)) / one.sum(-1)


def _several_labels(x: Any, labels: Any) -> Any:
    """The mean of the logistic losses of each class, of labels of 0 and 1."""
    return (x.apply("softplus") - labels * x).mean(-1)


def _poisson(x: Any, target: Any, log_input: bool = True) -> Any:
    """`exp(x) - target x`, or of the logarithm of `x`."""
    return wnp.exp(x) - target * x if log_input else x - target * wnp.log(x + 1e-8)


def _gaussian(mean: Any, target: Any, variance: Any, epsilon: float = 1e-6) -> Any:
    """Half the logarithm of the variance, and of the square of the difference over it."""
    spread = wnp.maximum(variance, epsilon)
    return 0.5 * (wnp.log(spread) + (mean - target) ** 2 / spread)


_LOSSES: Final[Mapping[str, Loss]] = {
    "binary_cross_entropy": _binary, "kl_div": _divergence, "smooth_l1_loss": _smooth,
    "hinge_embedding_loss": _hinge, "cosine_embedding_loss": _cosine,
    "margin_ranking_loss": _ranking, "triplet_margin_loss": _triplet,
    "soft_margin_loss": _soft_margin, "multi_margin_loss": _margins,
    "multilabel_soft_margin_loss": _several_labels, "poisson_nll_loss": _poisson,
    "gaussian_nll_loss": _gaussian, "multilabel_margin_loss": _label_margins,
    "triplet_margin_with_distance_loss": _triplet,
}  # fmt: skip


def _computed(*operands: Any, loss: str, reduction: str, **settings: Any) -> Any:
    found = _LOSSES[loss](*operands, **settings)
    return found if reduction == "none" else found.sum() if reduction == "sum" else found.mean()


def _function(name: str) -> Loss:
    def loss(*operands: Any, reduction: str = "mean", **settings: Any) -> Any:
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"{name} requires a reduction mean, sum or none, got {reduction!r}")
        return composite(_computed, *operands, loss=name, reduction=reduction, **settings)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = _LOSSES[name].__doc__
    return loss


(
    binary_cross_entropy, kl_div, smooth_l1_loss, hinge_embedding_loss, cosine_embedding_loss,
    margin_ranking_loss, triplet_margin_loss, soft_margin_loss, multi_margin_loss,
    multilabel_soft_margin_loss, poisson_nll_loss, gaussian_nll_loss, multilabel_margin_loss,
    triplet_margin_with_distance_loss,
) = map(_function, _LOSSES)  # fmt: skip


def ctc_loss(
    logarithms: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0
) -> Any:
    """Minus the logarithm of the probability of sequences `targets[n, s]` among the alignments of
    `logarithms[t, n, classes]` (Graves et al., 2006), each over its length; the mean.
    """
    steps, count, _ = logarithms.shape
    longest = targets.shape[1]
    never = -1e30
    blanks = wnp.full((count, longest, 1), blank, dtype=targets.dtype)
    pairs = wnp.concatenate([blanks, targets[:, :, None]], 2).reshape(count, 2 * longest)
    labels = wnp.concatenate([pairs, blanks[:, :1, 0]], 1)
    places = wnp.arange(2 * longest + 1)
    twice = wnp.concatenate([blanks[:, :1, 0], blanks[:, :1, 0], labels[:, :-2]], 1)
    skips = wnp.logical_and(labels != blank, labels != twice)
    scores = wnp.take_along_axis(
        logarithms, wnp.broadcast_to(labels[None], (steps, *labels.shape)), 2
    )
    first = wnp.where(places < 2, scores[0], never)

    def moved(alpha: Any, by: int) -> Any:
        edge = wnp.full((count, by), never, dtype=alpha.dtype)
        return wnp.concatenate([edge, alpha[:, :-by]], 1)

    def step(state: Any, row: Any) -> Any:
        alpha, time = state
        ways = alpha, moved(alpha, 1), wnp.where(skips, moved(alpha, 2), never)
        top = wnp.maximum(wnp.maximum(ways[0], ways[1]), ways[2])
        total = sum(wnp.exp(each - top) for each in ways)
        after = top + wnp.log(total) + row
        return (wnp.where((time < input_lengths)[:, None], after, alpha), time + 1), None

    (alpha, _), _ = scan(step, (first, wnp.ones_like(input_lengths)), scores[1:])
    ends = wnp.stack([2 * target_lengths, 2 * target_lengths - 1], 1)
    last = wnp.take_along_axis(alpha, ends, 1)
    top = last.max(1)
    found = -(top + wnp.log(wnp.exp(last - top[:, None]).sum(1)))
    return (found / wnp.maximum(target_lengths, 1).astype(found.dtype)).mean()


class Criterion(Module):
    """A loss as a module; what it is made with are the function's further arguments."""

    function: Loss

    def __init__(self, **settings: Any):
        super().__init__()
        self.settings = settings

    def construct(self, *operands: Any) -> Any:
        """The loss."""
        return type(self).function(*operands, **self.settings)


def _module(name: str, function: Loss) -> type[Criterion]:
    named = {"function": function, "__doc__": function.__doc__, "__module__": __name__}
    return type(name, (Criterion,), named)


BCELoss = _module("BCELoss", binary_cross_entropy)
BCEWithLogitsLoss = _module("BCEWithLogitsLoss", binary_cross_entropy_with_logits)
CTCLoss = _module("CTCLoss", ctc_loss)
CosineEmbeddingLoss = _module("CosineEmbeddingLoss", cosine_embedding_loss)
CrossEntropyLoss = _module("CrossEntropyLoss", cross_entropy)
GaussianNLLLoss = _module("GaussianNLLLoss", gaussian_nll_loss)
HingeEmbeddingLoss = _module("HingeEmbeddingLoss", hinge_embedding_loss)
HuberLoss = _module("HuberLoss", huber_loss)
KLDivLoss = _module("KLDivLoss", kl_div)
L1Loss = _module("L1Loss", l1_loss)
MSELoss = _module("MSELoss", mse_loss)
MarginRankingLoss = _module("MarginRankingLoss", margin_ranking_loss)
MultiLabelMarginLoss = _module("MultiLabelMarginLoss", multilabel_margin_loss)
MultiLabelSoftMarginLoss = _module("MultiLabelSoftMarginLoss", multilabel_soft_margin_loss)
MultiMarginLoss = _module("MultiMarginLoss", multi_margin_loss)
NLLLoss = _module("NLLLoss", nll_loss)
PoissonNLLLoss = _module("PoissonNLLLoss", poisson_nll_loss)
SmoothL1Loss = _module("SmoothL1Loss", smooth_l1_loss)
SoftMarginLoss = _module("SoftMarginLoss", soft_margin_loss)
TripletMarginLoss = _module("TripletMarginLoss", triplet_margin_loss)
TripletMarginWithDistanceLoss = _module(
    "TripletMarginWithDistanceLoss", triplet_margin_with_distance_loss
)
