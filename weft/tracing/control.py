"""Control flow as functions, for those who prefer them to statements: on tensors with values Python
runs it, on tensors that are being traced it becomes branches and loops of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.array.operators import users_line
from weft.array.rearrangements import stack
from weft.autodiff.vjp import is_traced, lifted, recording_of, region
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr
from weft.tracing.recognize import is_traced_tensor
from weft.tracing.spec import Spec
from weft.trees import Structure, flatten, leaves_of, tree_map, unflatten

if TYPE_CHECKING:
    from xdsl.ir import Block

    from weft.dialects import graph
    from weft.dialects.graph.core.types import TensorType
    from weft.dialects.graph.regions.control import ControlOp
    from weft.tracing import traced
    from weft.tracing.traced import Recording, Traced
else:
    graph = deferred("weft.dialects.graph")
    traced = deferred("weft.tracing.traced")

Function = Callable[..., Any]


def cond(predicate: Any, then: Function, otherwise: Function, *operands: Any) -> Any:
    """What `then` gives for the operands where the predicate, one bool, holds, else what
    `otherwise` gives; both give trees of the same structure, shapes and dtypes.
    """
    if not is_traced_tensor(predicate):
        return then(*operands) if predicate else otherwise(*operands)
    blocks, structure = _branches(predicate.recording, (then, otherwise), operands)
    held, (first, second) = predicate.astype(bool).value, blocks
    op = graph.IfOp.of(held, first, second, location=_line(predicate.recording))
    return _results(predicate.recording, op, structure)


def switch(number: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """What the way of that number gives for the operands; the last one is also that of all numbers
    that no way has.
    """
    if not is_traced_tensor(number):
        last = len(branches) - 1
        position = int(number)
        return branches[position if 0 <= position < last else last](*operands)
    blocks, structure = _branches(number.recording, branches, operands)
    op = graph.CaseOp.of(number.value, blocks, location=_line(number.recording))
    return _results(number.recording, op, structure)


def while_loop(
    condition: Function,
    body: Function,
    initial: Any,
    maximum_iterations: int | None = None,
    shape_invariants: Any = None,
) -> Any:
    """The state, a tree, after as many iterations of `body` as `condition` holds of it, but at most
    so many.

    A tensor of the state has one shape in all iterations of a compiled loop, unless
    `shape_invariants`, a tree like the state of `weft.Spec`, names a size: that one varies. Raises
    WeftError, which names the line, for a state of another structure, shape or dtype.
    """
    if maximum_iterations is not None:
        most, specs = maximum_iterations, shape_invariants
        counted = None if specs is None else (Spec("int64"), specs)
        ends, goes_on = _counted(most, condition, body)
        return while_loop(ends, goes_on, (0, initial), None, counted)[1]
    state = initial
    while not is_traced_tensor(holds := condition(state)):
        if not holds:
            return state
        state = body(state)
    recording = holds.recording
    leaves, structure = _carried(recording, state)
    inner, varying = _invariants(recording, leaves, structure, shape_invariants)
    with region(recording) as test:
        tree = _arguments(recording, test, inner, structure)
        held = lifted(recording, condition(tree)).astype(bool)
        test.add_op(graph.ConditionOp.create(operands=[held.value]))
    with region(recording) as step:
        tree = _arguments(recording, step, inner, structure)
        _end(recording, step, body(tree), inner, structure, varying=varying)
    index, count = _names(recording)
    op = graph.WhileOp.of(index, count, [each.value for each in leaves], test, step, varying,
                    location=_line(recording))  # fmt: skip
    return _results(recording, op, structure)


def _counted(most: int, condition: Function, body: Function) -> tuple[Function, Function]:
    """A condition and a body of the number of the iteration and a state."""

    def goes_on(counted: Any) -> Any:
        number, state = counted
        below = number < most
        return below & condition(state) if is_traced_tensor(below) else below and condition(state)

    def step(counted: Any) -> Any:
        return counted[0] + 1, body(counted[1])

    return goes_on, step


def fori_loop(lower: Any, upper: Any, body: Function, initial: Any) -> Any:
    """The state, a tree, after `state = body(i, state)` for every `i` from `lower` up to but not
    including `upper`.
    """

    def round_(counted: Any) -> Any:
        return counted[0] + 1, body(*counted)

    def goes_on(counted: Any) -> Any:
        return counted[0] < upper

    def rolled(counted: Any, _: Any) -> Any:
        return round_(counted), None

    if is_traced([lower, upper]):
        return while_loop(goes_on, round_, (lower, initial))[1]
    start, count = int(lower), int(upper) - int(lower)
    if is_traced(leaves_of(initial)):
        (_, state), _ = _rolled(rolled, (start, initial), None, Expr.of(count))
        return state
    state = initial
    for number in range(start, start + count):
        state = body(number, state)
    return state


def scan(body: Function, initial: Any, rows: Any = None, length: int | None = None) -> Any:
    """The state, a tree, after `state, y = body(state, row)` for every row of a tree of tensors,
    and the `y`s, trees as well, stacked along a new first axis. Without rows there are `length`
    rounds.
    """
    tensors = leaves_of(rows)
    extent = tensors[0].shape[0] if tensors else length
    if extent is None:
        raise WeftError(f"{users_line()}: scan requires rows or a length, got neither")
    if is_traced([*leaves_of(initial), *tensors]):
        return _rolled(body, initial, rows, Expr.of(extent))
    state, found = initial, list[Any]()
    for number in range(int(extent)):
        state, y = body(state, tree_map(lambda each, number=number: each[number], rows))
        found.append(y)
    if not found:
        raise WeftError(f"{users_line()}: scan requires a round, got none")
    columns = [leaves_of(each) for each in found]
    stacks = [stack(column) for column in zip(*columns, strict=True)]
    return state, unflatten(flatten(found[0])[1], iter(stacks))


def _rolled(body: Function, initial: Any, rows: Any, count: Expr) -> tuple[Any, Any]:
    """`scan` as a loop of the graph."""
    recording = recording_of([*leaves_of(initial), *leaves_of(rows)])
    leaves, structure = _carried(recording, initial)
    index, _ = _names(recording)
    with region(recording) as step:
        tree = _arguments(recording, step, [each.type for each in leaves], structure)
        row = tree_map(lambda each: _row(lifted(recording, each), index), rows)
        state, y = body(tree, row)
        stacked, shape = flatten(y)
        values = [lifted(recording, each) for _, each in stacked]
        _end(recording, step, state, [each.type for each in leaves], structure, values)
    carried = [each.value for each in leaves]
    op = graph.ForOp.of(count, index, carried, step, location=_line(recording))
    recording.builder().builder.insert(op)
    results = iter([traced.Traced(recording, each) for each in op.results])
    return unflatten(structure, results), unflatten(shape, results)


def _row(x: Traced, index: str) -> Traced:
    """The row of the round's number."""
    rest = x.type.shape[1:]
    starts = (Expr.of(index), *(Expr.of(0) for _ in rest))
    sizes = (Expr.of(1), *rest)
    row = x.op("slice", x, sizes=sizes, starts=starts, steps=[1] * x.ndim)
    return row.reshape(rest)


def _carried(recording: Recording, state: Any) -> tuple[list[Traced], Structure]:
    leaves, structure = flatten(state)
    return [lifted(recording, leaf) for _, leaf in leaves], structure


def _invariants(
    recording: Recording, leaves: Sequence[Traced], structure: Structure, specs: Any
) -> tuple[list[TensorType], list[str]]:
    """The types of the state in all iterations, and the sizes that vary."""
    before = [each.type for each in leaves]
    if specs is None:
        return before, []
    found, shape = flatten(specs)
    if shape != structure or not all(isinstance(each, Spec) for _, each in found):
        rule = "shape_invariants requires a tree of weft.Spec like the state"
        raise WeftError(f"{users_line()}: {rule}, got {specs!r}")
    recording.loops += 1
    names: dict[str, str] = {}
    types: list[TensorType] = []
    for (_, spec), first in zip(found, before, strict=True):
        named = [each for each in spec.shape if isinstance(each, str)]
        names |= {each: f"{each}_of_loop{recording.loops}" for each in named}
        dims = (names[each] if isinstance(each, str) else each for each in spec.shape)
        types.append(Spec(spec.dtype, tuple(dims)).type)
        if not _fits(types[-1], first, [*names.values()]):
            rule = "shape_invariants requires sizes that the state has in front of the loop"
            raise WeftError(f"{users_line()}: {rule}, got {first} for {spec}")
    return types, [*names.values()]


def _fits(invariant: TensorType, given: TensorType, varying: Sequence[str]) -> bool:
    """Whether a tensor has the dims that do not vary."""
    if invariant.element != given.element or len(invariant.shape) != len(given.shape):
        return False
    pairs = zip(invariant.shape, given.shape, strict=True)
    return all(wanted == dim or str(wanted) in varying for wanted, dim in pairs)


def _arguments(
    recording: Recording, block: Block, types: Sequence[TensorType], structure: Structure
) -> Any:
    """The state as a round sees it."""
    found = [traced.Traced(recording, block.insert_arg(each, len(block.args))) for each in types]
    return unflatten(structure, iter(found))


def _end(
    recording: Recording,
    block: Block,
    state: Any,
    types: Sequence[TensorType],
    structure: Structure,
    stacked: Sequence[Traced] = (),
    varying: Sequence[str] = (),
) -> None:
    """Hands on the state, which has the types of the one before, and what is stacked."""
    found, shape = flatten(state)
    if shape != structure:
        raise WeftError(f"{users_line()}: a loop requires a state of one structure, got two")
    values: list[Traced] = []
    for (name, leaf), before in zip(found, types, strict=True):
        value = lifted(recording, leaf)
        if not _fits(before, value.type, varying):
            rule = f"a loop requires a state of one type{f' for {name}' if name else ''}"
            raise WeftError(f"{users_line()}: {rule}, got {before} and {value.type}")
        values.append(value)
    block.add_op(graph.YieldOp.create(operands=[each.value for each in (*values, *stacked)]))


def _branches(
    recording: Recording, branches: Sequence[Function], operands: Sequence[Any]
) -> tuple[list[Block], Structure]:
    """A region for each way, and the structure of what they give."""
    blocks: list[Block] = []
    branch_types: list[Any] = []
    structures: list[Structure] = []
    for branch in branches:
        with region(recording) as block:
            leaves, structure = flatten(branch(*operands))
            values = [lifted(recording, leaf) for _, leaf in leaves]
            block.add_op(graph.YieldOp.create(operands=[each.value for each in values]))
        blocks.append(block)
        structures.append(structure)
        branch_types.append([each.type for each in values])
        if structures[0] != structure or branch_types[0] != branch_types[-1]:
            got = " and ".join(
                ", ".join(map(str, each)) for each in (branch_types[0], branch_types[-1])
            )
            rule = "branches require results of one structure and type"
            raise WeftError(f"{users_line()}: {rule}, got {got}")
    return blocks, structures[0]


def _results(recording: Recording, op: ControlOp, structure: Structure) -> Any:
    inserted = recording.builder().builder.insert(op)
    return unflatten(structure, iter([traced.Traced(recording, each) for each in inserted.results]))


def _line(recording: Recording) -> Any:
    return recording.builder().location


def _names(recording: Recording) -> tuple[str, str]:
    """Sizes that no other loop of the graph names: the round's number, and how many there were."""
    recording.loops += 1
    return f"round{recording.loops}", f"rounds{recording.loops}"
