"""`NativeKernel`: an operator that is the user's own machine code, which programs call in any mode."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.operators import users_line
from weft.autodiff.vjp import is_traced, lifted, recording_of
from weft.compiler.deferred import deferred
from weft.compiler.machine.elf.native_object import read_native_object
from weft.dialects.errors import ArtifactError, TypeInferenceError, UnsupportedError, WeftError
from weft.eager.tape import DEPTH, is_recorded, recorded
from weft.eager.tensor import Tensor, array_of

if TYPE_CHECKING:
    from weft.dialects.graph.regions import native_call
    from weft.tracing import compiled
    from weft.tracing.compiled import TracedFunction
else:
    compiled = deferred("weft.tracing.compiled")
    native_call = deferred("weft.dialects.graph.regions.native_call")


class NativeKernel:
    """A function of an object file as an operator, which is linked into what is compiled.

    scale = weft.NativeKernel("scale(float32[n, m], float32[m]) -> float32[n, m]", "scale.o")
    y = scale(x, w)  # of tensors with values, and in weft.jit, weft.trace and weft.step

    The signature has the types of what the function reads, whose dims are numbers or names of
    sizes, and of what it fills, whose dims are expressions over these (`-> (float32[n + 1], int64[])`
    for several). In C it is `void scale(const float *x, const float *w, float *y, int64_t n,
    int64_t m)`: the addresses of dense tensors by rows, which do not overlap, then the sizes in the
    order of their first use. It depends on nothing else, and may run on several threads at once.
    The object needs the processor that it was compiled for, and of libraries libc alone.

    A model's nodes call it by the name `onnx`, behind a domain and a dot where that is not the
    default one, where it is among the `kernels` of a `weft.Extension`. It has no derivative:
    `weft.custom_vjp` gives it one. Raises OptionError for a signature that is none, ArtifactError
    for an object that cannot be read, lacks the function, or needs more than libc.
    """

    def __init__(self, signature: str, object: str | Path | bytes, onnx: str = "") -> None:  # noqa: A002
        content = object if isinstance(object, bytes) else _read(Path(object))
        self.function = native_call.NativeFunction(signature, content, onnx)
        self.__name__ = self.function.declared.name
        read_native_object(content, self.__name__)
        self._executable: TracedFunction | None = None

    def __repr__(self) -> str:
        return f"<weft.NativeKernel {self.function.signature}>"

    @staticmethod
    def survey_parts(kernel: NativeKernel) -> tuple[str, bytes]:
        """What programs that call it depend on."""
        return kernel.function.signature, kernel.function.content

    def __call__(self, *operands: Any) -> Any:
        """The result, or a tuple of them: arrays for arrays, tensors for tensors. Raises
        TypeInferenceError, or InputError, for operands of other types.
        """
        if any(isinstance(each, Complex) for each in operands):
            rule = f"{self.__name__} requires operands of its signature"
            raise WeftError(f"{users_line()}: {rule}, got complex numbers")
        found = self._traced(operands) if is_traced(operands) else self._computed(operands)
        return found[0] if len(found) == 1 else tuple(found)

    def _traced(self, operands: Sequence[Any]) -> list[Any]:
        recording = recording_of(operands)
        values = [lifted(recording, each).value for each in operands]
        b = recording.builder()
        try:
            op = self.function.call(values, b.location)
        except TypeInferenceError as error:
            raise TypeInferenceError(f"{users_line()}: {error}") from error
        return [recording.array(each) for each in b.builder.insert(op).results]

    def _computed(self, operands: Sequence[Any]) -> list[Any]:
        """The results for tensors with values, by a program of this one operator."""
        if self._executable is None:
            self._executable = compiled.trace(self, *self._specs())
        if not any(isinstance(each, Tensor) for each in operands):
            found = self._executable(*map(np.asarray, operands))
            return list(found) if isinstance(found, tuple) else [found]
        tensors = [each if isinstance(each, Tensor) else Tensor(each) for each in operands]
        arrays = self._executable.executable(*map(array_of, tensors))
        results = [*map(Tensor.of, arrays)]
        if DEPTH.count and any(map(is_recorded, tensors)):
            return recorded(results, tensors, self._refuse)
        return results

    def _specs(self) -> list[Any]:
        from weft.dialects.graph.core.dtypes import numpy_dtype
        from weft.tracing.spec import Spec

        return [
            Spec(
                numpy_dtype(each.element).name,
                tuple(str(dim) if dim.constant is None else dim.constant for dim in each.shape),
            )
            for each in self.function.declared.operands
        ]

    def _refuse(self, *_: Any) -> NoReturn:
        rule = "gradients require operators with derivatives, got the native kernel"
        raise UnsupportedError(f"{rule} {self.__name__} (weft.custom_vjp gives it one)")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        rule = f"{os.fspath(path)} requires a readable file"
        raise ArtifactError(f"{rule}, got {error.strerror}") from error
