"""ONNX RNN, GRU and LSTM: one product for the inputs of all steps, then a loop over the steps.

A cell is written once with graph operators, in the body of the loop, so that its products and its
activations are compiled as any others are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct, field
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, decode
from weft.compiler.frontend.onnx.ops.resize import choice
from weft.compiler.frontend.onnx.signature import name_hint
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr
from weft.dialects.graph import ForOp, YieldOp
from weft.dialects.graph.core.algebra import Term, joined, size_term
from weft.dialects.graph.core.broadcast import agreed_dim
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64

Activation = Callable[[Term], Term]


class _Parameters(Struct):
    """The numbers for activations that a node lists, taken one after the other."""

    node: OnnxNode
    taken: dict[str, int] = field(default_factory=dict[str, int])

    def next(self, name: str, default: float) -> float:
        """The next alpha or beta, or the activation's default where the list ends."""
        given = list(self.node.attribute(name).floats) if self.node.has(name) else []
        at = self.taken.get(name, 0)
        self.taken[name] = at + 1
        return given[at] if at < len(given) else default

    def pair(self, alpha: float, beta: float) -> tuple[float, float]:
        """The next alpha and beta."""
        return self.next("activation_alpha", alpha), self.next("activation_beta", beta)


def _scaled_tanh(x: Term, alpha: float, beta: float) -> Term:
    return (x * beta).math("tanh") * alpha


PLAIN = ("relu", "tanh", "sigmoid", "softsign", "softplus")
ALPHA = {"leakyrelu": ("leaky_relu", 0.01), "thresholdedrelu": ("thresholded_relu", 1.0)}
ALPHA["elu"] = ("elu", 1.0)


def _activation(name: str, parameters: _Parameters) -> Activation:
    """An activation by its name in ONNX, its parameters taken from the lists."""
    key = name.lower()
    if key in PLAIN:
        return lambda x: x.math(key)
    if key in ALPHA:
        op, default = ALPHA[key]
        alpha = parameters.next("activation_alpha", default)
        return lambda x: x.of(x.b.op(op, x.value, alpha=alpha).results[0])
    if key == "hardsigmoid":
        alpha, beta = parameters.pair(0.2, 0.5)
        return lambda x: x.of(x.b.hard_sigmoid(x.value, alpha=alpha, beta=beta))
    if key == "affine":
        alpha, beta = parameters.pair(1.0, 0.0)
        return lambda x: x * alpha + beta
    if key == "scaledtanh":
        alpha, beta = parameters.pair(1.0, 1.0)
        return lambda x: _scaled_tanh(x, alpha, beta)
    raise ModelError(f"requires an activation that ONNX has, got {name}")


class Weights(Protocol):
    """A matrix that multiplies the inputs, or the state, for all gates of one direction."""

    @property
    def inputs(self) -> Expr:
        """How many numbers of a row it takes."""
        ...

    def inside(self, b: GraphBuilder) -> Weights:
        """The weights whose products are inserted by another builder."""
        ...

    def product(self, rows: Term, first: Expr, count: Expr) -> Term:
        """Rows times the columns that begin with the `first`."""
        ...


class _Plain(Struct, frozen=True):
    """Weights as they are, `[gates, inputs]`."""

    matrix: Term

    @property
    def inputs(self) -> Expr:
        return self.matrix.shape[1]

    def inside(self, b: GraphBuilder) -> _Plain:
        return _Plain(Term(b, self.matrix.value))

    def product(self, rows: Term, first: Expr, count: Expr) -> Term:
        return rows.matmul(self.matrix.part(0, first, count).transpose([1, 0]))


WeightsOf = Callable[[OnnxNode, int, int], Weights]
"""The weights of a node's operand for one of its directions."""


class _Cell(Struct, frozen=True):
    """The weights of one direction, seen by a builder, and its activations."""

    node: OnnxNode
    hidden: Expr
    recurrent: Weights
    bias: Term | None
    peepholes: Term | None
    activations: Sequence[Activation]

    def inside(self, b: GraphBuilder) -> _Cell:
        """The cell whose products are inserted by another builder."""
        bias, peepholes = (
            None if x is None else Term(b, x.value) for x in (self.bias, self.peepholes)
        )
        recurrent = self.recurrent.inside(b)
        return _Cell(self.node, self.hidden, recurrent, bias, peepholes, self.activations)

    def activate(self, which: int, x: Term) -> Term:
        """An activation of a gate, which is clipped where the node asks for that.

        The memory of an LSTM is not, as in onnxruntime, though ONNX can be read otherwise.
        """
        limit = self.node.real("clip", 0.0)
        if limit > 0:
            x = x.minimum(limit).maximum(-limit)
        return self.activations[which](x)

    def gate(self, x: Term, which: int, count: int = 1) -> Term:
        """The columns of one gate, or of some that follow each other."""
        return x.part(len(x.shape) - 1, self.hidden * which, self.hidden * count)

    def product(self, h: Term, which: int, count: int) -> Term:
        """The state times the recurrent weights of some gates."""
        return self.recurrent.product(h, self.hidden * which, self.hidden * count)

    def recurrent_bias(self, which: int, count: int = 1) -> Term | float:
        """The recurrent half of the bias for some gates."""
        if self.bias is None:
            return 0.0
        gates = self.bias.shape[0] // 2
        return self.bias.part(0, gates + self.hidden * which, self.hidden * count)


Step = Callable[[_Cell, Term, list[Term]], list[Term]]
"""The next state, hidden first, from the inputs' share of the gates and the state."""


def _rnn_step(cell: _Cell, x: Term, state: list[Term]) -> list[Term]:
    (h,) = state
    return [cell.activate(0, x + cell.product(h, 0, 1) + cell.recurrent_bias(0))]


def _gru_step(cell: _Cell, x: Term, state: list[Term]) -> list[Term]:
    (h,) = state
    linear = cell.node.flag("linear_before_reset")
    shares = cell.product(h, 0, 3 if linear else 2) + cell.recurrent_bias(0, 3 if linear else 2)
    update, reset = (
        cell.activate(0, cell.gate(x, gate) + cell.gate(shares, gate)) for gate in range(2)
    )
    if linear:
        candidate = reset * cell.gate(shares, 2)
    else:
        candidate = cell.product(reset * h, 2, 1) + cell.recurrent_bias(2)
    candidate = cell.activate(1, cell.gate(x, 2) + candidate)
    return [(1 - update) * candidate + update * h]


def _lstm_step(cell: _Cell, x: Term, state: list[Term]) -> list[Term]:
    h, c = state
    gates = x + cell.product(h, 0, 4) + cell.recurrent_bias(0, 4)

    def peeped(gate: int, memory: Term) -> Term:
        share = cell.gate(gates, gate)
        return share if cell.peepholes is None else share + cell.gate(cell.peepholes, gate) * memory

    entry = cell.activate(0, peeped(0, c))
    is_coupled = cell.node.flag("input_forget")
    forget = 1 - entry if is_coupled else cell.activate(0, peeped(2, c))
    memory = forget * c + entry * cell.activate(1, cell.gate(gates, 3))
    result = cell.activate(0, peeped(1, memory))
    return [result * cell.activations[2](memory), memory]


class Cell(Struct, frozen=True):
    """How many gates, states and activations a cell has, and what they are by default."""

    gates: int
    states: int
    defaults: tuple[str, ...]
    step: Step


CELLS = {
    "RNN": Cell(1, 1, ("Tanh",), _rnn_step),
    "GRU": Cell(3, 1, ("Sigmoid", "Tanh"), _gru_step),
    "LSTM": Cell(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_step),
}


def import_recurrent(cell_type: Cell, weights_of: WeightsOf, node: OnnxNode) -> Sequence[SSAValue]:
    """All states of the hidden layer, and the last one of each state."""
    direction = choice(node, "direction", "forward", ("forward", "reverse", "bidirectional"))
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    batch_first = node.flag("layout")
    dims = [node.shape_of(position, 3) for position in range(3)]
    x = Term(node.b, _of_one_batch(node))
    x = x.transpose([1, 0, 2]) if batch_first else x
    if dims[1][0] != len(backward):
        raise ModelError(f"requires weights of {len(backward)} directions, got {node.type(1)}")
    parameters = _Parameters(node)
    names = list(cell_type.defaults) * len(backward)
    if node.has("activations"):
        names = [decode(name) for name in node.attribute("activations").strings]
    if len(names) < len(cell_type.defaults) * len(backward):
        raise ModelError(
            f"requires {len(cell_type.defaults) * len(backward)} activations, got {names}"
        )
    activations = [_activation(name, parameters) for name in names]
    rows: list[list[Term]] = []
    for at, is_backward in enumerate(backward):
        functions = activations[at * len(cell_type.defaults) : (at + 1) * len(cell_type.defaults)]
        weights = weights_of(node, 1, at), weights_of(node, 2, at)
        rows.append(_direction(node, cell_type, weights, x, at, functions, is_backward))
    columns = zip((1, 0, 0), zip(*rows, strict=True), strict=False)
    outputs = [joined(column, axis) for axis, column in columns]
    if batch_first:
        orders = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])
        outputs = [y.transpose(order) for y, order in zip(outputs, orders, strict=False)]
    return [y.value for y in outputs]


def _of_one_batch(node: OnnxNode) -> SSAValue:
    """The steps, for as many examples as the states are given for, where those say it plainer."""
    axis = 0 if node.flag("layout") else 1
    shape, given = node.shape(), [at for at in (5, 6) if node.optional(at) is not None]
    batch = agreed_dim([shape[axis], *(node.shape_of(at, 3)[axis] for at in given)])
    if batch is None:
        raise ModelError(f"requires states for {shape[axis]} examples, got {node.type(given[0])}")
    return node.assume(node.operand(0), (*shape[:axis], batch, *shape[axis + 1 :]))


def _direction(
    node: OnnxNode,
    cell_type: Cell,
    weights: tuple[Weights, Weights],
    x: Term,
    at: int,
    activations: Sequence[Activation],
    is_backward: bool,
) -> list[Term]:
    """The hidden states `[steps, 1, batch, hidden]` and the last states `[1, batch, hidden]`."""
    of_inputs, recurrent = weights
    bias, peepholes = (_optional(node, position, at) for position in (3, 7))
    hidden = recurrent.inputs
    if hidden != node.integer("hidden_size", hidden.constant or 0):
        stated = node.integer("hidden_size", 0)
        raise ModelError(f"requires weights of hidden_size {stated}, got {node.type(2)}")
    cell = _Cell(node, hidden, recurrent, bias, peepholes, activations)
    lengths = None if node.optional(4) is None else Term(node.b, node.operand(4)).cast(I64)
    steps, batch, inputs = x.shape
    ordered = _reversed(x, lengths) if is_backward else x
    gates = hidden * cell_type.gates
    shares = of_inputs.product(ordered.reshape((steps * batch, inputs)), Expr.of(0), gates)
    if bias is not None:
        shares = shares + bias.part(0, 0, gates)
    shares = shares.reshape((steps, batch, gates))
    state = [_initial(node, 5 + which, at, (batch, hidden), x) for which in range(cell_type.states)]
    *last, states = _loop(node, cell_type, cell, shares, state, lengths, at)
    states = _reversed(states, lengths) if is_backward else states
    return [states.insert(1), *(each.insert(0) for each in last)]


def _plain(node: OnnxNode, position: int, at: int) -> Weights:
    return _Plain(of_direction(node, position, at))


def of_direction(node: OnnxNode, position: int, at: int) -> Term:
    """An operand's part for one direction, of which it has one behind the other."""
    whole = Term(node.b, node.operand(position))
    return whole.part(0, at, 1).reshape(whole.shape[1:])


def _optional(node: OnnxNode, position: int, at: int) -> Term | None:
    return None if node.optional(position) is None else of_direction(node, position, at)


def _initial(node: OnnxNode, position: int, at: int, shape: Sequence[Expr], like: Term) -> Term:
    """The state before the first step, zero unless it is given."""
    if node.optional(position) is None:
        return like.number(0).expand(shape)
    given = Term(node.b, node.operand(position))
    axis = 1 if node.flag("layout") else 0
    own = given.part(axis, at, 1)
    state = own.reshape((*own.shape[:axis], *own.shape[axis + 1 :]))
    return Term(node.b, node.assume(state.value, shape))


def _reversed(x: Term, lengths: Term | None) -> Term:
    """The steps from the last to the first, those of each example among its own."""
    if lengths is None:
        return x.flip(0)
    return x.of(x.b.reverse_sequence(x.value, lengths.value, batch_axis=1, time_axis=0))


def _loop(
    node: OnnxNode,
    cell_type: Cell,
    cell: _Cell,
    shares: Term,
    state: Sequence[Term],
    lengths: Term | None,
    at: int,
) -> list[Term]:
    """The last states, and the hidden ones of all steps.

    An example that has ended keeps its state; its further outputs are zero.
    """
    block = Block(arg_types=[each.type for each in state])
    b = GraphBuilder(InsertPoint.at_end(block), node.b.ops, node.b.location)
    index = f"{name_hint(next(name for name in node.proto.output if name))}_step{at}"
    x = Term(b, shares.value).part(0, Expr.of(index), 1).reshape(shares.shape[1:])
    before = [Term(b, argument) for argument in block.args]
    after = cell_type.step(cell.inside(b), x, before)
    output = after[0]
    if lengths is not None:
        runs = (size_term(b, Expr.of(index), I64) < Term(b, lengths.value)).insert(1)
        output = runs.where(output, 0)
        after = [runs.where(new, old) for new, old in zip(after, before, strict=True)]
    block.add_op(YieldOp.create(operands=[*(each.value for each in after), output.value]))
    initial = [each.value for each in state]
    op = ForOp.of(shares.shape[0], index, initial, block, location=node.b.location)
    return [shares.of(result) for result in node.b.builder.insert(op).results]


IMPORTERS: dict[str, Importer] = {
    name: partial(import_recurrent, cell_type, _plain) for name, cell_type in CELLS.items()
}
