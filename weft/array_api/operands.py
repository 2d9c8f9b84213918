"""How arguments of NumPy's functions become tensors, and results reach `out`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weft.array.composites import leader
from weft.array.operators import ArrayOperators, is_number, listed, users_line
from weft.array.rearrangements import holds_tensors, stack
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.eager.tensor import tensor_of
from weft.trees import tree_map

if TYPE_CHECKING:
    from weft.autodiff import batching
else:
    batching = deferred("weft.autodiff.batching")

_numpy: Any = np  # whose overloads ask for more than arrays


def operand(value: Any, *others: Any) -> Any:
    """An argument as a tensor: itself, a list with tensors in it stacked, anything else as one of
    the kind of the tensors beside it.
    """
    if isinstance(value, ArrayOperators):
        return value
    if holds_tensors(value):
        first = leader(*leaves(value))
        return stack([_part(each, first, value) for each in value])
    first = leader(*others)
    return _numpy.asarray(value) if first is None else first.lifted(value)


def _part(value: Any, first: Any, others: Sequence[Any]) -> Any:
    """An element of a list with tensors in it, as a tensor of their kind; numbers of Python have
    the dtype that NumPy's arrays of them have.
    """
    if not isinstance(value, ArrayOperators) and holds_tensors(value):
        return operand(value, *others)
    return first.constant(np.asarray(value)) if is_number(value) else first.lifted(value)


def array_operand(value: Any, *others: Any) -> Any:
    """An argument as a tensor, of which a number is an array, with the dtype that NumPy gives it,
    and takes none from the tensors beside it.
    """
    return operand(np.asarray(value) if is_number(value) else value, *others)


def as_double(x: Any) -> Any:
    """The elements in the precision of float64, in which NumPy computes where it says so."""
    return x.astype(np.result_type(x.dtype, np.float64), copy=False)


def operands(values: Any, *others: Any) -> list[Any]:
    """The arrays of a list, or the slices of a tensor, as tensors."""
    if isinstance(values, ArrayOperators):
        return [values[position] for position in range(len(cast("Any", values)))]
    return [operand(each, *leaves(values), *others) for each in values]


def leaves(values: Any) -> list[Any]:
    """What nested lists and tuples hold."""
    if not isinstance(values, list | tuple):
        return [values]
    return [leaf for each in cast("Sequence[Any]", values) for leaf in leaves(each)]


def given_tensors(arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a tensor is among the arguments of a call, or in a list there."""
    return any(map(holds_tensors, arguments)) or (
        bool(named) and any(map(holds_tensors, named.values()))
    )


def of_no_elements(own: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What NumPy's function gives for tensors that all have no elements, which depends on their
    sizes alone; None where one has elements, or may have, and for parameters that NumPy lacks.
    """
    tensors = [
        each for each in leaves([*arguments, *named.values()]) if isinstance(each, ArrayOperators)
    ]
    if not all(0 in each.shape and all(map(is_integer, each.shape)) for each in tensors):
        return None
    try:
        taken = inspect.signature(own).parameters
    except ValueError:  # NumPy's own in C that has none
        taken = named
    if not taken.keys() >= named.keys():
        return None

    def array_of(leaf: Any) -> Any:
        is_tensor = isinstance(leaf, ArrayOperators)
        return np.zeros([int(each) for each in leaf.shape], leaf.dtype) if is_tensor else leaf

    def tensor(leaf: Any) -> Any:
        of_numpy = isinstance(leaf, np.ndarray | np.generic)
        return tensors[0].constant(_numpy.asarray(leaf)) if of_numpy else leaf

    given, by_name = tree_map(array_of, list(arguments)), tree_map(array_of, dict(named))
    return tree_map(tensor, own(*given, **by_name))


def refuse(rule: str, got: Any, way: str = "") -> WeftError:
    """The error of a call that breaks a rule, with the user's line."""
    return WeftError(f"{users_line()}: {rule}, got {got}{f' ({way})' if way else ''}")


def is_integer(value: Any) -> bool:
    """Whether it is an integer of Python's or NumPy's."""
    return isinstance(value, int | np.integer)


def known(size: Any, who: str) -> int:
    """A size that a definition needs as a number. Raises WeftError for one that a call names."""
    if is_integer(size):
        return int(size)
    raise refuse(f"{who} requires sizes that are known", size)


def size_of(x: Any, axis: int) -> Any:
    """The size of an axis, as a tensor where a call names it."""
    size = x.shape[axis]
    return size if is_integer(size) else x.real.recording.dims(size)


def constant(value: Any, who: str) -> np.ndarray[Any, Any]:
    """Elements that a definition needs while it runs. Raises WeftError where a call has them."""
    if isinstance(value, ArrayOperators) and not value.has_values:
        raise refuse(f"{who} requires values that are known", "a tensor that is being traced")
    return np.asarray(value)


def its_own(found: Any, arguments: Sequence[Any]) -> Any:
    """A result that is no argument: another array of the same elements where it is one."""
    same = isinstance(found, ArrayOperators) and any(found is each for each in arguments)
    return found.duplicate() if same else found


def stored(out: Any, found: Any, who: str) -> Any:
    """A result in the array that the call names for it, which it gives back: of its shape, and of a
    dtype that the result's is converted to as NumPy allows it.
    """
    targets, results = listed(out), listed(found)
    for target, result in zip(targets, results, strict=True):
        if tuple(target.shape) != tuple(result.shape):
            raise refuse(f"{who} requires out of shape {list(result.shape)}", list(target.shape))
        if not np.can_cast(result.dtype, target.dtype, "same_kind"):
            raise refuse(f"{who} requires out that {result.dtype} converts to", target.dtype)
        target[...] = result
    return targets[0] if len(targets) == 1 else out


def as_tensors(found: Any, arguments: Sequence[Any]) -> Any:
    """What NumPy's own function gave for lists and numbers, as tensors; for arrays, arrays."""
    if any(isinstance(leaf, np.ndarray) for each in arguments for leaf in leaves(each)):
        return found
    if isinstance(found, tuple | list):
        several: Any = cast("Any", found)
        return type(several)(as_tensors(each, ()) for each in several)
    if not isinstance(found, np.ndarray):
        return found
    array = cast("np.ndarray[Any, Any]", found)
    return tensor_of(array) if array.ndim and array.dtype.kind in "biufc" else array


def of_stacks(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a matrix, on arrays with more axes in front too: of all matrices at once.
    Other arguments with axes have an element for each matrix.
    """

    @wraps(function)
    def called(a: Any, *others: Any, **named: Any) -> Any:
        a = operand(a, *others)
        if a.ndim < 3:
            return function(a, *others, **named)
        heads = tuple(a.shape[:-2])
        given: dict[Any, Any] = {**dict(enumerate(others)), **named}
        mapped = {
            key: operand(each, a).broadcast_to(heads).reshape(-1)
            for key, each in given.items() if getattr(each, "ndim", 0)
        }  # fmt: skip

        def of_one(matrix: Any, parts: dict[Any, Any]) -> Any:
            own = given | parts
            ordered = (own[position] for position in range(len(others)))
            return function(matrix, *ordered, **{name: own[name] for name in named})

        found = batching.vmap(of_one)(a.reshape((-1, *a.shape[-2:])), mapped)
        return tree_map(lambda each: each.reshape((*heads, *each.shape[1:])), found)

    return called
