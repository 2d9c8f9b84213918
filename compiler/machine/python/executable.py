"""A compiled model in this process: NumPy arrays in, NumPy arrays out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from weft.compiler.deferred import deferred
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.python.checked_call import CheckedCall
from weft.compiler.machine.python.fast_call import Call, fast_call
from weft.compiler.machine.python.host_calls import functions_called, host_caller
from weft.compiler.machine.python.strings import output_names, string_call
from weft.compiler.machine.python.thread_pool import Library
from weft.dialects.errors import InputError, OptionError, printable
from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.compiler.machine.python import executable_html, record_profile
    from weft.compiler.machine.python.exchange import Exchange
    from weft.compiler.machine.python.profile import Profile
else:
    executable_html = deferred("weft.compiler.machine.python.executable_html")
    record_profile = deferred("weft.compiler.machine.python.record_profile")


class Exporter(Protocol):
    """What writes an artifact for the same model."""

    def export_as(self, path: str | Path, *, linker: str = "weft") -> None:
        """Writes what the suffix says, and its header."""
        ...


class _Callable:
    """An object whose call is a call of its own `__call__`, with no function of Python's before."""

    __slots__ = ("__call__",)
    __call__: Call


class Executable(_Callable):
    """A compiled model. Call it with arrays by position or name, for a tuple of arrays; `run` takes
    and gives dicts.

    Raises InputError for arrays that are missing, superfluous or of another dtype or shape, and for
    values that an operator does not allow, and CancelledError after `cancel`. Calls from several
    threads are safe. Results have the same bits for any number of threads. In the main thread,
    Ctrl-C and other signals are attended to between the iterations of long loops. One that native
    code calls instead (`is_native`) makes nothing for quick calls from Python.
    """

    def __init__(
        self,
        library: Library,
        prefix: str,
        signature: Signature,
        *,
        threads: int | None = None,
        weights: Sequence[Array] | None = None,
        exporter: Exporter | None = None,
        metadata: Mapping[str, Any] | None = None,
        base: Executable | None = None,
        is_native: bool = False,
    ):
        self._prefix = prefix
        self._signature = signature
        self.compile_watched: Callable[[Sequence[str]], Executable] | None = None
        self.save_graph: Callable[[Path], None] | None = None
        self.page: Callable[..., Any] | None = None
        self.last_profile: Profile | None = None
        self.pipeline: Any = None
        self._exporter = exporter
        self.metadata = dict(metadata or {})
        shared = None if base is None else base._checked
        self._host_functions = functions_called(self.metadata)
        caller = host_caller() if self.metadata.get("host_calls") else 0
        self._checked = CheckedCall(
            library, prefix, signature, threads, weights, shared, host_caller=caller
        )
        quick = None if is_native else self.call_or(self._checked)
        call = quick or self._checked
        self._strings = string_call(call, signature.inputs, self.metadata)
        self.__call__ = self._strings or call

    def __repr__(self) -> str:
        inputs = ", ".join(map(_described, self.inputs))
        outputs = ", ".join(map(_described, self.outputs))
        return printable(f"<weft.Executable {self._prefix}({inputs}) -> ({outputs})>")

    def _repr_html_(self) -> str:
        return self.as_html()

    def as_html(self) -> str:
        """What notebooks show: the signature, and the last profile, or the flops, by operator."""
        return executable_html.executable_html(
            self._prefix, self.inputs, self.outputs, self.metadata, self.last_profile
        )

    def watch(self, *names: str) -> Executable:
        """The model, compiled again so that it gives further values of its graph, by their names: a
        model's own, or those that the program gave with `weft.watch`. They stand behind its own
        outputs, and those of loops last, which stack them: loops in loops behind one another, where
        iterations give different numbers.

        Raises OptionError for values that the graph does not have, and where there is no graph any
        more, as for a model that was loaded from an artifact.
        """
        if self.compile_watched is None:
            raise OptionError(
                f"watch requires the graph of {self._prefix}, got compiled code alone"
            )
        return self.compile_watched(names)

    def view(self, **how: Any) -> Any:
        """A page that shows the model from its graph to its assembly, memory and time, and in
        notebooks shows itself; `save(path)` writes it, `open()` has the browser show it. A model is
        compiled again for it. `how` are arguments of `weft.view.page`.

        Raises OptionError for a model of neither `weft.compile` nor `weft.load`.
        """
        if self.page is None:
            rule = "view requires a model of weft.compile or weft.load"
            raise OptionError(f"{rule}, got compiled code alone")
        return self.page(**how)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the inputs; a dim that varies is an expression."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the outputs but for those of strings."""
        return self._signature.outputs

    @property
    def donated(self) -> tuple[tuple[int, int], ...]:
        """Positions of inputs, and of the outputs that take their memory."""
        return self._signature.donated

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of sizes that inputs bring along."""
        return self._signature.symbols

    def call_or(
        self,
        otherwise: Callable[..., Any],
        failed: Callable[[InputError], None] | None = None,
        exchange: Exchange | None = None,
    ) -> Call | None:
        """A call that leaves to `otherwise` what it cannot take, and to `failed` to raise what a
        call failed with; None where this interpreter has none. With an `exchange` it takes a list
        of a framework's tensors.
        """
        checked = self._checked
        functions = {name: checked.address(name) for name in ("run", "workspace_size")}

        def fail(status: int) -> None:
            try:
                checked.fail(status)
            except InputError as error:
                if failed is not None:
                    failed(error)
                raise

        return fast_call(
            self._signature, self.metadata, checked.context, functions, otherwise, fail, exchange
        )

    def native_call(self) -> tuple[int, int, int]:
        """The context, the address of `m_run`, and the bytes of its workspace: what native code
        needs to call a model of constant sizes.
        """
        checked = self._checked
        size = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(checked.address("workspace_size"))
        return checked.context, checked.address("run"), size(None)

    def fail(self, status: int) -> None:
        """Raises InputError with the reason of a native call that failed."""
        self._checked.fail(status)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Runs the model on arrays by input name; returns them by output name. Raises as a call."""
        takes_names = self._strings is not None
        results = self(**inputs) if takes_names else self(*self._checked.arrange((), inputs))
        names = output_names(self._signature.outputs, self.metadata)
        return dict(zip(names, results, strict=True))

    def stream(self, inputs: Iterable[Any]) -> Iterator[tuple[Array, ...]]:
        """Runs the model on each of the inputs, and yields the results in their order. An input is
        an array, a sequence of arrays, or arrays by name. Where ranks are the stages of a pipeline,
        they work on several inputs at once; all have to take as many. Raises as a call.
        """
        if self.pipeline is not None:
            return self.pipeline.stream(inputs)
        return (call_with(self, given) for given in inputs)

    def profile(self, inputs: Mapping[str, Any] | Sequence[Any], *, calls: int = 25) -> Profile:
        """Runs the model so many times on the same inputs, by name or in order, and returns what
        each thread did when: kernels, waiting and what is between them, in nanoseconds. No other
        call may run in this executable meanwhile. Raises as a call, and OptionError for an artifact
        of a weft whose artifacts had no profile.
        """
        named = dict(inputs) if isinstance(inputs, Mapping) else None
        arrays = () if named is not None else tuple(inputs)
        if self._strings is None:
            arrays = self._checked.arrange(arrays, named or {})
            named = None
        donated = {source for source, _ in self.donated}

        def call() -> None:
            # What a call overwrites is not there for the next.
            given = [np.array(x) if n in donated else x for n, x in enumerate(arrays)]
            self(*given, **(named or {}))

        symbols = self._checked.symbols(arrays) if self._strings is None else {}
        made = record_profile.record_profile(
            self._checked, self._prefix, self.metadata, symbols, call, calls
        )
        self.last_profile = made
        return made

    def cancel(self) -> None:
        """Ends the calls that are running now, from another thread: each raises CancelledError when
        it comes to the next iteration of a loop whose length only a call knows. Others continue.
        """
        self._checked.cancel()

    def self_test(self) -> None:
        """Runs the model on its golden inputs, which it has with `self_test=True` of weft.compile.

        Raises ArtifactError where an output is off, OptionError for a model without golden inputs.
        """
        if "self_test" not in self.metadata:
            rule = "requires a model that was compiled with one"
            raise OptionError(f"self-test {rule}, got {self._prefix} without")
        self._checked.self_test()

    def export(self, path: str | Path, *, linker: str = "weft") -> None:
        """Writes what the suffix of `path` says: a shared object (.so) that needs libc only, a
        static library (.a), one relocatable object (.o) or a WebAssembly module (.wasm), and a C
        header beside it; or the optimised graph (.mlir), which compiles again, and its weights.
        `linker` of shared objects is weft, or ld, cc or ld.lld where they are installed.

        Raises OptionError for another suffix, for a model that came from such a file, or a graph
        that is not at hand, ArtifactError where none can be written, UnsupportedError for a linker
        that is missing.
        """
        if self._exporter is None:
            rule = "requires a model that was compiled in this process"
            raise OptionError(f"export {rule}, got one that was loaded")
        if Path(path).suffix != ".mlir":
            self._exporter.export_as(path, linker=linker)
        elif self.save_graph is None:
            rule = "export of a graph requires a model of weft.compile"
            raise OptionError(f"{rule}, got compiled code alone")
        else:
            self.save_graph(Path(path))


def call_with(call: Callable[..., Any], given: Any) -> Any:
    """A call with an array, a sequence of arrays, or arrays by name."""
    if isinstance(given, Mapping):
        return call(**given)
    return call(*given) if isinstance(given, list | tuple) else call(given)


def _described(spec: TensorSpec) -> str:
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.dims))}]"
