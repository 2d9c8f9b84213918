"""`from_jax`: a function of JAX as an executable, with pytrees in and out."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from weft.api import compile
from weft.array.interleaved import from_interleaved, interleaved
from weft.compiler.driver.options import Changes, Options
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import InputError

if TYPE_CHECKING:
    from weft.compiler.frontend.stablehlo.from_jax import Lowered


class JaxFunction:
    """A compiled function: call it with arguments like the examples; `executable` is that of the
    flat arrays, complex ones as pairs along a last dim, which `export` and the command line know.
    """

    def __init__(self, executable: Executable, lowered: Lowered) -> None:
        self.executable = executable
        self._arguments = lowered.arguments
        self._results = lowered.results
        self._dtypes = list(lowered.dtypes)
        self._complex = [each.kind == "c" for each in lowered.result_dtypes]

    def __call__(self, *arguments: Any) -> Any:
        """The results, NumPy's arrays in the function's own pytree. Raises InputError for arguments
        of another pytree than that of the examples.
        """
        tree: Any = import_module("jax.tree")
        leaves, structure = tree.flatten(arguments)
        if structure != self._arguments:
            raise InputError(f"a call requires arguments {self._arguments}, got {structure}")
        pairs = zip(leaves, self._dtypes, strict=True)
        arrays = [np.asarray(leaf, dtype) for leaf, dtype in pairs]
        given = [interleaved(each) if each.dtype.kind == "c" else each for each in arrays]
        found = zip(self.executable(*given), self._complex, strict=True)
        return tree.unflatten(
            self._results, [from_interleaved(each) if pair else each for each, pair in found]
        )

    def export(self, path: str) -> None:
        """Writes the compiled function, as `Executable.export` does."""
        self.executable.export(path)


def from_jax(
    function: Callable[..., Any],
    *examples: Any,
    options: Options | None = None,
    threads: int | None = None,
    **changes: Unpack[Changes],
) -> JaxFunction:
    """Compiles a function of JAX for arguments like the examples: arrays, numbers or
    `jax.ShapeDtypeStruct` in pytrees; sizes may be symbolic (`jax.export.symbolic_shape`).

        step = weft.from_jax(jax.value_and_grad(loss), parameters, batch)
        value, gradients = step(parameters, batch)

    Arrays that the function closes over become weights. `options`, `threads` and `changes` are as
    `weft.compile` has them. Raises UnsupportedError that lists what weft lacks of the function, or
    where JAX is not installed (`pip install 'weft[jax]'`).
    """
    from weft.compiler.frontend.stablehlo.from_jax import lower_function

    name = c_identifier(getattr(function, "__name__", "function"))
    lowered = lower_function(function, examples, name)
    model: Any = lowered.imported
    executable = compile(model, options=options, threads=threads, **changes)
    return JaxFunction(executable, lowered)
