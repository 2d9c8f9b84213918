"""Neural networks out of modules; `Cell`, `SequentialCell` and `construct` are other names."""

from weft.nn.attention import MultiHeadAttention, scaled_dot_product_attention
from weft.nn.initializers import seed
from weft.nn.layers import (
    GELU,
    Activation,
    AvgPool2d,
    Conv2d,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    SequentialCell,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
    gelu,
    leaky_relu,
    relu,
    sigmoid,
    silu,
    softplus,
)
from weft.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
)
from weft.nn.module import Cell, Module
from weft.nn.norms import BatchNorm, BatchNorm1d, BatchNorm2d, LayerNorm, RMSNorm
from weft.nn.recurrent import LSTM

__all__ = [
    "GELU", "LSTM", "Activation", "AvgPool2d", "BatchNorm", "BatchNorm1d", "BatchNorm2d", "Cell",
    "Conv2d", "Dense", "Dropout", "Embedding", "Flatten", "LayerNorm", "Linear", "MaxPool2d",
    "Module", "MultiHeadAttention", "RMSNorm", "ReLU", "Sequential", "SequentialCell", "SiLU",
    "Sigmoid", "Softmax", "Tanh", "binary_cross_entropy_with_logits", "cross_entropy", "gelu",
    "huber_loss", "l1_loss", "leaky_relu", "mse_loss", "nll_loss", "relu",
    "scaled_dot_product_attention", "seed", "sigmoid", "silu", "softplus",
]  # fmt: skip
