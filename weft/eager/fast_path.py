"""The fast path of operators on tensors with values: from the abstract values of the operands to
the kernel by one look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.array.bools import name_on
from weft.array.complex_numbers import Complex
from weft.array.composites import leader
from weft.array.operators import ArrayOperators, Axes, axes_of
from weft.eager.abstract_values import AbstractValue, number
from weft.eager.kernels import kernel_of
from weft.eager.tape import DEPTH, Node, by_graph, computed
from weft.eager.templates import Composite, Operator, composite_of, frozen, operator_of

if TYPE_CHECKING:
    from weft.eager.tensor import Tensor

BINARY: Final[Mapping[str, str]] = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "matmul": "matmul", "pow": "pow",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
}  # fmt: skip
"""Methods of Python, without underscores, and the graph operators that they are."""


COMPOSED: Final = ("mod", "floordiv", "ne", "and", "or", "xor", "lshift", "rshift")
"""Methods that are more than one operator, or one that the dtype chooses."""

REVERSED: Final = ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv")


Entry = tuple[Callable[..., Any], AbstractValue, Operator | Composite]
"""What is called with the arrays, the abstract value of its one result, and what it computes."""


def _entry(operator: Operator | Composite, *operands: Tensor) -> Entry:
    kernel = kernel_of(operator, [each._abstract for each in operands])
    return kernel.call, kernel.abstract_values_of([each._array for each in operands])[0], operator


def _noted(
    operator: Operator | Composite, operands: tuple[Tensor, ...], arrays: Any
) -> Node | None:
    """The node of an operator, where a derivative is being taken in an operand."""
    if DEPTH.count and any(each._node is not None for each in operands):
        return Node(by_graph, operands, arrays, operator)
    return None


def _binary(
    tensor: type[Tensor],
    name: str | None,
    slow: Callable[[Any, Any], Any],
    composed: Composite | None,
    divides: bool = False,
) -> Any:
    """An operator on two tensors, or on one and a number of Python's: the graph operator of that
    name where they have one dtype, else what `composed` composes.
    """
    entries: dict[tuple[AbstractValue, AbstractValue], Entry] = {}
    new = object.__new__

    def operator(self: Tensor, other: Any) -> Any:
        if type(other) is not tensor:
            if type(other) not in self._abstract.numbers or (
                divides and not self._abstract.is_float
            ):
                return slow(self, other)
            other = number(tensor, self._abstract, other)
        entry = entries.get((self._abstract, other._abstract))
        if entry is None:
            plain = self._abstract.dtype == other._abstract.dtype and (
                self._abstract.is_float or not divides
            )
            graph_name = name and name_on(name, self._abstract.dtype)
            template = composed if not graph_name or not plain else operator_of(graph_name, (), 2)
            if template is None:
                return slow(self, other)
            entry = entries[self._abstract, other._abstract] = _entry(template, self, other)
        call, result_abstract, template = entry
        result = new(tensor)
        arrays = call(self._array, other._array)
        result._array = arrays[0]
        result._abstract = result_abstract
        result._position = 0
        if self._node is None and other._node is None:
            result._node = None
        else:
            result._node = _noted(template, (self, other), arrays)
        return result

    return operator


def _of_one(tensor: type[Tensor], entry: Entry, operand: Tensor) -> Tensor:
    """The result of an operator on one tensor."""
    call, result_abstract, template = entry
    result = object.__new__(tensor)
    arrays = call(operand._array)
    result._array = arrays[0]
    result._abstract = result_abstract
    result._position = 0
    result._node = None if operand._node is None else _noted(template, (operand,), arrays)
    return result


def _apply(tensor: type[Tensor]) -> Any:
    """`apply` of an operator: on one tensor alone, or on two of one dtype."""
    entries: dict[Any, Entry] = {}
    pairs: dict[str, Callable[[Any, Any], Any]] = {}

    def apply(self: Tensor, name: str, *others: Any, **attributes: Any) -> Any:
        if others:
            if len(others) > 1 or attributes:
                return ArrayOperators.apply(self, name, *others, **attributes)
            pair = pairs.get(name)
            if pair is None:
                together = composite_of(_together, (("name", name),), 2)
                composed = None if name == "matmul" else together
                pair = pairs[name] = _binary(tensor, name, _slowly(name), composed)
            return pair(self, *others)
        key = (name, self._abstract, *attributes.items()) if attributes else (name, self._abstract)
        entry = entries.get(key)
        if entry is None:
            entry = _entry(operator_of(name, frozen(attributes), 1), self)
            entries[key] = entry
        return _of_one(tensor, entry, self)

    return apply


def _together(first: Any, second: Any, name: str) -> Any:
    return ArrayOperators.apply(first, name, second)


def _reversed(tensor: type[Tensor], method: str) -> Any:
    """An operator on a number of Python's and a tensor."""
    slow = getattr(ArrayOperators, f"__r{method}__")
    straight = getattr(tensor, f"__{method}__")

    def operator(self: Tensor, other: Any) -> Any:
        if type(other) not in self._abstract.numbers:
            return slow(self, other)
        return straight(number(tensor, self._abstract, other), self)

    return operator


def _slowly(name: str) -> Callable[[Any, Any], Any]:
    """The operator of that name on operands that are brought to one dtype first."""
    return lambda first, second: ArrayOperators.apply(first, name, second)


def _op(tensor: type[Tensor]) -> Any:
    """`op` of an operator with one result on any number of tensors."""
    entries: dict[Any, Entry] = {}

    def op(self: Tensor, name: str, *operands: Any, **attributes: Any) -> Any:
        try:
            key = name, *[each._abstract for each in operands], *attributes.items()
            entry = entries.get(key)
        except (AttributeError, TypeError):  # of another kind of array, or attributes in a list
            return ArrayOperators.op(self, name, *operands, **attributes)
        if entry is None:
            if "to" in attributes or not all(type(each) is tensor for each in operands):
                return ArrayOperators.op(self, name, *operands, **attributes)
            operator = operator_of(name, frozen(attributes), len(operands))
            entry = entries[key] = _entry(operator, *operands)
        return _of_all(tensor, entry, operands)

    return op


def _of_all(tensor: type[Tensor], entry: Entry, operands: tuple[Tensor, ...]) -> Tensor:
    """The result of an operator on several tensors."""
    call, result_abstract, template = entry
    result = object.__new__(tensor)
    arrays = call(*[each._array for each in operands])
    result._array = arrays[0]
    result._abstract = result_abstract
    result._position = 0
    result._node = _noted(template, operands, arrays) if DEPTH.count else None
    return result


def _composed(tensor: type[Tensor]) -> Any:
    """`composed`: what a function of tensors returns, by one kernel where all have values."""
    entries: dict[Any, Entry] = {}

    def composed(
        self: Tensor,
        function: Callable[..., Any],
        operands: tuple[Any, ...],
        attributes: Mapping[str, Any],
    ) -> Any:
        try:
            key = function, *[each._abstract for each in operands], *attributes.items()
            entry = entries.get(key)
        except (AttributeError, TypeError):  # of another kind of array, or attributes in a list
            return _slowly_composed(self, function, operands, attributes)
        if entry is None:
            if not all(type(each) is tensor for each in operands):
                return _slowly_composed(self, function, operands, attributes)
            template = composite_of(function, frozen(attributes), len(operands))
            entry = entries[key] = _entry(template, *operands)
        return _of_all(tensor, entry, operands)

    return composed


def _slowly_composed(
    self: Tensor,
    function: Callable[..., Any],
    operands: tuple[Any, ...],
    attributes: Mapping[str, Any],
) -> Any:
    first = leader(*operands)
    if not first.has_values or any(isinstance(each, Complex) for each in operands):
        if first.has_values:
            return ArrayOperators.composed(first, function, operands, attributes)
        return first.composed(function, operands, attributes)
    values = [self.lifted(each) for each in operands]
    template = composite_of(function, frozen(attributes), len(values))
    return computed(type(self), template, values)[0]


def composed_all(
    self: Tensor,
    function: Callable[..., Any],
    operands: Sequence[Any],
    attributes: Mapping[str, Any],
) -> Sequence[Any]:
    """All results of a function of tensors, by one kernel where all have values."""
    first = leader(*operands)
    if not first.has_values:
        return first.composed_all(function, operands, attributes)
    template = composite_of(function, frozen(attributes), len(operands))
    return computed(type(self), template, [self.lifted(each) for each in operands])


def _reduction(tensor: type[Tensor]) -> Any:
    """`reduced`: a reduction over axes."""
    entries: dict[Any, Entry] = {}

    def reduced(self: Tensor, name: str, axis: Axes, keepdims: bool, **attributes: Any) -> Any:
        if attributes or isinstance(axis, list):
            return ArrayOperators.reduced(self, name, axis, keepdims, **attributes)
        key = name, self._abstract, axis, keepdims
        entry = entries.get(key)
        if entry is None:
            chosen = tuple(axes_of(axis, self.ndim))
            if not chosen:
                return self
            named = (("axes", chosen), ("keepdims", keepdims))
            entry = entries[key] = _entry(operator_of(name, named, 1), self)
        return _of_one(tensor, entry, self)

    return reduced


WARNED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "floordiv": np.floor_divide, "mod": np.remainder,
}  # fmt: skip
"""Operators that NumPy warns of where integers are divided by zero."""


def _warning(
    tensor: type[Tensor],
    operator: Callable[[Tensor, Any], Any],
    of_numpy: Callable[[Any, Any], Any],
) -> Any:
    """A division that NumPy's own settings decide of, as `np.errstate` gives them, where integers
    are divided by zero: whether that is silent, warns or raises.
    """

    def divided(self: Tensor, other: Any) -> Any:
        found = operator(self, other)
        if type(found) is tensor and not found._abstract.is_float:
            divisor = other._array if type(other) is tensor else np.asarray(other)
            if not divisor.all():
                of_numpy(np.ones(1, np.int64), np.zeros(1, np.int64))
        return found

    return divided


def install(tensor: type[Tensor]) -> None:
    """Puts the short way in front of the one that every kind of tensor has."""
    methods: dict[str, Any] = {}
    for method in (*BINARY, *COMPOSED):
        slow = getattr(ArrayOperators, f"__{method}__")
        composed = None if method == "matmul" else composite_of(slow, (), 2)
        operator = _binary(tensor, BINARY.get(method), slow, composed, method == "truediv")
        if method in WARNED:
            operator = _warning(tensor, operator, WARNED[method])
        methods[f"__{method}__"] = operator
    methods |= {"apply": _apply(tensor), "op": _op(tensor), "reduced": _reduction(tensor)}
    methods |= {"composed": _composed(tensor), "composed_all": composed_all}
    for name, method in methods.items():
        setattr(tensor, name, method)
    for method in REVERSED:
        setattr(tensor, f"__r{method}__", _reversed(tensor, method))
    tensor.__hash__ = object.__hash__
