"""`grad` and its kin: functions made of functions, which compute at once on tensors with values and
are part of the graph on tensors that are being traced. Each may be applied to what another gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.array.operators import ArrayOperators, users_line
from weft.array.rearrangements import stack
from weft.autodiff.vjp import Pull, filled, forget_records, is_traced, pull_back, region
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr
from weft.tracing.recognize import is_traced_tensor
from weft.trees import flatten, leaves_of, unflatten

if TYPE_CHECKING:
    from weft.autodiff import trapping
    from weft.dialects import graph
    from weft.dialects.graph.core import types
    from weft.tracing import traced
    from weft.tracing.traced import Traced
else:
    trapping = deferred("weft.autodiff.trapping")
    graph = deferred("weft.dialects.graph")
    types = deferred("weft.dialects.graph.core.types")
    traced = deferred("weft.tracing.traced")

Function = Callable[..., Any]
Positions = int | Sequence[int]


def value_and_grad(
    function: Function, argnums: Positions = 0, has_aux: bool = False, trap_nan: bool = False
) -> Function:
    """A function that gives the value of `function`, one float, and its gradient in an argument, or
    a tuple of gradients for several. An argument may be a tree of tensors; so is its gradient.

    With `has_aux` the function returns a pair of that float and of anything else, which is handed
    on. On tensors with values, or arrays, it computes at once; while a function is traced it
    becomes a part of the graph. Either may be differentiated again. Raises WeftError that names the
    line for a value that is no float and for arguments of integers, UnsupportedError that lists
    operators without a derivative. With `trap_nan` calls look at every value, of the derivative
    too, and raise InputError that names the line which makes NaN or an infinity out of numbers.
    """

    def differentiated(*arguments: Any) -> tuple[Any, Any]:
        returned, pull, rebuild = _pulled(function, argnums, arguments)
        value = returned[0] if has_aux else returned
        if not isinstance(value, ArrayOperators) or not _is_one_float(value):
            raise WeftError(f"{users_line()}: a gradient requires one float, got {value!r}")
        gradients = rebuild(pull([value], [filled(1.0, value)]))
        forget_records(returned)
        return returned, gradients

    return trapping.trapped(differentiated) if trap_nan else differentiated


def _is_one_float(value: ArrayOperators) -> bool:
    size = value.size
    return (size == 1 or (isinstance(size, Expr) and size.constant == 1)) and (
        value.dtype.kind not in "biuc"
    )


def grad(
    function: Function, argnums: Positions = 0, has_aux: bool = False, trap_nan: bool = False
) -> Function:
    """A function that gives the gradient alone, with `has_aux` and what else `function` gives; see
    value_and_grad.
    """
    both = value_and_grad(function, argnums, has_aux)

    def differentiated(*arguments: Any) -> Any:
        returned, gradient = both(*arguments)
        return (gradient, returned[1]) if has_aux else gradient

    return trapping.trapped(differentiated) if trap_nan else differentiated


def vjp(function: Function, *arguments: Any, has_aux: bool = False, trap_nan: bool = False) -> Any:
    """What a function returns for arguments, and a function from cotangents of that (a tree of its
    structure) to a tuple of the cotangents of the arguments. With `has_aux` the function returns a
    pair of that and of anything else, which comes third. `trap_nan` as for value_and_grad.
    """
    if trap_nan:
        return _trapped_vjp(function, arguments, has_aux)
    returned, pull, rebuild = _pulled(function, range(len(arguments)), arguments)
    value = returned[0] if has_aux else returned
    leaves, structure = flatten(value)
    results = [leaf for _, leaf in leaves]

    def back(cotangents: Any) -> Any:
        given, shape = flatten(cotangents)
        if shape != structure:
            rule = "cotangents require the structure of what the function gave"
            raise WeftError(f"{users_line()}: {rule}, got another one")
        seeds = [_like(leaf, result) for (_, leaf), result in zip(given, results, strict=True)]
        return rebuild(pull(results, seeds))

    return (value, back, returned[1]) if has_aux else (value, back)


def _trapped_vjp(function: Function, arguments: Sequence[Any], has_aux: bool) -> Any:
    """`vjp` whose values are looked at, and those of what it gives."""

    def values(*arguments: Any) -> Any:
        return vjp(function, *arguments, has_aux=has_aux)[::2]

    def pulled(cotangents: Any, *arguments: Any) -> Any:
        return vjp(function, *arguments, has_aux=has_aux)[1](cotangents)

    def back(cotangents: Any) -> Any:
        return trapping.trapped(pulled)(cotangents, *arguments)

    value, *aux = trapping.trapped(values)(*arguments)
    return value, back, *aux


def jvp(
    function: Function,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
    trap_nan: bool = False,
) -> Any:
    """What a function returns for arguments, and how that changes along directions of these. With
    `has_aux` the function returns a pair of that and of anything else, which comes third;
    `trap_nan` as for value_and_grad.

    It is the derivative of the function's vector-Jacobian product, which is linear in the vector.
    """
    if trap_nan:

        def pushed(primals: Any, tangents: Any) -> Any:
            return jvp(function, primals, tangents, has_aux)

        return trapping.trapped(pushed)(tuple(primals), tuple(tangents))
    returned, pull, _ = _pulled(function, range(len(primals)), primals)
    value = returned[0] if has_aux else returned
    leaves, structure = flatten(value)
    results = [leaf for _, leaf in leaves]
    starts, directions = leaves_of(tuple(primals)), leaves_of(tuple(tangents))
    if len(starts) != len(directions):
        rule = f"jvp requires a direction for each of {len(starts)} tensors"
        raise WeftError(f"{users_line()}: {rule}, got {len(directions)}")
    nothing = [filled(0.0, result) for result in results]
    slopes, push = pull_back(lambda *seeds: pull(results, seeds), nothing)
    seeds = [_like(each, slope) for each, slope in zip(directions, slopes, strict=True)]
    change = unflatten(structure, iter(push(slopes, seeds)))
    return (value, change, returned[1]) if has_aux else (value, change)


def jacobian(
    function: Function, argnums: Positions = 0, has_aux: bool = False, trap_nan: bool = False
) -> Function:
    """A function that gives the derivatives of each element of one tensor that `function` gives, in
    each element of an argument: dims of the result, then those of the argument. Arguments that are
    trees, and several, give trees and tuples. With `has_aux` the function returns a pair of that
    tensor and of anything else, and so does the result. `trap_nan` as for value_and_grad.
    """

    def differentiated(*arguments: Any) -> Any:
        returned, pull, rebuild = _pulled(function, argnums, arguments)
        value = returned[0] if has_aux else returned
        if not isinstance(value, ArrayOperators):
            raise WeftError(f"{users_line()}: a jacobian requires one tensor, got {value!r}")
        found = rebuild(
            _traced_rows(value, pull) if is_traced_tensor(value) else _rows(value, pull)
        )
        forget_records(returned)
        return (found, returned[1]) if has_aux else found

    return trapping.trapped(differentiated) if trap_nan else differentiated


def hessian(
    function: Function, argnums: int = 0, has_aux: bool = False, trap_nan: bool = False
) -> Function:
    """A function that gives the second derivatives of a float in an argument that is one tensor;
    with `has_aux`, and what else `function` gives; `trap_nan` as for value_and_grad.
    """
    return jacobian(grad(function, argnums, has_aux), argnums, has_aux, trap_nan)


def _pulled(
    function: Function, argnums: Positions, arguments: Sequence[Any]
) -> tuple[Any, Pull, Function]:
    """What the function returns, what pulls cotangents back to the chosen arguments' leaves, and
    what makes trees of these again.
    """
    several = not isinstance(argnums, int)
    positions = tuple(argnums) if not isinstance(argnums, int) else (argnums,)
    wrong = [each for each in positions if not -len(arguments) <= each < len(arguments)]
    if wrong:
        rule = f"argnums requires positions of {len(arguments)} arguments"
        raise WeftError(f"{users_line()}: {rule}, got {wrong[0]}")
    leaves, structure = flatten(tuple(arguments[position] for position in positions))

    def of_leaves(*leaves: Any) -> Any:
        given = list(arguments)
        for position, tree in zip(positions, unflatten(structure, iter(leaves)), strict=True):
            given[position] = tree
        return function(*given)

    def rebuild(found: Sequence[Any]) -> Any:
        trees = unflatten(structure, iter(found))
        return trees if several else trees[0]

    chosen = [leaf for _, leaf in leaves]
    others = leaves_of(tuple(arguments))
    if is_traced(others) and not is_traced(chosen):
        first = next(each for each in others if is_traced_tensor(each))
        chosen = [first.lifted(each) for each in chosen]
    returned, pull = pull_back(of_leaves, chosen)
    return returned, pull, rebuild


def _like(leaf: Any, like: Any) -> Any:
    """A cotangent or a direction for a tensor, whose dims and dtype it must have."""
    given = leaf if type(leaf) is type(like) else like.lifted(leaf)
    if tuple(given.shape) != tuple(like.shape):
        rule = f"a cotangent requires the shape {like.shape} of its tensor"
        raise WeftError(f"{users_line()}: {rule}, got {given.shape}")
    return given.astype(like.dtype)


def _rows(result: Any, pull: Pull) -> list[Any]:
    """A jacobian's rows, one after the other."""
    units = filled(0.0, result)
    rows: list[list[Any]] = []
    for position in range(result.size):
        unit = units.numpy().copy().reshape(-1)
        unit[position] = 1
        rows.append(pull([result], [units.constant(unit.reshape(result.shape))]))
    return [
        stack(list(column)).reshape((*result.shape, *column[0].shape))
        for column in zip(*rows, strict=True)
    ]


def _traced_rows(result: Traced, pull: Pull) -> list[Traced]:
    """A jacobian's rows, as the rounds of a loop."""
    from weft.compiler.graph.differentiate.cotangents import fresh_size

    recording, tensor_type = result.recording, result.type
    index = fresh_size(recording.block, "row")
    with region(recording) as body:
        b = recording.builder()
        one = b.reshape(
            b.constant_of(1.0, tensor_type.element), shape=types.ShapeAttr((Expr.of(1),))
        )
        shape, starts = types.ShapeAttr((tensor_type.size,)), types.ShapeAttr((Expr.of(index),))
        unit = b.scatter_slice(one, shape=shape, starts=starts, steps=[1])
        unit = b.reshape(unit, shape=tensor_type.dims)
        found = pull([result], [traced.Traced(recording, unit)])
        body.add_op(graph.YieldOp.create(operands=[each.value for each in found]))
    b = recording.builder()
    loop = b.builder.insert(graph.ForOp.of(tensor_type.size, index, [], body, location=b.location))
    return [
        traced.Traced(recording, rows).reshape(*result.shape, *each.shape)
        for rows, each in zip(loop.results, found, strict=True)
    ]
