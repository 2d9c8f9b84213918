"""Calls that fail at the first operator which makes NaN or an infinity out of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.graph.probe_all import Exposed, expose, named
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import InputError, OptionError
from weft.dialects.graph import ControlOp
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import Array


def trapped(imported: ImportedModel, build: Callable[[ImportedModel], Executable]) -> Executable:
    """Builds the executable of a graph, whose calls raise InputError that names the first operator
    which gives NaN where no operand has one, or an infinity where all operands are finite.

    It keeps every value of the graph until a call ends, and fuses nothing: it is for finding
    mistakes. What it looked for in branches and loops is found by evaluating the graph once more.
    """
    functions = [op for op in imported.module.ops if isinstance(op, FuncOp)]
    if len(functions) != 1:
        raise OptionError(f"trap_nan requires a graph of one function, got {len(functions)}")
    source = functions[0].clone()
    exposed = expose(functions[0], imported.weights)
    return _Trapped(build(imported), exposed, source, imported)


class _Trapped(Executable):
    """An executable that looks at all values of its graph before it gives the results."""

    def __init__(
        self,
        executable: Executable,
        exposed: Sequence[Exposed],
        function: FuncOp,
        imported: ImportedModel,
    ) -> None:
        self.metadata = executable.metadata
        self.compile_watched = self.pipeline = None
        self._executable = executable
        self._exposed = exposed
        self._function = function
        self._weights = imported.weights
        self._name = imported.name
        self.__call__ = self._call

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._executable.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        outputs = self._executable.outputs
        return outputs[: len(outputs) - len(self._exposed)]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs by name."""
        names = [spec.name for spec in self.outputs]
        return dict(zip(names, self._call(**inputs), strict=True))

    def export(self, path: str | Path, *, linker: str = "weft") -> None:
        """An artifact looks at no values: raises OptionError."""
        raise OptionError("trap_nan requires calls from Python, got an export")

    def watch(self, *names: str) -> Executable:
        """Raises OptionError: the trap looks at all values."""
        raise OptionError("watch requires an executable without trap_nan, got one with it")

    def _call(self, *arrays: Any, **named_arrays: Any) -> tuple[Array, ...]:
        given = self._executable(*arrays, **named_arrays)
        names = [spec.name for spec in self.inputs]
        inputs = [*map(np.asarray, arrays)]
        inputs += [np.asarray(named_arrays[name]) for name in names[len(arrays) :]]
        count = len(given) - len(self._exposed)
        values = given[count:]
        for name, array in zip(names, inputs, strict=True):
            if _has_nan(array):
                raise InputError(f"{self._name} requires inputs without nan, got some in {name}")
        for step, value in zip(self._exposed, values, strict=True):
            read = [*(values[n] for n in step.values), *(inputs[n] for n in step.inputs)]
            self._check(step, read, value, inputs)
        return given[:count]

    def _check(
        self, step: Exposed, read: Sequence[Array], value: Array, inputs: Sequence[Array]
    ) -> None:
        what = _fault(read, value)
        if what is None or (what != "nan" and step.reads_infinity):
            return
        if step.has_regions:
            evaluate_block(self._function.body.block, inputs, {}, self._weights, self._observed)
        raise InputError(f"{self._name} requires finite numbers, got {what} of {step.name}")

    def _observed(self, op: Operation, read: Sequence[Array], results: Sequence[Array]) -> None:
        """Looks at what an operator inside of regions gave."""
        for result in results if not isinstance(op, ControlOp) else ():
            what = _fault(read, result)
            if what is not None:
                raise InputError(f"{self._name} requires finite numbers, got {what} of {named(op)}")


def _fault(read: Sequence[Array], value: Array) -> str | None:
    """What is wrong with a value of which the operands are not to blame."""
    if _has_nan(value):
        return None if any(map(_has_nan, read)) else "nan"
    finite = _is_finite(value) or not all(map(_is_finite, read))
    return None if finite else "an infinity"


def _has_nan(array: Array) -> bool:
    return array.dtype.kind not in "biu" and bool(np.isnan(array).any())


def _is_finite(array: Array) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())
