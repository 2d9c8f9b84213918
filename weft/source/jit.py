"""`jit`: a Python function is compiled from its source, once for each signature."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.array.operators import users_line
from weft.autodiff.custom import custom_vjp
from weft.autodiff.derivatives import vjp
from weft.compiler.deferred import deferred
from weft.compiler.driver.options import Changes, Options, require_keywords
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import RecompileWarning, WeftError
from weft.eager.tape import DEPTH, is_recorded
from weft.eager.tensor import Tensor
from weft.source.cached_calls import MOST_CACHED, UNKNOWN, CachedCall, as_tensors, is_value, sign
from weft.source.program import Program
from weft.source.signature import array_in, elements_in, kept_leaf, key_of, selects, shown_value
from weft.source.stored import chosen_options, constants_of, entry_of, found_program, keep_program
from weft.state import Change, as_before, put_back_on_error
from weft.tracing.recognize import is_traced_tensor
from weft.tracing.spec import Spec, names_of
from weft.trees import KNOWN, Structure, flatten_exactly, unflatten

if TYPE_CHECKING:
    from weft.dialects.graph.regions import effects
    from weft.source import compiling, interpret
    from weft.source.pieces import pieced
else:
    effects = deferred("weft.dialects.graph.regions.effects")
    compiling = deferred("weft.source.compiling")
    interpret = deferred("weft.source.interpret")
    pieced = deferred("weft.source.pieces.pieced")

MANY = 8
"""Compilations of a function, behind which it is told that there are so many."""

Specs = Sequence["Spec | None"] | Mapping[str, Spec]


class Compilation(Struct, frozen=True):
    """A function compiled for one signature."""

    signature: str
    reason: str
    program: Program
    executable: Executable
    watched: tuple[str, ...] = ()

    def broken(self) -> str | None:
        """What of the surroundings is not as it was when it was compiled; None where all is."""
        for guard in self.program.guards:
            difference = guard.broken()
            if difference is not None:
                return difference
        for captured in self.program.captured:
            if captured.fetch() is None:
                return f"{captured.name} has another dtype or shape"
        return None

    def call(self, arrays: Sequence[Any], given: Sequence[Any] = ()) -> Any:
        """Runs it on the arrays among the arguments, which were `given` as these values."""
        captured = [each.fetch() for each in self.program.captured]
        self.program.require_writable(given, captured)
        outputs = self.executable(*arrays, *captured)
        self.program.write(given, outputs)
        self.program.keep(outputs)
        result = self.program.rebuilt(outputs)
        if not self.watched:
            return result
        return result, dict(zip(self.watched, outputs[-len(self.watched) :], strict=True))


class Jitted:
    """What `jit` gives: a function that is compiled when it is called with a new signature."""

    def __init__(
        self,
        function: Callable[..., Any],
        specs: Specs,
        options: Mapping[str, Any],
        acts: bool = True,
        writes: bool = True,
    ):
        """Without `acts` nothing is printed and nothing required: that was done by another call.
        Without `writes` changes of arguments are refused.
        """
        functools.update_wrapper(self, function, updated=())
        self.source_function = function
        self._specs = specs
        self._options = dict(options)
        self._found: dict[object, list[Compilation]] = {}
        self._pulls: dict[object, Jitted] = {}
        self._cached_calls: dict[object, CachedCall] = {}
        self._last: tuple[str, ...] = ()
        self._acts = acts
        self._writes = writes and not specs

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if named or DEPTH.count:
            return self._looked_at(arguments, named)
        parts: list[object] = []
        arrays: list[Any] = []
        if not sign(arguments, parts, arrays):
            return self._looked_at(arguments, named)
        signature = tuple(parts)
        cached = self._cached_calls.get(signature)
        if cached is not None:
            found = cached(arrays)
            if found is not UNKNOWN:
                return found
        return self._looked_at(arguments, named, signature)

    def _looked_at(
        self,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        signature: tuple[object, ...] | None = None,
    ) -> Any:
        """A call that finds out what each argument is; with a signature it is remembered."""
        leaves, form = flatten_exactly((list(arguments), named), KNOWN)
        traced = next((leaf for leaf in leaves if is_traced_tensor(leaf)), None)
        if traced is not None:
            return traced.recording.run(self.source_function, *arguments, **named)
        if DEPTH.count and any(is_recorded(each) for each in leaves if isinstance(each, Tensor)):
            return self._differentiable(leaves, form)
        return self._run(leaves, form, arguments, named, signature)

    def _run(
        self,
        leaves: Sequence[Any],
        form: Structure,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        signature: tuple[object, ...] | None = None,
    ) -> Any:
        specs = self._specs_of(arguments, named) if self._specs else [None] * len(leaves)
        key = (form, *map(selects, leaves, specs))
        compilation = self._find(key, leaves, specs, form, named)
        arrays = [
            array_in(leaf if spec is None else np.asarray(elements_in(leaf), spec.dtype))
            for leaf, spec in zip(leaves, specs, strict=True)
            if spec is not None or is_value(leaf)
        ]
        tensors = any(isinstance(leaf, Tensor) for leaf in leaves)
        given = [leaf for leaf in leaves if is_value(leaf)]
        kept = signature is not None and len(arrays) == len(given)
        if kept and not (compilation.program.written or compilation.watched):
            if len(self._cached_calls) >= MOST_CACHED:
                self._cached_calls.clear()
            self._cached_calls[signature] = CachedCall.of(compilation, tensors)
        found = compilation.call(arrays, given)
        return as_tensors(found) if tensors else found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _differentiable(self, leaves: Sequence[Any], form: Structure) -> Any:
        """A call whose derivative is wanted, which is compiled as well: it starts anew from the
        arguments.
        """
        positions = [n for n, leaf in enumerate(leaves) if _is_float(leaf)]
        rest = [n for n, leaf in enumerate(leaves) if is_value(leaf) and n not in positions]

        def entered(tensors: Sequence[Any], others: Sequence[Any]) -> Any:
            given = list(leaves)
            for position, value in zip([*positions, *rest], [*tensors, *others], strict=True):
                given[position] = value
            return unflatten(form, given)

        def of(others: Sequence[Any]) -> Callable[..., Any]:
            def computed(*tensors: Any) -> Any:
                arguments, named = entered(tensors, others)
                return self(*arguments, **named)

            return computed

        def forward(*tensors: Any) -> Any:
            arguments, named = entered(tensors, others)
            with put_back_on_error() as log:
                found = self._run(
                    flatten_exactly((arguments, named), KNOWN)[0], form, arguments, named
                )
            changes.extend(log)
            return found, (tensors, others)

        def backward(saved: Any, cotangents: Any) -> Any:
            with as_before(changes):  # which the derivative starts from, too
                return self._pulls[key](saved, cotangents)

        def pull(saved: Any, cotangents: Any) -> Any:
            tensors, others = saved
            return vjp(of(others), *tensors)[1](cotangents)

        changes: list[Change] = []
        others = tuple(leaves[n] for n in rest)
        key = form, *(is_value(leaf) or key_of(leaf) for leaf in leaves), *positions
        if key not in self._pulls:
            self._pulls[key] = Jitted(pull, (), self._options, acts=False)
        return custom_vjp(of(others), forward, backward)(*(leaves[n] for n in positions))

    def view(self, *arguments: Any) -> Any:
        """A page about the function for such arguments, on which it is run; see `Executable.view`.
        Arrays of its surroundings are constants of it. Raises SourceError.
        """
        model = read_model(self.source_function, arguments)
        arrays = [array_in(each) for each in arguments if is_value(each)]
        page = import_module("weft.view")  # which stands above this module
        run = page.Run(
            inputs=dict(zip(model.input_names, arrays, strict=True)),
            threads=self._options.get("threads"),
        )
        return page.page(model, options=chosen_options(self, self._options), run=run)

    def watch(self, *names: str) -> Jitted:
        """The function compiled for values that it names with `weft.watch`, at any depth of its
        loops: a call returns its result, and these by name. Raises OptionError for other names.
        """
        return Jitted(self.source_function, self._specs, {**self._options, "watch": names})

    @property
    def compilations(self) -> tuple[Compilation, ...]:
        """All compilations, in no order."""
        return tuple(each for found in self._found.values() for each in found)

    def _repr_html_(self) -> str:
        from weft.compiler import html

        name = getattr(self, "__name__", "the function")
        rows = [[f"{name}({each.signature})", each.reason] for each in self.compilations]
        title = f"<b>{html.escaped(name)}</b>"
        if not rows:
            return f"<div>{title} was not called yet</div>"
        shown = html.table(["compiled for", "because"], rows)
        return f"<div>{title}{shown}{self.compilations[-1].executable.as_html()}</div>"

    def __repr__(self) -> str:
        return (
            f"<weft.jit {getattr(self, '__name__', 'function')}: {len(self.compilations)} compiled>"
        )

    def explain(self) -> str:
        """Why the function was compiled, each time, and what became of its statements."""
        name = getattr(self, "__name__", "the function")
        if not self._found:
            return f"{name} was not called yet"
        parts: list[str] = []
        for each in self.compilations:
            parts.append(f"{name}({each.signature})\n  compiled because {each.reason}")
            parts += [f"  {note}" for note in each.program.notes]
        return "\n".join(parts)

    def _specs_of(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Spec | None]:
        """The requested type of each leaf of the arguments."""
        names = [*names_of(self.source_function, len(arguments)), *named]
        found: list[Spec | None] = []
        for position, (name, value) in enumerate(
            zip(names, [*arguments, *named.values()], strict=True)
        ):
            if isinstance(self._specs, Mapping):
                spec = self._specs.get(name)
            else:
                spec = self._specs[position] if position < len(self._specs) else None
            found += [spec] * len(flatten_exactly(value, KNOWN)[0])
        return found

    def _find(
        self,
        key: object,
        leaves: Sequence[Any],
        specs: Sequence[Spec | None],
        form: Structure,
        named: Mapping[str, Any],
    ) -> Compilation:
        reason = ""
        for compilation in self._found.get(key, ()):
            difference = compilation.broken()
            if difference is None:
                return compilation
            reason = difference
        kept = [kept_leaf(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)]
        compilation = self._compile(kept, form, reason, named)
        self._found.setdefault(key, []).append(compilation)
        return compilation

    def _compile(
        self, kept: Sequence[Any], form: Structure, reason: str, named: Mapping[str, Any]
    ) -> Compilation:
        entered, entered_by_name = unflatten(form, kept)
        names = [*names_of(self.source_function, len(entered)), *named]
        values = [*entered, *entered_by_name.values()]
        shown = tuple(
            f"{name}: {shown_value(each)}" for name, each in zip(names, values, strict=True)
        )
        if not reason:
            before = ", ".join(each for each in self._last if each not in shown) or "absent"
            now = ", ".join(each for each in shown if each not in self._last)
            reason = f"{now}; was {before}" if self._found else "it was called for the first time"
        self._last = shown
        stored = entry_of(self, self._options, kept, form)
        found = None if stored is None else found_program(stored, self._options.get("threads"))
        watched: tuple[str, ...] = ()
        if found is None:
            program = self._read(kept, form)
            own, key = len(compiling.imported(program, "").output_names), None
            if stored is not None:
                key = stored.code_key(*map(str, constants_of(stored.survey, program)))
            executable = compiling.compile_program(program, self, key=key, **self._options)
            if self._options.get("watch"):
                watched = tuple(spec.name for spec in executable.outputs[own:])
            if stored is not None:
                keep_program(stored, program, entry_of(self, self._options, kept, form))
        else:
            program, executable = found
        self._warn_of_many(reason)
        return Compilation(", ".join(shown), reason, program, executable, watched)

    def _warn_of_many(self, reason: str) -> None:
        """Warns of a function that is compiled again and again."""
        count = len(self.compilations) + 1
        if count == MANY:
            name = getattr(self, "__name__", "the function")
            advice = "weft.Spec in specs= makes sizes and numbers inputs"
            text = f"{name} was compiled {count} times, now because of {reason} ({advice})"
            warnings.warn(f"{users_line()}: {text}", RecompileWarning, stacklevel=2)

    def survey_parts(self) -> tuple[object, ...]:
        """What a program that calls it depends on."""
        return self.source_function, self._specs, self._options, self._acts, self._writes

    def _read(self, kept: Sequence[Any], form: Structure) -> interpret.SourceGraph:
        """The graph for arguments, as `_compile` has them."""
        arguments = unflatten(form, kept)
        bound = {"writes": self._writes, "max_recursion": self._options.get("max_recursion")}
        read = interpret.read_function(self.source_function, *arguments, **bound)
        if not self._acts:
            effects.drop_effects(read.module)
            read = replace(read, states=())
        return read


def _is_float(leaf: Any) -> bool:
    """Whether a derivative may be wanted in it."""
    return isinstance(leaf, Tensor) and leaf.dtype.kind not in "biu"


def jit(
    function: Callable[..., Any] | None = None,
    *,
    specs: Specs = (),
    options: Options | None = None,
    threads: int | None = None,
    trap_nan: bool = False,
    max_recursion: int | None = None,
    fallback: str = "error",
    **changes: Unpack[Changes],
) -> Any:
    """Compiles a function from its source, when it is called and for what it is called with:
    conditions and loops over tensors become control flow of the compiled program.

    A signature is the dtypes and shapes of arrays, and the values of all else; a further one
    compiles again. `specs`, by position or name, are `weft.Spec`s for arguments whose sizes vary
    from call to call without compiling. What a function reads of its surroundings may change:
    arrays are read again in every call, another value of anything else compiles again.
    `explain()` of the result says why that happened, and what became of each statement; the eighth
    time RecompileWarning does. With
    `trap_nan` calls look at every value, and raise InputError that names the line which makes NaN
    or an infinity out of numbers. `max_recursion` bounds a recursion that a tensor ends: a call
    that goes deeper raises RecursionError. The options are those of `weft.compile`.

    With `fallback="python"` statements that cannot be compiled are run by Python, and those around
    them are compiled in pieces, for the sizes of each call; `breaks` and `explain()` of the result
    list them. Otherwise raises SourceError, which shows the line, for what cannot be compiled.
    """
    require_keywords(changes)
    given = {"options": options, "threads": threads, "trap_nan": trap_nan, **changes}
    given["max_recursion"] = max_recursion
    if fallback not in ("error", "python"):
        raise WeftError(f"jit requires fallback='error' or 'python', got {fallback!r}")

    def made(function: Callable[..., Any]) -> Any:
        whole = Jitted(function, specs, given)
        if fallback == "error":
            return whole
        return pieced.Pieced(function, whole, lambda piece: Jitted(piece, (), given, writes=False))

    return made if function is None else made(function)


def read_model(function: Callable[..., Any], specs: Sequence[Any]) -> ImportedModel:
    """The graph of a function with arguments like the examples, an array or a `weft.Spec` each;
    arrays of its surroundings become constants. Raises SourceError.
    """
    kept = [kept_leaf(each, None) for each in specs]
    program = interpret.read_function(function, kept, {}, frozen=True)
    model = compiling.imported(program, getattr(function, "__name__", "source").strip("<>"))
    if not model.output_names:
        raise WeftError(f"{model.name} requires a tensor or number as its result, got none")
    return model
