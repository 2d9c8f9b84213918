"""Calls of compiled functions whose signature is known: what selects the compilation is one look
into a dictionary, and what the program read of its surroundings is compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.source.trees import flatten, unflatten
from weft.tensor import Tensor

if TYPE_CHECKING:
    from weft.jitted import Compilation

MOST_KNOWN: Final = 1000
"""Signatures that are remembered; sizes that vary from call to call have one each."""

UNKNOWN: Final = object()
"""Stands for the result of a call that has to be looked at."""

Arrays = Callable[[Sequence[Any]], Sequence[Any]]
"""From arguments to the arrays among them."""

_ARRAYS: Final[tuple[type, ...]] = (np.ndarray, np.generic)
_PLAIN: Final = frozenset({int, bool, str, type(None), bytes})


def signature_of(arguments: Sequence[Any]) -> tuple[object, ...] | None:
    """What tells calls apart whose arguments are arrays, tensors and plain values; None for others.

    Arguments of one signature select one compilation.
    """
    parts: list[object] = []
    for each in arguments:
        kind = each.__class__
        if kind is np.ndarray:
            parts.append((each.dtype, each.shape))
        elif kind is Tensor:
            array = each.array
            parts.append((Tensor, array.dtype, array.shape))
        elif kind in _PLAIN:
            parts.append((kind, each))
        elif kind is float:
            parts.append((kind, each.hex()))  # 0.0 and -0.0 are two
        elif isinstance(each, np.generic):
            parts.append(kind)
        else:
            return None
    return tuple(parts)


@dataclass(frozen=True)
class KnownCall:
    """A compilation and how arguments of one signature become its inputs."""

    compilation: Compilation
    arrays: Arrays
    result: Callable[[Sequence[Any]], Any]

    @staticmethod
    def of(compilation: Compilation, arguments: Sequence[Any]) -> KnownCall:
        """The call of a compilation with arguments like these."""
        kinds: list[type] = [type(each) for each in arguments]
        places = [n for n, each in enumerate(arguments) if is_value(each)]
        arrays = _taking(places, [kinds[n] for n in places], len(arguments))
        rebuilt = compilation.program.rebuilder()
        if Tensor not in kinds:
            return KnownCall(compilation, arrays, rebuilt)
        return KnownCall(compilation, arrays, lambda outputs: as_tensors(rebuilt(outputs)))

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The result, or UNKNOWN where something of the surroundings is another object."""
        compilation = self.compilation
        for guard in compilation.program.guards:
            try:
                if guard.read() is not guard.value and guard.broken() is not None:
                    return UNKNOWN
            except (AttributeError, KeyError, ValueError):
                return UNKNOWN
        given = self.arrays(arguments)
        if compilation.program.captured:
            captured = [each.fetch() for each in compilation.program.captured]
            if any(each is None for each in captured):
                return UNKNOWN
            given = [*given, *captured]
        return self.result(compilation.executable(*given))


def _taking(places: Sequence[int], kinds: Sequence[type], count: int) -> Arrays:
    """What takes the arrays of the arguments at these places, which are of these kinds."""
    if all(kind is np.ndarray for kind in kinds):
        if len(places) == count:
            return lambda given: given
        if len(places) > 1:
            return itemgetter(*places)

    def tensors(given: Sequence[Any]) -> Sequence[Any]:
        return [given[n].array for n in places]

    def mixed(given: Sequence[Any]) -> Sequence[Any]:
        return [np.asarray(given[n]) for n in places]

    return tensors if all(kind is Tensor for kind in kinds) else mixed


def is_value(leaf: object) -> bool:
    """Whether it is a tensor with values."""
    return isinstance(leaf, (*_ARRAYS, Tensor))


def as_tensors(found: Any) -> Any:
    """Results for a caller whose arguments are weft's tensors."""
    leaves, form = flatten(found)
    return unflatten(form, [_as_tensor(leaf) for leaf in leaves])


def _as_tensor(leaf: Any) -> Any:
    return Tensor.of(np.asarray(leaf)) if _is_array(leaf) else leaf


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, _ARRAYS)
