"""`Tensor`: a tensor with values. Every operator on it runs at once, as a small compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

import numpy as np

from weft.array.methods import ArrayMethods
from weft.array.operators import ArrayOperators, listed, order_of, users_line
from weft.dialects.errors import WeftError
from weft.dialects.weights import Array
from weft.eager.indexing import basic_part, check_places, indexed, rolled
from weft.eager.kernels import Kernel
from weft.eager.kinds import Kind, kind, kind_of, number
from weft.eager.quick import install
from weft.eager.tape import DEPTH, Backward, Node, by_graph
from weft.eager.templates import Template, frozen, operator_of


class Tensor(ArrayMethods):
    """Numbers of one dtype, with NumPy's operators, methods and indexing, that never change.

    It is made of numbers, nested lists or an array, which is copied; `np.asarray` and DLPack give
    its elements without a copy.
    """

    __slots__ = ("array", "kind", "node", "place")
    has_values = True
    array: Array
    kind: Kind
    node: Node | None
    place: int

    def __init__(self, value: Any, dtype: Any = None):
        source = value.elements() if isinstance(value, Tensor) else value
        array = np.array(source, dtype, order="C")
        if array.dtype.kind not in "biufV":
            raise WeftError(f"{users_line()}: a tensor requires numbers, got {array.dtype}")
        self.array, self.kind, self.node, self.place = array, kind_of(array), None, 0

    @staticmethod
    def of(array: Array) -> Tensor:
        """A tensor of an array that nothing changes from now on, copied if it is not dense."""
        tensor = object.__new__(Tensor)
        dense = array if array.flags.carray else array.copy("C")
        tensor.array, tensor.kind = dense, kind_of(dense)
        tensor.node, tensor.place = None, 0
        return tensor

    @staticmethod
    def made(arrays: Sequence[Array], kinds: Sequence[Kind], node: Node | None) -> list[Tensor]:
        """The results of an operator."""
        tensors: list[Tensor] = []
        for place, array in enumerate(arrays):
            tensor = object.__new__(Tensor)
            tensor.array, tensor.kind, tensor.node, tensor.place = array, kinds[place], node, place
            tensors.append(tensor)
        return tensors

    @staticmethod
    def computed(template: Template, operands: Sequence[Tensor]) -> list[Tensor]:
        """The results of a template, which are noted where a derivative of an operand is wanted."""
        kernel = Tensor.kernel(template, operands)
        arrays = kernel.call(*[operand.array for operand in operands])
        if DEPTH.count:
            for operand in operands:
                if operand.node is not None:
                    node = Node(by_graph, operands, arrays, template)
                    return Tensor.made(arrays, kernel.results, node)
        return Tensor.made(arrays, kernel.results, None)

    @staticmethod
    def kernel(template: Template, operands: Sequence[Tensor]) -> Kernel:
        """The kernel for tensors of these kinds."""
        key = template, *[operand.kind for operand in operands]
        found = _KERNELS.get(key)
        if found is None:
            found = _KERNELS[key] = Kernel(template, [operand.kind for operand in operands])
        return found

    def moved(self, array: Array, backward: Backward) -> Tensor:
        """The same elements in another order, or some of them; `backward` moves cotangents."""
        tensor = object.__new__(Tensor)
        tensor.array = array = array if array.flags.carray else array.copy("C")
        tensor.kind, tensor.place, tensor.node = kind(self.kind.dtype, array.ndim), 0, None
        if self.node is not None and DEPTH.count:
            tensor.node = Node(backward, [self], [array])
        return tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy knows it."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    @property
    def device(self) -> str:
        """Where the elements lie."""
        return "cpu"

    def results(self, name: str, *operands: Any, **attributes: Any) -> list[Any]:
        """All results of the graph operator of that name."""
        for operand in operands:
            if not isinstance(operand, Tensor):
                return operand.results(name, *operands, **attributes)
        if "to" in attributes:
            attributes["to"] = np.dtype(attributes["to"]).name
        return Tensor.computed(operator_of(name, frozen(attributes), len(operands)), operands)

    def constant(self, value: Any) -> Tensor:
        """A tensor of an array's elements."""
        return Tensor(value)

    def lifted(self, other: Any) -> Any:
        """A number or an array as a tensor; a tensor of another kind stays one."""
        return other if isinstance(other, ArrayOperators) else super().lifted(other)

    @property
    def numbers(self) -> tuple[type, ...]:
        """Types of Python's numbers that become tensors of this dtype before they are operands."""
        return self.kind.numbers

    def number(self, value: float) -> Tensor:
        """A number of Python's as a tensor beside this one."""
        plain = type(value) in self.kind.numbers
        return number(Tensor, self.kind, value) if plain else self.lifted(value)

    def shaped(self, shape: Any) -> Tensor:
        """Other dims, or one, for the same elements in the same order; one may be -1."""
        try:
            array = self.array.reshape(shape)
        except ValueError as error:
            raise WeftError(f"{users_line()}: a reshape requires {error}") from error
        before = self.shape
        return self.moved(array, lambda node, arriving, wanted: [_one(arriving).reshape(before)])

    def cast(self, wanted: np.dtype[Any]) -> Tensor:
        """The elements converted to another dtype than their own."""
        return self.apply("cast", to=kind(wanted, 0).key[0])

    def transpose(self, *axes: Any) -> Tensor:
        """The axes in another order; without one reversed."""
        given = tuple(listed(axes[0])) if len(axes) == 1 else axes
        return self.apply("transpose", permutation=order_of(given, self.kind.rank))

    def broadcast_to(self, shape: Sequence[Any]) -> Tensor:
        """The elements repeated along new axes in front and along those of size 1."""
        before = self.shape
        try:
            array = np.empty(shape, self.kind.dtype)
            if array.ndim < self.kind.rank:  # which an assignment allows for sizes of 1 in front
                raise ValueError("sizes are not fewer than those of what is broadcast")
            array[...] = self.array
        except ValueError as error:
            rule = f"a broadcast requires sizes that {list(before)} spreads to"
            raise WeftError(f"{users_line()}: {rule}, got {list(shape)}") from error

        def backward(node: Node, arriving: list[Tensor | None], wanted: object) -> list[Tensor]:
            front = len(shape) - len(before)
            spread = [
                axis + front for axis, size in enumerate(before) if size != shape[axis + front]
            ]
            return [_one(arriving).sum([*range(front), *spread]).reshape(before)]

        return self.moved(array, backward)

    def holding(self) -> Tensor:
        """Where bools are true, an index vector a row, as many as there are."""
        return Tensor.of(np.argwhere(self.array))

    def nonzero(self) -> tuple[Tensor, ...]:
        """The places of the elements that are not zero, a vector an axis."""
        if not self.ndim:
            return super().nonzero()
        return tuple([Tensor.of(places) for places in self.array.nonzero()])

    def require_within(self, size: int) -> None:
        """Refuses integers that are no index of an axis of that size."""
        check_places(self.array, size)

    def rolled(self, moves: Sequence[tuple[int, Any]]) -> Tensor:
        """The elements moved on along axes, by so many places each; the last ones come first."""
        return rolled(self, moves)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Itself, since there is one device, "cpu"."""
        if device != "cpu":
            raise WeftError(f"{users_line()}: a tensor requires the device 'cpu', got {device!r}")
        return self

    def __getitem__(self, index: Any) -> Tensor:
        if type(index) in _BASIC:
            return basic_part(self, (index,))
        parts: Any = index  # whose type is not known beyond being a tuple
        if type(index) is tuple and _BASIC.issuperset(map(type, parts)):
            return basic_part(self, parts)
        return indexed(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise WeftError(
            f"{users_line()}: a tensor never changes, got an assignment to elements "
            "(weft.numpy.where and concat make tensors of others)"
        )

    def give_up(self) -> None:
        """Lets go of the elements, whose memory a compiled step has taken over."""
        del self.array

    def __getattr__(self, name: str) -> Any:
        if name == "array":
            rule = "a tensor that was donated is used no more"
            raise WeftError(f"{users_line()}: {rule}, got another use of it")
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    def item(self, *index: Any) -> Any:
        """The one element, or that at an index, as a number of Python's."""
        return self.array.item(*index)

    def tolist(self) -> Any:
        """Nested lists of Python's numbers."""
        return self.array.tolist()

    def fill(self, value: Any) -> None:
        """Refused: a tensor never changes."""
        rule = "a tensor never changes"
        advice = "weft.numpy.full_like makes another one"
        raise WeftError(f"{users_line()}: {rule}, got fill ({advice})")

    def numpy(self) -> Array:
        """The elements as an array that cannot be written. Raises WeftError while a derivative of
        them is being taken, which an array would lose.
        """
        view = self.elements().view()
        view.flags.writeable = False
        return view

    @property
    def is_differentiated(self) -> bool:
        """Whether a derivative is being recorded that its elements alone would lose."""
        return self.node is not None and DEPTH.count > 0 and self.kind.is_float

    def elements(self) -> Array:
        """The array itself. Raises WeftError while a derivative of it is being recorded."""
        if self.is_differentiated:
            rule = "an array of elements requires a tensor that is not being differentiated"
            advice = "weft.numpy takes tensors, weft.stop_gradient(x) drops the derivative"
            raise WeftError(f"{users_line()}: {rule}, got one that is ({advice})")
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        elements = self.numpy()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError("a conversion of elements requires a copy, got copy=False")
            return elements.astype(dtype)
        return elements.copy() if copy else elements

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return self.elements().__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[place] for place in range(len(self.array)))

    def __bool__(self) -> bool:
        return bool(self.array)

    def __float__(self) -> float:
        return float(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __index__(self) -> int:
        return self.array.__index__()

    def __complex__(self) -> complex:
        return complex(self.array)

    def __repr__(self) -> str:
        text = np.array2string(self.array, separator=", ", prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return str(self.array)

    def __format__(self, spec: str) -> str:
        return format(self.array.item() if self.ndim == 0 else self.array, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor, (self.array,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


_BASIC: Final = frozenset((int, slice, type(None), type(Ellipsis)))
"""What an index may hold besides arrays."""


_KERNELS: Final[dict[tuple[Any, ...], Kernel]] = {}


def _one(arriving: list[Tensor | None]) -> Tensor:
    """The cotangent of an operator's one result."""
    (cotangent,) = arriving
    assert cotangent is not None, "an operator is walked over when something has arrived"
    return cotangent


install(Tensor)
