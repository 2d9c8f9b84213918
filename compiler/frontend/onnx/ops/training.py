"""ONNX's steps of optimisers: new parameters and states from gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, never_equal
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.types import type_of

DOMAIN = "ai.onnx.preview.training"
EPSILON = 1e-6

Step = Callable[["_Arithmetic", SSAValue, Sequence[SSAValue]], Sequence[SSAValue]]
"""New values of one parameter and its states from its rate and (parameter, gradient, states)."""


class _Arithmetic:
    """Sums and products of one parameter's values, and what they share with all others."""

    def __init__(self, node: OnnxNode, parameter: SSAValue) -> None:
        self.node = node
        self.b = node.b
        self.element: Attribute = type_of(parameter).element

    def number(self, value: float) -> SSAValue:
        return self.node.scalar(value, self.element)

    def scaled(self, value: SSAValue, factor: float) -> SSAValue:
        return self.b.mul(value, self.number(factor))

    def mixed(self, old: SSAValue, new: SSAValue, share: float) -> SSAValue:
        """`share * old + (1 - share) * new`."""
        return self.b.add(self.scaled(old, share), self.scaled(new, 1 - share))

    def updates(self) -> SSAValue:
        """The number of updates so far."""
        return self.node.cast(self.node.operand(1), self.element)

    def after_first(self, later: SSAValue, first: SSAValue) -> SSAValue:
        """One value at the first update, the other at those that follow."""
        return self.b.where(self.b.greater(self.updates(), self.number(0)), later, first)

    def gradient(self, parameter: SSAValue, gradient: SSAValue) -> SSAValue:
        """The gradient with that of the squared norm."""
        return self.b.add(self.scaled(parameter, self.node.real("norm_coefficient", 0.0)), gradient)


def _import_steps(node: OnnxNode, states: int, step: Step) -> Sequence[SSAValue]:
    """Operands are rate, count of updates, and all parameters, all gradients, all of each state;
    results all parameters and all of each state.
    """
    values = [node.operand(position) for position in range(2, len(node.operands))]
    count, rest = divmod(len(values), states + 2)
    if rest or not count:
        rule = f"requires {states + 2} operands for each parameter behind two"
        raise ModelError(f"{rule}, got {len(values)}")
    results: list[Sequence[SSAValue]] = []
    for position in range(count):
        at = _Arithmetic(node, values[position])
        rate = node.cast(node.operand(0), at.element)
        parameter, gradient, *former = values[position::count]
        results.append(step(at, rate, (parameter, gradient, *former)))
        for old, new in zip((parameter, *former), results[-1], strict=True):
            if never_equal(type_of(old).shape, type_of(new).shape):
                rule = "requires a gradient that is broadcast to its parameter and states"
                raise ModelError(f"{rule}, got {type_of(gradient)} for {type_of(old)}")
    return [result for column in zip(*results, strict=True) for result in column]


def _momentum(at: _Arithmetic, rate: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """`velocity = alpha * velocity + beta * gradient`, beta being 1 at first; against it goes the
    parameter, or against the gradient and what the velocity adds to it next.
    """
    parameter, given, velocity = values
    mode = at.node.text("mode", "")
    if mode not in ("standard", "nesterov"):
        raise ModelError(f"requires a mode of standard or nesterov, got {mode}")
    alpha, gradient = at.node.real("alpha", 0.0), at.gradient(parameter, given)
    beta = at.after_first(at.number(at.node.real("beta", 0.0)), at.number(1))
    velocity = at.b.add(at.scaled(velocity, alpha), at.b.mul(beta, gradient))
    direction = velocity
    if mode == "nesterov":
        direction = at.b.add(gradient, at.scaled(velocity, alpha))
    return [at.b.sub(parameter, at.b.mul(rate, direction)), velocity]


def _adagrad(at: _Arithmetic, rate: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Against the gradient over the root of the sum of all squares, at a rate that decays."""
    parameter, given, squares = values
    gradient = at.gradient(parameter, given)
    squares = at.b.add(squares, at.b.mul(gradient, gradient))
    decay = at.scaled(at.updates(), at.node.real("decay_factor", 0.0))
    rate = at.b.div(rate, at.b.add(at.number(1), decay))
    root = at.b.add(at.b.sqrt(squares), at.number(at.node.real("epsilon", EPSILON)))
    return [at.b.sub(parameter, at.b.div(at.b.mul(rate, gradient), root)), squares]


def _adam(at: _Arithmetic, rate: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Against the running mean of gradients over the root of that of their squares, both corrected
    for their start.
    """
    parameter, given, mean, squares = values
    alpha, beta = at.node.real("alpha", 0.9), at.node.real("beta", 0.999)
    gradient = at.gradient(parameter, given)
    mean = at.mixed(mean, gradient, alpha)
    squares = at.mixed(squares, at.b.mul(gradient, gradient), beta)
    root = at.b.add(at.b.sqrt(squares), at.number(at.node.real("epsilon", EPSILON)))
    one, updates = at.number(1), at.updates()
    kept = [at.b.sub(one, at.b.pow(at.number(share), updates)) for share in (beta, alpha)]
    corrected = at.b.div(at.b.mul(rate, at.b.sqrt(kept[0])), kept[1])
    rate = at.after_first(corrected, rate)
    moved = at.b.sub(parameter, at.b.div(at.b.mul(rate, mean), root))
    return [at.scaled(moved, 1 - at.node.real("norm_coefficient_post", 0.0)), mean, squares]


def import_momentum(node: OnnxNode) -> Sequence[SSAValue]:
    """Gradient descent with momentum, Nesterov's or the standard one."""
    return _import_steps(node, 1, _momentum)


def import_adagrad(node: OnnxNode) -> Sequence[SSAValue]:
    """Adagrad."""
    return _import_steps(node, 1, _adagrad)


def import_adam(node: OnnxNode) -> Sequence[SSAValue]:
    """Adam."""
    return _import_steps(node, 2, _adam)


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.Adagrad": import_adagrad,
    f"{DOMAIN}.Adam": import_adam,
    f"{DOMAIN}.Momentum": import_momentum,
}
