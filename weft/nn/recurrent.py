"""Networks that walk along a sequence."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.nn.initializers import uniform
from weft.nn.layers import sigmoid
from weft.nn.module import Module
from weft.tracing.control import scan


class LSTM(Module):
    """One layer of long short-term memory over `[n, length, inputs]`.

    The gates are in the order input, forget, cell, output along the last axis of the weights.
    """

    def __init__(self, inputs: int, width: int):
        super().__init__()
        bound = width**-0.5
        self.width = width
        self.input_weight = uniform((inputs, 4 * width), bound)
        self.hidden_weight = uniform((width, 4 * width), bound)
        self.bias = uniform((4 * width,), bound)

    def construct(self, x: Any, state: Any = None) -> Any:
        """`[n, length, width]` of hidden states, and the last hidden and cell state."""
        driven = x @ self.input_weight + self.bias
        if state is None:
            zeros = wnp.zeros_like(driven[:, 0, : self.width])
            state = zeros, zeros

        def step(state: Any, row: Any) -> Any:
            hidden, cell = self._step(row, *state)
            return (hidden, cell), hidden

        state, hidden = scan(step, state, driven.transpose(1, 0, 2))
        return hidden.transpose(1, 0, 2), state

    def _step(self, driven: Any, hidden: Any, cell: Any) -> tuple[Any, Any]:
        gates = driven + hidden @ self.hidden_weight
        width = self.width
        enter, forget, fresh, leave = (
            gates[:, position * width : (position + 1) * width] for position in range(4)
        )
        cell = sigmoid(forget) * cell + sigmoid(enter) * wnp.tanh(fresh)
        return sigmoid(leave) * wnp.tanh(cell), cell
