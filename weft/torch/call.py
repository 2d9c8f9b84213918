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
from weft.compiler.machine.artifact.dims import size_of
from weft.compiler.machine.python.executable import Executable
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import BF16, type_of
from weft.torch.tensors import to_array, to_tensor
from weft.torch.walker import Output, Walked

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
            each.order is each.sizes is each.size is each.argument is None
            and each.position is not None
            and not each.number
            for each in walked.outputs
        )
        self._finish = [_finisher(each) for each in walked.outputs]
        types = [type_of(value).element for value in _values(walked)]
        own = all(order is None for _, order in self._arguments) and not walked.floats
        self._direct = own and BF16 not in types
        self._positions = [position for position, _ in self._arguments]
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
        if self._direct:
            arrays = [arguments[position].numpy(force=True) for position in self._positions]
        else:
            arrays = [
                to_array(arguments[at] if order is None else arguments[at].permute(order))
                for at, order in self._arguments
            ]
        if self._hidden:
            arrays += [np.empty((arguments[position], 0), np.bool_) for position in self._hidden]
        found = self._executable()(*arrays) if self._computes else ()
        tensors = [(torch.from_numpy if self._direct else to_tensor)(each) for each in found]
        if self._plain and len(tensors) == len(self._finish):
            return tensors[0] if self._single else tuple(tensors)
        sizes = {name: arguments[position] for name, position in self._symbols.items()}
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
    position, argument, order = output.position, output.argument, output.order
    if argument is not None:
        return lambda arguments, _, __: arguments[argument]
    if position is None:
        if output.size is None:
            return lambda *_: None
        size = size_of(str(output.size) if output.size.constant is None else output.size.constant)
        return lambda _, __, sizes: size(sizes)
    if output.number:
        return lambda _, tensors, __: float(tensors[position])
    if order is not None:
        return lambda _, tensors, __: tensors[position].permute(order)
    if output.sizes is None:
        return lambda _, tensors, __: tensors[position]
    dims = [
        size_of(each.constant if each.constant is not None else str(each)) for each in output.sizes
    ]
    if output.strides is None:
        return lambda _, tensors, sizes: tensors[position].expand([dim(sizes) for dim in dims])
    steps = [size_of(e.constant if e.constant is not None else str(e)) for e in output.strides]
    first = output.offset or Expr.of(0)
    start = size_of(first.constant if first.constant is not None else str(first))

    def strided(_: Any, tensors: Sequence[torch.Tensor], sizes: dict[str, int]) -> torch.Tensor:
        source = tensors[position]
        shape, strides = [d(sizes) for d in dims], [step(sizes) for step in steps]
        offset = start(sizes)
        if offset:
            count = 1 + offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
            memory = torch.empty(max(count, offset), dtype=source.dtype)
            return memory.as_strided(shape, strides, offset).copy_(source)
        return torch.empty_strided(shape, strides, dtype=source.dtype).copy_(source)

    return strided
