"""`vmap`: a function of one sample becomes a function of a batch of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from weft.array.operators import ArrayOperators, axis_of, listed, users_line
from weft.autodiff.vjp import is_traced, lifted, recording_of, region
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr
from weft.eager.tensor import Tensor
from weft.state import kept_while_traced
from weft.trees import Structure, flatten, leaves_of, unflatten

if TYPE_CHECKING:
    from weft.autodiff import captured, trapping
    from weft.dialects.graph.core import types
    from weft.tracing import traced
    from weft.tracing.traced import Recording, Traced
else:
    captured = deferred("weft.autodiff.captured")
    trapping = deferred("weft.autodiff.trapping")
    types = deferred("weft.dialects.graph.core.types")
    traced = deferred("weft.tracing.traced")

Function = Callable[..., Any]
Results = tuple[list[Any], list[bool], Structure]
"""What a function gives: tensors, which of them have the batch in front, and the tree of them."""


def vmap(
    function: Function,
    in_axes: Any = 0,
    out_axes: Any = 0,
    has_aux: bool = False,
    trap_nan: bool = False,
) -> Function:
    """A function of batches that gives what `function` gives for each sample, computed at once: its
    operators become operators on the batch.

    `in_axes` says along which axis of an argument the samples lie: one number for all, None for an
    argument that is the same for all samples, or a tuple with an entry for each, which may be a
    tree as the argument is; keyword arguments have them along axis 0. `out_axes` says the same of
    what the function gives. A condition that differs from sample to sample chooses between the
    results of both branches, and a loop goes on until all samples have ended. The function may be
    made of `grad`, `jvp` or `vmap`, and the result differentiated. With `has_aux` the function
    returns a pair, and `out_axes` is of its first part: tensors of the second have the samples
    along axis 0, and what is no tensor there is handed on. With `trap_nan` calls look at every
    value, and raise InputError that names the line which makes NaN or an infinity out of numbers.

    Raises WeftError, which names the line, for axes that are not there or of several sizes, and
    UnsupportedError for results whose sizes differ from sample to sample.
    """

    @wraps(function, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def batched(*arguments: Any, **named: Any) -> Any:
        if not has_aux:
            return _batched(function, in_axes, out_axes, arguments, named)
        aux = _Aux(function)
        value, tensors = _batched(aux.values, in_axes, (out_axes, 0), arguments, named)
        return value, aux.filled(tensors)

    return trapping.trapped(batched) if trap_nan else batched


def _batched(
    function: Function,
    in_axes: Any,
    out_axes: Any,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
) -> Any:
    """What `vmap` of the function gives for arguments."""
    leaves, structure = flatten((arguments, named))
    inputs = [leaf for _, leaf in leaves]
    axes = [*_axes(in_axes, arguments, "in_axes"), *_axes(0, named, "in_axes")]
    mapped = [position for position, axis in enumerate(axes) if axis is not None]
    batches = [_in_front(inputs[position], axes[position]) for position in mapped]
    size = _one_size(batches)

    def of_samples(*samples: Any) -> Any:
        given = list(inputs)
        for position, sample in zip(mapped, samples, strict=True):
            given[position] = sample
        entered, entered_by_name = unflatten(structure, iter(given))
        return function(*entered, **entered_by_name)

    if is_traced(inputs):
        found = _traced(recording_of(inputs), of_samples, batches, size)
    else:
        found = _at_once(of_samples, batches, size)
    results, has_axis, shape = found
    positions = unflatten(shape, iter(range(len(results))))
    moved = [
        _placed(result, has, axis, size)
        for result, has, axis in zip(
            results, has_axis, _axes(out_axes, positions, "out_axes"), strict=True
        )
    ]
    return unflatten(shape, iter(moved))


class _Aux:
    """What a function hands on beside its result, a tree of tensors and of anything else."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._leaves, self._structure = list[Any](), Structure(None)

    def values(self, *arguments: Any, **named: Any) -> Any:
        """The function's result, and the tensors of the other tree, which is kept."""
        value, aux = self._function(*arguments, **named)
        leaves, self._structure = flatten(aux)
        self._leaves = [leaf for _, leaf in leaves]
        return value, [leaf for leaf in self._leaves if isinstance(leaf, ArrayOperators)]

    def filled(self, tensors: Sequence[Any]) -> Any:
        """The tree with other tensors."""
        rest = iter(tensors)
        whole = [next(rest) if isinstance(each, ArrayOperators) else each for each in self._leaves]
        return unflatten(self._structure, whole)


def _at_once(function: Function, batches: Sequence[Any], size: Expr) -> Results:
    """The function on tensors with values, as one kernel."""
    recording = captured.Captured()
    found, has_axis, shape = _traced(recording, function, batches, size)
    return recording.computed(found), has_axis, shape


def _traced(
    recording: Recording, function: Function, batches: Sequence[Any], size: Expr
) -> Results:
    """The function's operators, on batches, in the graph in the making."""
    from weft.compiler.graph.batch.batch import batch_block

    batches = [lifted(recording, each) for each in batches]
    with region(recording) as block, kept_while_traced():
        samples: list[Traced] = []
        for batch in batches:
            sample = types.TensorType(types.ShapeAttr(batch.type.shape[1:]), batch.type.element)
            samples.append(traced.Traced(recording, block.insert_arg(sample, len(block.args))))
        leaves, shape = flatten(function(*samples))
        results = [lifted(recording, leaf) for _, leaf in leaves]

    def fresh(stem: str) -> str:
        recording.loops += 1
        return f"{stem}{recording.loops}"

    values, wanted = ([each.value for each in tensors] for tensors in (batches, results))
    found = batch_block(recording.builder(), block, values, wanted, size, fresh)
    tensors = [traced.Traced(recording, each) for each in found]
    return tensors, [x.ndim > y.ndim for x, y in zip(tensors, results, strict=True)], shape


def _axes(axes: Any, tree: Any, who: str) -> list[int | None]:
    """The axis of each leaf of a tree, from those of the tree or of parts of it."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(leaves_of(tree))
    if isinstance(axes, dict) and isinstance(tree, dict):
        given, parts = cast("dict[Any, Any]", axes), cast("dict[Any, Any]", tree)
        pairs = [(given[key], part) for key, part in parts.items() if key in given]
        fits = len(pairs) == len(parts) == len(given)
    else:
        given, parts = listed(axes), listed(tree)
        pairs = list(zip(given, parts, strict=False))
        fits = isinstance(axes, tuple | list) and len(given) == len(parts)
    if not fits:
        rule = f"{who} of vmap requires a number, None, or an entry for each part of a tree"
        raise WeftError(f"{users_line()}: {rule}, got {axes!r}")
    return [axis for pair in pairs for axis in _axes(*pair, who)]


def _in_front(leaf: Any, axis: int | None) -> Any:
    """A tensor whose samples lie along its first axis."""
    tensor = leaf if isinstance(leaf, ArrayOperators) else Tensor(leaf)
    return _moved(tensor, axis_of(axis, tensor.ndim), 0)


def _placed(result: Any, has_axis: bool, axis: int | None, size: Expr) -> Any:
    """A result whose samples lie along the wanted axis."""
    if axis is None:
        if has_axis:
            rule = "out_axes None requires a result that is the same for all samples"
            raise WeftError(f"{users_line()}: vmap with {rule}, got one that differs")
        return result
    if not has_axis:
        count = size if size.constant is None else size.constant
        result = result.broadcast_to((count, *result.shape))
    return _moved(result, 0, axis_of(axis, result.ndim))


def _moved(tensor: Any, source: int, target: int) -> Any:
    """The tensor with an axis at another place."""
    if source == target:
        return tensor
    order = [axis for axis in range(tensor.ndim) if axis != source]
    order.insert(target, source)
    return tensor.transpose(*order)


def _one_size(batches: Sequence[Any]) -> Expr:
    sizes = list(dict.fromkeys(Expr.of(each.shape[0]) for each in batches))
    if len(sizes) != 1:
        got = " and ".join(map(str, sizes)) or "none"
        raise WeftError(f"{users_line()}: vmap requires batches of one size, got {got}")
    return sizes[0]
