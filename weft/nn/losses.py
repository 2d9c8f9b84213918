"""Losses: functions of a few tensors, whose values are combined by `reduction` ("mean", "sum" or
"none"). Further parameters are those of PyTorch's losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any, Final, cast

import weft.numpy as wnp
from weft.array.composites import composite
from weft.nn.layers import cosine_similarity
from weft.tracing.control import scan

Loss = Callable[..., Any]


def _square(x: Any, y: Any) -> Any:
    """The square of the difference."""
    difference = x - y
    return difference * difference


def _size(x: Any, y: Any) -> Any:
    """The absolute difference."""
    return abs(x - y)


def _huber(x: Any, y: Any, delta: float = 1.0) -> Any:
    """Half the square of small differences, a straight line beyond `delta`."""
    size = abs(x - y)
    near = wnp.minimum(size, delta)
    return near * near * 0.5 + (size - near) * delta


def _cross_entropy(
    logits: Any,
    labels: Any,
    classes: Any,
    weight: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Minus the logarithm of what the softmax of `logits[..., classes]` gives to `labels[...]`,
    integers, or the sum by probabilities `labels[..., classes]`. The label `ignore_index` does not
    count, others by `weight[classes]`; all classes share the part `label_smoothing` of a label.
    """
    logarithms = wnp.log_softmax(logits)
    scaled = logarithms if weight is None else logarithms * weight
    is_class = labels.ndim < logits.ndim
    chosen = wnp.expand_dims(labels, labels.ndim) == classes if is_class else None
    picked = wnp.where(chosen, scaled, 0.0) if is_class else labels * scaled
    found = -picked.sum(-1)
    if label_smoothing:
        found = found * (1.0 - label_smoothing) - scaled.mean(-1) * label_smoothing
    if not is_class:
        return found
    counts = (labels != ignore_index).astype(found.dtype)
    weights = counts if weight is None else counts * wnp.where(chosen, weight, 0.0).sum(-1)
    is_zero = ignore_index < 0 and not label_smoothing  # what is no class is none that is chosen
    return found if is_zero else found * counts, weights


def _negative_log_likelihood(
    logarithms: Any, labels: Any, weight: Any = None, ignore_index: int = -100
) -> Any:
    """Minus `logarithms[n, classes]` at `labels[n]`, integers. The label `ignore_index` does not
    count, others by `weight[classes]`.
    """
    places = wnp.where(labels == ignore_index, 0, labels)
    counts = (labels != ignore_index).astype(logarithms.dtype)
    if weight is not None:
        counts = counts * wnp.take(weight, places, 0)
    chosen = wnp.take_along_axis(logarithms, wnp.expand_dims(places, labels.ndim), -1)
    return -chosen.sum(-1) * counts, counts


def _of_logits(x: Any, labels: Any, weight: Any = None, pos_weight: Any = None) -> Any:
    """Minus the logarithm of what a logistic function returns to labels of 0 and 1, times `weight`;
    labels of 1 count as much as `pos_weight` says.
    """
    if pos_weight is None:
        found = wnp.maximum(x, 0.0) - x * labels + (-abs(x)).apply("softplus")
    else:
        above = (-abs(x)).apply("softplus") + wnp.maximum(-x, 0.0)
        found = (1.0 - labels) * x + (1.0 + (pos_weight - 1.0) * labels) * above
    return found if weight is None else found * weight


def _binary(p: Any, labels: Any, weight: Any = None) -> Any:
    """Minus the logarithm of the probability of labels of 0 and 1, at most 100, times `weight`."""
    logarithms = (wnp.maximum(wnp.log(each), -100.0) for each in (p, 1.0 - p))
    yes, no = logarithms
    found = -(labels * yes + (1.0 - labels) * no)
    return found if weight is None else found * weight


def _divergence(logarithms: Any, target: Any, log_target: bool = False) -> Any:
    """`target (log target - logarithms)`: Kullback and Leibler's divergence by elements; with
    `log_target` of the target's logarithms. `reduction="batchmean"` adds up, over the first axis.
    """
    if log_target:
        return wnp.exp(target) * (target - logarithms)
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


def _distance(x: Any, y: Any, p: float, eps: float) -> Any:
    difference = x - y + eps
    if p == 2.0:
        return wnp.sqrt((difference**2).sum(-1))
    return (abs(difference) ** p).sum(-1) ** (1.0 / p)


def _triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
) -> Any:
    """By how much the near one is not nearer, by `margin` in the norm of the power `p`, than the
    far one, or with `swap` than the far one is to the anchor or to the near one.
    """
    return _triplet_by(anchor, positive, negative, partial(_distance, p=p, eps=eps), margin, swap)


def _triplet_by(
    anchor: Any,
    positive: Any,
    negative: Any,
    distance_function: Loss | None = None,
    margin: float = 1.0,
    swap: bool = False,
) -> Any:
    """The loss of triplets by another distance than that of vectors."""
    distance = distance_function or partial(_distance, p=2.0, eps=1e-6)
    first, second = (distance(anchor, each) for each in (positive, negative))
    if swap:
        second = wnp.minimum(second, distance(positive, negative))
    return wnp.maximum(first - second + margin, 0.0)


def _soft_margin(x: Any, labels: Any) -> Any:
    """`log(1 + exp(-label x))`."""
    return (-labels * x).apply("softplus")


def _margins(x: Any, labels: Any, p: int = 1, margin: float = 1.0, weight: Any = None) -> Any:
    """The mean, over the classes, of `max(0, margin - x[label] + x[class])` to the power `p`, but
    of the label's, times `weight[label]`.
    """
    chosen = wnp.take_along_axis(x, labels[:, None], -1)
    losses = wnp.maximum(margin - chosen + x, 0.0)
    total = (losses if p == 1 else losses**p).sum(-1) - margin**p
    found = total / wnp.ones_like(x).sum(-1)
    return found if weight is None else found * wnp.take(weight, labels, 0)


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


def _several_labels(x: Any, labels: Any, weight: Any = None) -> Any:
    """The mean of the logistic losses of each class, of labels of 0 and 1, times its `weight`."""
    found = x.apply("softplus") - labels * x
    return (found if weight is None else found * weight).mean(-1)


def _poisson(
    x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Any:
    """`exp(x) - target x`, or of the logarithm of `x`; with `full` and what the target alone gives,
    by Stirling's formula.
    """
    found = wnp.exp(x) - target * x if log_input else x - target * wnp.log(x + eps)
    if not full:
        return found
    above = wnp.where(target > 1.0, target, 1.0)
    rest = above * wnp.log(above) - above + 0.5 * wnp.log(2.0 * math.pi * above)
    return found + wnp.where(target > 1.0, rest, 0.0)


def _gaussian(mean: Any, target: Any, variance: Any, full: bool = False, eps: float = 1e-6) -> Any:
    """Half the logarithm of the variance, at least `eps`, and of the square of the difference over
    it; with `full` and of `2 pi`.
    """
    spread = wnp.maximum(variance, eps)
    found = 0.5 * (wnp.log(spread) + (mean - target) ** 2 / spread)
    return found + 0.5 * math.log(2.0 * math.pi) if full else found


_LOSSES: Final[Mapping[str, Loss]] = {
    "mse_loss": _square, "l1_loss": _size, "huber_loss": _huber, "class_losses": _cross_entropy,
    "nll_loss": _negative_log_likelihood, "binary_cross_entropy_with_logits": _of_logits,
    "binary_cross_entropy": _binary, "kl_div": _divergence, "smooth_l1_loss": _smooth,
    "hinge_embedding_loss": _hinge, "cosine_embedding_loss": _cosine,
    "margin_ranking_loss": _ranking, "triplet_margin_loss": _triplet,
    "soft_margin_loss": _soft_margin, "multi_margin_loss": _margins,
    "multilabel_soft_margin_loss": _several_labels, "poisson_nll_loss": _poisson,
    "gaussian_nll_loss": _gaussian, "multilabel_margin_loss": _label_margins,
    "triplet_margin_with_distance_loss": _triplet_by,
}  # fmt: skip
"""What a loss is of each example or element; of a pair the second says how much these count."""

_REDUCTIONS: Final = ("mean", "sum", "none")
_ARRAYS: Final = ("weight", "pos_weight")
"""Parameters that are tensors, of the dtype of the first operand."""


def _reduced(found: Any, reduction: str) -> Any:
    is_pair = isinstance(found, tuple)
    losses, counts = cast("tuple[Any, Any]", found) if is_pair else (found, None)
    if reduction == "none":
        return losses
    if reduction == "batchmean":
        return losses.sum(tuple(range(1, losses.ndim))).mean()
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if counts is None else losses.sum() / counts.sum()


def _computed(
    *operands: Any, loss: str, reduction: str, arrays: tuple[str, ...] = (), **settings: Any
) -> Any:
    count = len(operands) - len(arrays)
    weights = (each.astype(operands[0].dtype) for each in operands[count:])
    given = {**settings, **dict(zip(arrays, weights, strict=True))}
    return _reduced(_LOSSES[loss](*operands[:count], **given), reduction)


def _function(name: str) -> Loss:
    formula = signature(_LOSSES[name])
    named = [each.name for each in formula.parameters.values() if each.default is Parameter.empty]
    known = (*_REDUCTIONS, "batchmean") if name == "kl_div" else _REDUCTIONS

    def loss(*operands: Any, reduction: str = "mean", **settings: Any) -> Any:
        if reduction not in known:
            rule = f"{name} requires a reduction out of {', '.join(known)}"
            raise ValueError(f"{rule}, got {reduction!r}")
        if not settings:
            return composite(_computed, *operands, loss=name, reduction=reduction)
        by_name = [settings[each] for each in named[len(operands) :] if each in settings]
        arrays = {x: wnp.asarray(settings[x]) for x in _ARRAYS if settings.get(x) is not None}
        given = {x: value for x, value in settings.items() if x not in (*named, *_ARRAYS)}
        if arrays:
            given["arrays"] = tuple(arrays)
        return composite(
            _computed, *operands, *by_name, *arrays.values(),
            loss=name, reduction=reduction, **given,
        )  # fmt: skip

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = _LOSSES[name].__doc__
    chosen = Parameter("reduction", Parameter.KEYWORD_ONLY, default="mean")
    loss.__signature__ = formula.replace(parameters=[*formula.parameters.values(), chosen])
    return loss


(
    mse_loss, l1_loss, huber_loss, _class_losses, nll_loss, binary_cross_entropy_with_logits,
    binary_cross_entropy, kl_div, smooth_l1_loss, hinge_embedding_loss, cosine_embedding_loss,
    margin_ranking_loss, triplet_margin_loss, soft_margin_loss, multi_margin_loss,
    multilabel_soft_margin_loss, poisson_nll_loss, gaussian_nll_loss, multilabel_margin_loss,
    triplet_margin_with_distance_loss,
) = map(_function, _LOSSES)  # fmt: skip


def cross_entropy(
    logits: Any,
    labels: Any,
    weight: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    *,
    reduction: str = "mean",
) -> Any:
    classes = wnp.arange(logits.shape[-1], dtype=labels.dtype)
    return _class_losses(
        logits, labels, classes, weight=weight, ignore_index=ignore_index,
        label_smoothing=label_smoothing, reduction=reduction,
    )  # fmt: skip


cross_entropy.__doc__ = _cross_entropy.__doc__


def ctc_loss(
    logarithms: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
    *,
    reduction: str = "mean",
) -> Any:
    """Minus the logarithm of the probability of sequences `targets[n, s]` among the alignments of
    `logarithms[t, n, classes]` (Graves et al., 2006), each over its length in the mean; infinite
    for a sequence that has none, or 0 with `zero_infinity`.
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
    found = wnp.where(found < -never / 2, found, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        found = found / wnp.maximum(target_lengths, 1).astype(found.dtype)
    return _reduced(found, reduction)
