"""A walked graph, compiled, as a function of torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from msgspec import Struct, structs
from xdsl.ir import SSAValue

from weft.api import compile
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.machine.artifact.dims import Size, size_of
from weft.compiler.machine.python.executable import Executable
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import BF16, type_of
from weft.torch.outputs import Output, View
from weft.torch.tensors import to_array, to_tensor
from weft.torch.walker import Walked

Finish = Callable[[Sequence[Any], Sequence[torch.Tensor], dict[str, int]], Any]


class _Built(Struct, frozen=True):
    """A graph as `weft.compile` takes it."""

    model: ImportedModel

    def imported(self) -> ImportedModel:
        """The graph as front ends give it, which a compilation changes."""
        return structs.replace(self.model, module=self.model.module.clone())


class CompiledGraph:
    """Takes the arguments of an FX graph, and gives what the graph gives, by so many threads, or by
    as many as torch has at a call.
    """

    def __init__(self, walked: Walked, threads: int | None) -> None:
        self._walked, self._threads = walked, threads
        self._executables: dict[int, Executable] = {}
        self._computes = bool(walked.model.output_names)
        self._arguments = walked.arguments
        self._symbols = walked.symbols
        self._hidden = walked.hidden
        self._single = walked.tuple_of_one
        self._plain = all(
            each.view is each.size is each.argument is None
            and each.position is not None
            and not each.number
            for each in walked.outputs
        )
        self._finish = [_finisher(each) for each in walked.outputs]
        types = [type_of(value).element for value in _values(walked)]
        self._direct = BF16 not in types and not walked.floats
        self._orders = {each.position: each.order for each in walked.outputs if each.order}
        if self._computes:
            self._executable()

    def _executable(self) -> Executable:
        threads = torch.get_num_threads() if self._threads is None else self._threads
        found = self._executables.get(threads)
        if found is None:
            found = compile(_Built(self._walked.model), threads=threads, check_indices=True)
            self._executables[threads] = found
        return found

    def __call__(self, *arguments: Any) -> Any:
        if torch._C._len_torch_dispatch_stack():  # a mode of torch's sees what it calls alone
            with torch._C._DisableTorchDispatch():
                return self._call(arguments)
        return self._call(arguments)

    def _call(self, arguments: Sequence[Any]) -> Any:
        arrays = [
            (arguments[at].numpy(force=True) if self._direct else to_array(arguments[at]))
            if order is None
            else to_array(arguments[at]).transpose(order)
            for at, order in self._arguments
        ]
        if self._hidden:
            arrays += [np.empty((arguments[position], 0), np.bool_) for position in self._hidden]
        found: Sequence[Any] = self._executable()(*arrays) if self._computes else ()
        if self._orders:
            found = [
                each.transpose(self._orders[at]) if at in self._orders else each
                for at, each in enumerate(found)
            ]
        tensors = [(torch.from_numpy if self._direct else to_tensor)(each) for each in found]
        if self._plain and len(tensors) == len(self._finish):
            return tensors[0] if self._single else tuple(tensors)
        sizes = {
            name: arguments[position] if axis is None else arguments[position].shape[axis]
            for name, (position, axis) in self._symbols.items()
        }
        results = tuple(finish(arguments, tensors, sizes) for finish in self._finish)
        return results[0] if self._single else results


def _values(walked: Walked) -> list[SSAValue]:
    """The inputs and outputs of a graph."""
    (main,) = walked.model.module.ops
    block = main.regions[0].block
    last = block.last_op
    assert last is not None, "a graph ends in a terminator"
    return [*block.args, *last.operands]


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
    if argument is not None:
        return _taker(position, argument)
    return lambda _, tensors, __: tensors[position]


def _taker(position: int, argument: int) -> Finish:
    """An argument whose memory a result took; the result where it did not."""

    def taken(arguments: Sequence[Any], tensors: Sequence[torch.Tensor], _: Any) -> torch.Tensor:
        given, found = arguments[argument], tensors[position]
        return given if found.data_ptr() == given.data_ptr() else found

    return taken


def _viewer(output: Output, view: View) -> Finish:
    """Elements of a result's memory, or of an argument's."""
    position, argument, copied = output.position, output.argument, output.copied
    dims, steps = [_size(each) for each in view.sizes], [_size(each) for each in view.strides]
    start = _size(view.offset)

    def source(arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        if position is not None:
            return tensors[position]
        assert argument is not None, "a view is of either"
        return arguments[argument].detach()

    def viewed(
        arguments: Sequence[Any], tensors: Sequence[torch.Tensor], sizes: dict[str, int]
    ) -> torch.Tensor:
        shape, strides = [dim(sizes) for dim in dims], [step(sizes) for step in steps]
        found = source(arguments, tensors)
        if copied:
            return torch.empty_strided(shape, strides, dtype=found.dtype).copy_(found)
        return found.as_strided(shape, strides, found.storage_offset() + start(sizes))

    return viewed


def _size(size: Expr) -> Size:
    return size_of(str(size) if size.constant is None else size.constant)
