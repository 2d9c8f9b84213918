"""Optimisers as functions of trees: parameters, their gradients and a state to new parameters and a
new state. They are written in operators of tensors, so they run at once or become part of a graph.
"""

from weft.optim import schedules
from weft.optim.lbfgs import lbfgs
from weft.optim.optimizers import (
    Optimizer,
    Schedule,
    adadelta,
    adagrad,
    adam,
    adamax,
    adamw,
    clip_by_norm,
    clip_by_value,
    lamb,
    lion,
    rmsprop,
    sgd,
)
from weft.optim.wrappers import LossScaler, accumulated, averaged, in_dtype

__all__ = [
    "LossScaler", "Optimizer", "Schedule", "accumulated", "adadelta", "adagrad", "adam", "adamax",
    "adamw", "averaged", "clip_by_norm", "clip_by_value", "in_dtype", "lamb", "lbfgs", "lion",
    "rmsprop", "schedules", "sgd",
]  # fmt: skip
