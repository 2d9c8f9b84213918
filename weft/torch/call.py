"""A walked graph, compiled, as a function of torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Final

import numpy as np
import torch
from msgspec import Struct, structs

from weft.api import compile
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.machine.artifact.dims import Size, size_of
from weft.compiler.machine.python.exchange import Exchange, Framework, Made, Operand, Result
from weft.compiler.machine.python.executable import Executable
from weft.dialects.expr import Expr
from weft.torch.outputs import Output, View, inverse
from weft.torch.tensors import to_array, to_complex, to_tensor
from weft.torch.walker import Walked
from weft.torch.writes import Boxed

Finish = Callable[[Sequence[Any], Sequence[torch.Tensor], dict[str, int]], Any]


class _Built(Struct, frozen=True):
    """A graph as `weft.compile` takes it."""

    model: ImportedModel

    def imported(self) -> ImportedModel:
        """The graph as front ends give it, which a compilation changes."""
        return structs.replace(self.model, module=self.model.module.clone())


FRAMEWORK: Final = Framework(
    torch.Tensor,
    torch.nn.Parameter,
    torch.Tensor.__dlpack_c_exchange_api__,  # pyright: ignore[reportAttributeAccessIssue]
    torch.Tensor.is_neg,
)


class CompiledGraph:
    """Takes the arguments of an FX graph as a list, which it may empty, and gives a list of what
    the graph gives, by so many threads, or by as many as torch has at a call. Tensors whose memory
    is as the graph was compiled for never meet Python: native code takes and makes them.
    """

    __slots__ = ("__call__", "__dict__")  # so that a call is that of native code

    __call__: Boxed

    def __init__(self, walked: Walked, threads: int | None) -> None:
        self._boxed_call = True  # of its own, which what torch wraps around it takes over
        self._walked, self._threads = walked, threads
        self._executables: dict[int, Executable] = {}
        own = walked.outputs[: len(walked.outputs) - len(walked.written)]
        self._finish = [_finisher(each) for each in own]
        self._orders = {each.position: each.order for each in walked.outputs if each.order}
        self.__call__, self._run = self._by_arrays, self._values
        self._bound: Executable | None = None
        if walked.model.output_names:
            self._bind(self._executable())

    @property
    def tuple_of_one(self) -> bool:
        """Whether the graph gives its one result by itself."""
        return self._walked.tuple_of_one

    def _executable(self) -> Executable:
        threads = torch.get_num_threads() if self._threads is None else self._threads
        found = self._executables.get(threads)
        if found is None:
            found = compile(_Built(self._walked.model), threads=threads, check_indices=True)
            self._executables[threads] = found
        return found

    def _bind(self, executable: Executable) -> None:
        """Has native code take the calls."""
        self._bound = executable
        call = self._native(executable)
        self.__call__ = self._with_rounded(call) if self._walked.rounded else call

    def _native(self, executable: Executable) -> Boxed:
        """All of a call, where results are tensors in memory of their own, arguments and sizes;
        else what the executable computes. Complex tensors are taken and made by Python.
        """
        if not self._walked.of_reals:
            return self._by_arrays
        results = _results(self._walked, executable)
        if results is not None:
            call = executable.call_or(self._by_arrays, None, self._exchange(executable, results))
            return call or self._by_arrays
        lent = {out: self._walked.arguments[source][0] for source, out in executable.donated}
        values = [
            Result("argument", lent[number]) if number in lent else Result("output", number)
            for number in range(len(executable.outputs))
        ]
        call = executable.call_or(self._values, None, self._exchange(executable, values))
        self._run = call or self._values
        return self._by_values

    def _with_rounded(self, function: Boxed) -> Boxed:
        """A call whose last arguments are sizes that floats decide."""
        rounded = self._walked.rounded
        names = [tuple(signature(each).parameters) for each in rounded]
        symbols = {name: self._walked.symbols[name] for own in names for name in own}

        def call(arguments: list[Any]) -> Any:
            sizes = _sizes(symbols, arguments)
            given = [each(*map(sizes.get, own)) for each, own in zip(rounded, names, strict=True)]
            whole = [*arguments, *given]
            arguments.clear()
            return function(whole)

        return call

    def _exchange(self, executable: Executable, results: Sequence[Result]) -> Exchange:
        walked, floats = self._walked, set(self._walked.floats)
        operands = [
            Operand(at, "float" if at in floats else "tensor", order)
            for at, order in walked.arguments
        ]
        operands += [Operand(position, "integer") for position in walked.hidden]
        orders = (self._orders.get(number) for number in range(len(executable.outputs)))
        return Exchange(
            FRAMEWORK,
            walked.count,
            tuple(operands),
            tuple(None if order is None else inverse(order) for order in orders),
            tuple(results),
            *((torch.get_num_threads(), torch.get_num_threads) if self._threads is None else ()),
        )

    def _by_values(self, arguments: list[Any]) -> list[Any]:
        """What the graph gives, of what the executable computes."""
        given = tuple(arguments)
        return self._finished(given, self._run(arguments))

    def _by_arrays(self, arguments: list[Any]) -> list[Any]:
        """A call that native code does not take as it is."""
        return self._finished(arguments, self._values(arguments))

    def _values(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """What the executable computes, by way of arrays. Another number of threads than before is
        that of the next calls.
        """
        if not self._walked.model.output_names:
            return []
        executable = self._executable()
        if executable is not self._bound:
            self._bind(executable)
        with torch._C._DisableTorchDispatch():  # a mode of torch's sees what it calls alone
            arrays = [
                to_array(arguments[at]) if order is None else to_array(arguments[at].permute(order))
                for at, order in self._walked.arguments
            ]
            arrays += [np.empty((arguments[at], 0), np.bool_) for at in self._walked.hidden]
            found = [to_tensor(each) for each in executable(*arrays)]
        for at in self._walked.complex_outputs:
            found[at] = to_complex(found[at])
        return [
            each.permute(self._orders[at]) if at in self._orders else each
            for at, each in enumerate(found)
        ]

    def _finished(self, arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
        """The results, of what the executable computed; inputs are written that did not give their
        memory.
        """
        sizes = _sizes(self._walked.symbols, arguments)
        results = [finish(arguments, tensors, sizes) for finish in self._finish]
        outputs = self._walked.outputs[len(results) :]
        for position, output in zip(self._walked.written, outputs, strict=True):
            assert output.position is not None, "what is written is a value"
            given, found = arguments[position], tensors[output.position]
            if found is not given and found.data_ptr() != given.data_ptr():
                given.copy_(found)
        return results


def _sizes(
    symbols: Mapping[str, tuple[int, int | None]], arguments: Sequence[Any]
) -> dict[str, int]:
    """The numbers that symbols stand for in a call."""
    return {
        name: arguments[position] if axis is None else arguments[position].shape[axis]
        for name, (position, axis) in symbols.items()
    }


def _results(walked: Walked, executable: Executable) -> list[Result] | None:
    """What native code gives; None where Python has to make some of it."""
    found: list[Result] = []
    for each in walked.outputs[: len(walked.outputs) - len(walked.written)]:
        view = None if each.view is None or each.copied else _constant_view(each, each.view)
        if view is not None:
            found.append(Result("view", view))
        elif each.view is not None or each.number:
            return None
        elif each.position is not None:
            found.append(Result("output", each.position))
        elif each.argument is not None:
            found.append(Result("argument", each.argument))
        elif each.size is None or each.size.constant is not None:
            found.append(Result("object", None if each.size is None else each.size.constant))
        elif set(each.size.symbols()) <= set(executable.symbols):
            found.append(Result("size", str(each.size)))
        else:
            return None
    return found


def _constant_view(output: Output, view: View) -> Made | None:
    """A view of constant sizes; None of others."""
    sizes, strides = ([each.constant for each in one] for one in (view.sizes, view.strides))
    if None in (*sizes, *strides, view.offset.constant):
        return None
    given = (tuple(sizes), tuple(strides), view.offset.constant)
    if output.position is not None:
        return Made(Result("output", output.position), torch.as_strided, given)
    return Made(Result("argument", output.argument), _part_of, given)


def _part_of(
    tensor: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], start: int
) -> torch.Tensor:
    """Elements of an argument's memory, from where that begins."""
    return tensor.detach().as_strided(sizes, strides, tensor.storage_offset() + start)


def _finisher(output: Output) -> Finish:
    """How a result is handed back."""
    position, argument = output.position, output.argument
    if output.view is not None:
        return _viewer(output, output.view)
    if position is None:
        if argument is not None:
            return lambda arguments, _, __: arguments[argument]
        size = None if output.size is None else _size(output.size)
        return lambda _, __, sizes: None if size is None else size(sizes)
    if output.number:
        return lambda _, tensors, __: float(tensors[position])
    return lambda _, tensors, __: tensors[position]


def _viewer(output: Output, view: View) -> Finish:
    """Elements of a result's memory, or of an argument's."""
    position, argument, copied = output.position, output.argument, output.copied
    dims, steps = [_size(each) for each in view.sizes], [_size(each) for each in view.strides]
    start = _size(view.offset)

    def source(arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        if position is not None:
            return tensors[position]
        assert argument is not None, "a view is of either"
        return arguments[argument]

    def viewed(
        arguments: Sequence[Any], tensors: Sequence[torch.Tensor], sizes: dict[str, int]
    ) -> torch.Tensor:
        shape, strides = [dim(sizes) for dim in dims], [step(sizes) for step in steps]
        found = source(arguments, tensors)
        if copied:
            return torch.empty_strided(shape, strides, dtype=found.dtype).copy_(found)
        return _part_of(found, shape, strides, start(sizes))

    return viewed


def _size(size: Expr) -> Size:
    return size_of(str(size) if size.constant is None else size.constant)
