"""Losses: one float each, the mean over examples."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.array.composites import composite


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Minus the logarithm of what the softmax of `logits[..., classes]` gives to `labels[...]`,
    integers.
    """
    classes = wnp.arange(logits.shape[-1], dtype=labels.dtype)
    return composite(_class_cross_entropy, logits, labels, classes)


def _class_cross_entropy(logits: Any, labels: Any, classes: Any) -> Any:
    logarithms = wnp.log_softmax(logits)
    chosen = wnp.expand_dims(labels, labels.ndim) == classes
    return -wnp.where(chosen, logarithms, 0.0).sum(-1).mean()


def mse_loss(x: Any, y: Any) -> Any:
    """The mean square difference."""
    return composite(_mean_square, x, y)


def _mean_square(x: Any, y: Any) -> Any:
    difference = x - y
    return (difference * difference).mean()


def l1_loss(x: Any, y: Any) -> Any:
    """The mean absolute difference."""
    return composite(_mean_size, x, y)


def _mean_size(x: Any, y: Any) -> Any:
    return abs(x - y).mean()


def huber_loss(x: Any, y: Any, delta: float = 1.0) -> Any:
    """Half the square of small differences, a straight line beyond `delta`."""
    return composite(_huber, x, y, delta=float(delta))


def _huber(x: Any, y: Any, delta: float) -> Any:
    size = abs(x - y)
    near = wnp.minimum(size, delta)
    return (near * near * 0.5 + (size - near) * delta).mean()


def binary_cross_entropy_with_logits(logits: Any, labels: Any) -> Any:
    """Minus the logarithm of what a logistic function returns to labels of 0 and 1."""
    return composite(_binary_cross_entropy, logits, labels)


def _binary_cross_entropy(logits: Any, labels: Any) -> Any:
    return (wnp.maximum(logits, 0.0) - logits * labels + (-abs(logits)).apply("softplus")).mean()


def nll_loss(logarithms: Any, labels: Any) -> Any:
    """Minus the mean of `logarithms[n, classes]` at `labels[n]`, integers."""
    return composite(_negative_log_likelihood, logarithms, labels)


def _negative_log_likelihood(logarithms: Any, labels: Any) -> Any:
    return -wnp.take_along_axis(logarithms, wnp.expand_dims(labels, labels.ndim), -1).mean()
