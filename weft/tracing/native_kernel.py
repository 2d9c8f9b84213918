"""`NativeKernel`: an operator that is the user's own machine code, for programs in any mode."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.operators import users_line
from weft.autodiff.vjp import is_traced, lifted, recording_of
from weft.compiler.deferred import deferred
from weft.compiler.machine.elf.native_object import check_native_object
from weft.dialects.errors import (
    ArtifactError,
    OptionError,
    TypeInferenceError,
    UnsupportedError,
    WeftError,
)
from weft.eager.tape import DEPTH, is_recorded, recorded
from weft.eager.tensor import Tensor, array_of
from weft.tracing.survey.unknown import Unknown

if TYPE_CHECKING:
    from weft.dialects.graph.core import dtypes
    from weft.dialects.graph.regions import native_call
    from weft.tracing import compiled, spec
    from weft.tracing.compiled import TracedFunction
    from weft.tracing.spec import Spec
else:
    compiled = deferred("weft.tracing.compiled")
    dtypes = deferred("weft.dialects.graph.core.dtypes")
    native_call = deferred("weft.dialects.graph.regions.native_call")
    spec = deferred("weft.tracing.spec")


class NativeKernel:
    """A native function as an operator: one of an `object` file, which is linked into what is
    compiled, or of this process by its `pointer`, an address or a function of ctypes.

    scale = weft.NativeKernel("scale(float32[n, m], float32[m]) -> float32[n, m]", "scale.o")
    y = scale(x, w)  # of tensors with values, and in weft.jit, weft.trace and weft.step

    The signature has the types of what the function reads, whose dims are numbers or names of
    sizes, and of what it fills, whose dims are expressions over these: `-> (float32[n + 1],
    int64[])` are two. In C it is `void scale(const float *x, const float *w, float *y, int64_t n,
    int64_t m)`: the addresses of dense tensors by rows, which do not overlap, then the sizes in the
    order of their first use. It depends on nothing else, and may run on several threads at once.
    The object needs the processor that it was compiled for, and of libraries libc alone. What calls
    a pointer is neither exported, saved nor cached.

    A model's nodes call it by the name `onnx`, behind a domain and a dot where that is not the
    default one, where it is among the `kernels` of a `weft.Extension`. It has no derivative:
    `weft.custom_vjp` gives it one. Raises OptionError for a signature that is none, and unless
    there is either an object or a pointer, ArtifactError for an object that cannot be read, lacks
    the function or needs more than libc, and UnsupportedError for one that weft does not link.
    """

    def __init__(
        self,
        signature: str,
        object: str | Path | bytes | None = None,
        *,
        pointer: Any = None,
        onnx: str = "",
    ) -> None:
        self.__name__ = name = native_call.native_signature(signature).name
        if (object is None) == (pointer is None):
            raise OptionError(f"the native kernel {name} requires either an object or a pointer")
        if object is None:
            code = _address(name, pointer)
        else:
            code = object if isinstance(object, bytes) else _read(Path(object))
            check_native_object(code, name)
        self.function = native_call.NativeFunction(signature, code, onnx)
        self._executable: TracedFunction | None = None

    def __repr__(self) -> str:
        return f"<weft.NativeKernel {self.function.signature}>"

    @staticmethod
    def survey_parts(kernel: NativeKernel) -> tuple[str, bytes]:
        """What programs that call it depend on. Raises Unknown for a pointer."""
        if isinstance(kernel.function.code, int):
            raise Unknown(f"{kernel.__name__} is at an address of this process")
        return kernel.function.signature, kernel.function.code

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
            return [*cast("Any", found)] if isinstance(found, tuple) else [found]
        tensors = [each if isinstance(each, Tensor) else Tensor(each) for each in operands]
        arrays = self._executable.executable(*map(array_of, tensors))
        results = [*map(Tensor.of, arrays)]
        if DEPTH.count and any(map(is_recorded, tensors)):
            return recorded(results, tensors, self._refuse)
        return results

    def _specs(self) -> list[Spec]:
        return [
            spec.Spec(
                dtypes.numpy_dtype(each.element).name,
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


_FUNCTION: Final[type] = ctypes.CFUNCTYPE(None).__bases__[0]
_HELD: Final[dict[int, object]] = {}
"""Functions of ctypes whose addresses compiled programs have, for as long as the process lives."""


def _address(name: str, pointer: Any) -> int:
    if not isinstance(pointer, int | _FUNCTION):
        rule = f"the native kernel {name} requires an address or a function of ctypes"
        raise OptionError(f"{rule}, got {pointer!r}")
    address = pointer if isinstance(pointer, int) else ctypes.cast(pointer, ctypes.c_void_p).value
    if not address:
        raise OptionError(f"the native kernel {name} requires an address, got {pointer!r}")
    if not isinstance(pointer, int):
        _HELD[address] = pointer
    return address
