"""Networks that walk along a sequence."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.nn.activations import relu, sigmoid
from weft.nn.initializers import uniform
from weft.nn.module import Module
from weft.tracing.control import scan


class RNN(Module):
    """One layer of `h = tanh(x input_weight + h hidden_weight + bias)` over `[n, length, inputs]`;
    with `nonlinearity="relu"` of that.
    """

    GATES = 1

    def __init__(self, inputs: int, width: int, nonlinearity: str = "tanh"):
        super().__init__()
        bound = width**-0.5
        self.width, self.nonlinearity = width, nonlinearity
        self.input_weight = uniform((inputs, self.GATES * width), bound)
        self.hidden_weight = uniform((width, self.GATES * width), bound)
        self.bias = uniform((self.GATES * width,), bound)

    def construct(self, x: Any, state: Any = None) -> Any:
        """`[n, length, width]` of hidden states, and the last one."""
        driven = x @ self.input_weight + self.bias
        hidden = wnp.zeros_like(driven[:, 0, : self.width]) if state is None else state

        def step(hidden: Any, row: Any) -> Any:
            hidden = self.step(row, hidden)
            return hidden, hidden

        last, states = scan(step, hidden, driven.transpose(1, 0, 2))
        return states.transpose(1, 0, 2), last

    def step(self, driven: Any, hidden: Any) -> Any:
        """The next hidden state."""
        found = driven + hidden @ self.hidden_weight
        return relu(found) if self.nonlinearity == "relu" else wnp.tanh(found)


class GRU(RNN):
    """One layer of gated recurrent units over `[n, length, inputs]`. The gates are in the order
    reset, update, new along the last axis of the weights; the reset gate is applied to what the
    hidden state is multiplied to, with `hidden_bias`.
    """

    GATES = 3

    def __init__(self, inputs: int, width: int):
        super().__init__(inputs, width)
        self.hidden_bias = uniform((width,), width**-0.5)

    def step(self, driven: Any, hidden: Any) -> Any:
        """The next hidden state."""
        width, product = self.width, hidden @ self.hidden_weight
        reset, update = (
            sigmoid((driven + product)[:, at * width : (at + 1) * width]) for at in range(2)
        )
        inner = product[:, 2 * width :] + self.hidden_bias
        fresh = wnp.tanh(driven[:, 2 * width :] + reset * inner)
        return fresh + update * (hidden - fresh)


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
