"""Losses as modules, by PyTorch's names, and those that have parameters of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple

import weft.numpy as wnp
from weft.nn import losses
from weft.nn.layers import Linear, Sequential
from weft.nn.losses import Loss, cross_entropy
from weft.nn.module import Module


class Criterion(Module):
    """A loss as a module; what it is made with are the function's further arguments."""

    function: Loss

    def __init__(self, *given: Any, **settings: Any):
        super().__init__()
        parameters = signature(type(self).function).parameters.values()
        names = [each.name for each in parameters if each.default is not Parameter.empty]
        self.settings = dict(zip(names, given, strict=False)) | settings
        unknown = [each for each in self.settings if each not in names]
        if unknown or len(given) > len(names):
            got = ", ".join(unknown) or f"{len(given)}"
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, got {got}")

    def construct(self, *operands: Any) -> Any:
        """The loss."""
        return type(self).function(*operands, **self.settings)


def _module(name: str, function: Loss) -> type[Criterion]:
    named = {"function": function, "__doc__": function.__doc__, "__module__": __name__}
    return type(name, (Criterion,), named)


BCELoss = _module("BCELoss", losses.binary_cross_entropy)
BCEWithLogitsLoss = _module("BCEWithLogitsLoss", losses.binary_cross_entropy_with_logits)
CTCLoss = _module("CTCLoss", losses.ctc_loss)
CosineEmbeddingLoss = _module("CosineEmbeddingLoss", losses.cosine_embedding_loss)
CrossEntropyLoss = _module("CrossEntropyLoss", cross_entropy)
GaussianNLLLoss = _module("GaussianNLLLoss", losses.gaussian_nll_loss)
HingeEmbeddingLoss = _module("HingeEmbeddingLoss", losses.hinge_embedding_loss)
HuberLoss = _module("HuberLoss", losses.huber_loss)
KLDivLoss = _module("KLDivLoss", losses.kl_div)
L1Loss = _module("L1Loss", losses.l1_loss)
MSELoss = _module("MSELoss", losses.mse_loss)
MarginRankingLoss = _module("MarginRankingLoss", losses.margin_ranking_loss)
MultiLabelMarginLoss = _module("MultiLabelMarginLoss", losses.multilabel_margin_loss)
MultiLabelSoftMarginLoss = _module("MultiLabelSoftMarginLoss", losses.multilabel_soft_margin_loss)
MultiMarginLoss = _module("MultiMarginLoss", losses.multi_margin_loss)
NLLLoss = _module("NLLLoss", losses.nll_loss)
PoissonNLLLoss = _module("PoissonNLLLoss", losses.poisson_nll_loss)
SmoothL1Loss = _module("SmoothL1Loss", losses.smooth_l1_loss)
SoftMarginLoss = _module("SoftMarginLoss", losses.soft_margin_loss)
TripletMarginLoss = _module("TripletMarginLoss", losses.triplet_margin_loss)
TripletMarginWithDistanceLoss = _module(
    "TripletMarginWithDistanceLoss", losses.triplet_margin_with_distance_loss
)


class LinearCrossEntropyLoss(Module):
    """The cross entropy of a layer's classes: of `x[n, features]` and labels `[n, *out_features]`,
    or probabilities with the classes behind `n`. `settings` are those of `cross_entropy`.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        out_features: Sequence[int] = (),
        bias: bool = False,
        **settings: Any,
    ):
        super().__init__()
        self.sizes = (classes, *out_features)
        self.linear = Linear(features, math.prod(self.sizes), bias)
        self.settings = settings

    def construct(self, x: Any, labels: Any) -> Any:
        """The loss."""
        logits = self.linear(x).reshape((*x.shape[:-1], *self.sizes))
        at = x.ndim - 1
        soft = labels.ndim == logits.ndim
        targets = wnp.moveaxis(labels, at, -1) if soft else labels
        return cross_entropy(wnp.moveaxis(logits, at, -1), targets, **self.settings)


class AdaptiveLoss(NamedTuple):
    """The logarithms of the labels' probabilities, and minus their mean."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Probabilities of many classes, the frequent ones first (Grave et al., 2017): the head tells
    classes below `cutoffs[0]` and clusters of the rarer ones, which have `div_value` times fewer
    features each. All clusters are computed for all examples.

    Raises ValueError for cutoffs that do not rise from 1 to the number of classes, and for clusters
    without a feature.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
    ):
        super().__init__()
        edges = [0, *cutoffs, classes]
        if len(edges) < 3 or any(low >= high for low, high in zip(edges, edges[1:], strict=False)):
            rule = f"cutoffs require numbers that rise from 1 to {classes - 1}"
            raise ValueError(f"{rule}, got {list(cutoffs)}")
        self.cutoffs = edges[1:]
        self.head = Linear(features, edges[1] + len(cutoffs), head_bias)
        widths = [int(features // div_value ** (n + 1)) for n in range(len(cutoffs))]
        if min(widths) < 1:
            rule = f"features require at least {div_value ** len(cutoffs):g} for {len(cutoffs)}"
            raise ValueError(f"{rule} clusters, got {features}")
        self.tail = [
            Sequential(Linear(features, width, False), Linear(width, high - low, False))
            for width, low, high in zip(widths, edges[1:], edges[2:], strict=False)
        ]

    def construct(self, x: Any, labels: Any) -> AdaptiveLoss:
        """The labels' logarithms `[n]`, and the loss, of `x[n, features]` and `labels[n]`, or of
        one example.
        """
        first = self.cutoffs[0]
        positions, found = wnp.minimum(labels, first), 0.0
        for n, part in enumerate(self.tail):
            low, high = self.cutoffs[n : n + 2]
            inside = wnp.logical_and(labels >= low, labels < high)
            place = wnp.where(inside, labels - low, 0)
            found = found + wnp.where(inside, _chosen(wnp.log_softmax(part(x)), place), 0.0)
            positions = wnp.where(inside, first + n, positions)
        output = found + _chosen(wnp.log_softmax(self.head(x)), positions)
        return AdaptiveLoss(output, -output.mean())

    def log_prob(self, x: Any) -> Any:
        """The logarithms of all classes' probabilities, `[n, classes]`."""
        head = wnp.log_softmax(self.head(x))
        first = self.cutoffs[0]
        parts = [
            wnp.log_softmax(part(x)) + head[..., first + n : first + n + 1]
            for n, part in enumerate(self.tail)
        ]
        return wnp.concatenate([head[..., :first], *parts], -1)

    def predict(self, x: Any) -> Any:
        """The most probable class of each example, `[n]`."""
        return wnp.argmax(self.log_prob(x), -1)


def _chosen(values: Any, positions: Any) -> Any:
    """The value of each row at a place."""
    return wnp.take_along_axis(values, wnp.expand_dims(positions, positions.ndim), -1).sum(-1)
