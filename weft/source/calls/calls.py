"""Calls: functions of the user's are read, Python's and NumPy's own are computed or become
operators.
"""

from __future__ import annotations

import ast
import contextlib
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial, reduce
from types import BuiltinMethodType, CellType, FunctionType, MethodType
from typing import Any, Final, cast

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.methods import SAME, VIEWS
from weft.array_api.table import BY_OBJECT, OBJECTS
from weft.dialects.graph import ConstantOp
from weft.eager.tensor import Tensor
from weft.source.calls.builtin_functions import ALWAYS, BUILTINS
from weft.source.calls.creation import CREATION, tensor_of
from weft.source.calls.functions import Function, bind
from weft.source.calls.generators import Generated, Managed, Resumed, is_generator
from weft.source.calls.modules import METHODS as MODULE_METHODS
from weft.source.expressions.conditions import refused_text
from weft.source.expressions.iteration import elements, stacked
from weft.source.expressions.operations import holds_dynamic, made, native
from weft.source.leaves import shown
from weft.source.run import MOST_CALLS, RETURNED, VALUE, Frame, Run
from weft.source.statements.requirements import end_with_error
from weft.source.syntax import Location, code_of
from weft.source.values import Array, Number, Spread
from weft.tracing.printing import Text
from weft.tracing.printing import print as weft_print
from weft.tracing.traced import Traced
from weft.trees import KNOWN, flatten_exactly, unflatten

_NATIVE: Final = {"weft", "xdsl", "numpy", *sys.stdlib_module_names}
_READ: Final = ("weft.nn",)
"""Modules of weft's own that are read like a user's."""
_ARRAYS: Final = (
    "weft.array.complex_numbers",
    "weft.array.methods",
    "weft.array.operators",
    "weft.source.values",
    *{each.__module__ for each in BY_OBJECT.values()},
)
"""Modules of functions of arrays."""
_JOINED: Final = {id(np.r_): OBJECTS["r_"], id(np.c_): OBJECTS["c_"]}
"""NumPy's objects whose brackets join arrays."""
_IMPURE: Final = ("random", "time", "secrets", "numpy.random")
_TAKING_TEXTS: Final = (print, weft_print, str, repr, format)
_SIDE_EFFECTS: Final = (input, open, exec, eval, compile, globals, locals, vars)


@dataclass(frozen=True)
class Interpreted:
    """A function of the user's, for functions of Python's own that call it."""

    run: Run
    function: Any

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.run.call(self.run, self.function, arguments, named, self.run.location)


def call(
    run: Run, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], location: Location
) -> Any:
    """Calls a value of the program."""
    match function:
        case Function():
            defaults = function.defaults, function.named_defaults
            names = bind(function.code, *defaults, arguments, named, location)
            around = function.around
            frame = Frame(function.code, names, around, around.cells, around.globals)
            return enter(run, frame, location)
        case Resumed():
            return enter(run, function.frame, location)
        case Interpreted():
            return call(run, function.function, arguments, named, location)
        case partial():
            bound = cast("partial[Any]", function)
            inner = bound.func
            if getattr(inner, "__module__", "").startswith("weft.source."):
                return made(run, inner(*bound.args, *arguments, **named))
            joined = {**bound.keywords, **named}
            return call(run, inner, [*bound.args, *arguments], joined, location)
        case MethodType():
            return call(run, function.__func__, [function.__self__, *arguments], named, location)
        case type():
            return _instantiate(run, function, arguments, named, location)
        case FunctionType() if function in MODULE_METHODS:
            return MODULE_METHODS[function](run, location, *arguments, **named)
        case FunctionType() if is_managed(function):
            return Managed(function.__wrapped__, arguments, named)  # pyright: ignore
        case FunctionType() if is_read(function):
            return _read(run, function, arguments, named, location)
        case _:
            return _other(run, function, arguments, named, location)


def is_read(function: FunctionType) -> bool:
    """Whether the source of a function is read, instead of calling it."""
    module = function.__module__ or ""
    own = module.split(".")[0] in _NATIVE or "site-packages" in function.__code__.co_filename
    return module.startswith(_READ) or not own


def is_managed(function: FunctionType) -> bool:
    """Whether the function makes a context manager of a generator whose source is read."""
    inner = getattr(function, "__wrapped__", None)
    made = function.__code__.co_filename == contextlib.__file__
    return made and isinstance(inner, FunctionType) and is_read(inner)


def _read(
    run: Run,
    function: FunctionType,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    location: Location,
) -> Any:
    run.captures.watch_function(function)
    return enter(run, frame_of(function, arguments, named, location), location)


def frame_of(
    function: FunctionType, arguments: Sequence[Any], named: Mapping[str, Any], location: Location
) -> Frame:
    """The call of a function that is read, before it runs."""
    code = code_of(function)
    defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    names = bind(code, *defaults, arguments, named, location)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return Frame(code, names, None, cells, function.__globals__)


def enter(run: Run, frame: Frame, location: Location) -> Any:
    """Runs a call of a function that is read; of a generator, what a loop runs."""
    if frame.resume is None and is_generator(frame.code.node):
        run.undo_log.make(frame.names)
        return Generated(frame)
    if run.depth > run.max_recursion:
        end_with_error(run, f"RecursionError('more than {run.max_recursion} calls')", location)
    if run.depth >= MOST_CALLS:
        rule = f"calls within each other require a depth of at most {MOST_CALLS}"
        advice = "end it with a condition that is known, or bound it with max_recursion="
        raise location.refuse(rule, "more", advice)
    run.depth += 1
    frame.names[RETURNED] = False
    run.undo_log.make(frame.names)
    try:
        node = frame.code.node
        if isinstance(node, ast.Lambda):
            return run.evaluate(run, frame, node.body)
        run.execute(run, frame, node.body)
        return _returned(run, frame)
    finally:
        run.depth -= 1


def _returned(run: Run, frame: Frame) -> Any:
    returned = run.flag(frame, RETURNED)
    value = frame.names.get(VALUE)
    if isinstance(returned, Number) and value is not None:
        leaves, _ = flatten_exactly(value)
        if any(leaf is not None for leaf in leaves):
            location = Location(frame.code.file, frame.code.node)
            rule = f"{frame.code.name} requires to return a value on every way, or on none"
            raise location.refuse(rule, "one way without", "end with a return")
    return value


def _instantiate(
    run: Run,
    instance_type: type,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    location: Location,
) -> Any:
    """Calls a class."""
    if instance_type is Tensor:
        return CREATION["asarray"](run, location, *arguments, **named)
    if instance_type in BUILTINS or instance_type.__module__.split(".")[0] == "numpy":
        return _other(run, instance_type, arguments, named, location)
    start = getattr(instance_type, "__init__", None)
    fresh = getattr(instance_type, "__new__", None)
    if (
        isinstance(start, FunctionType)
        and is_read(start)
        and fresh is object.__new__
        and (start.__code__.co_filename != "<string>")
    ):
        instance = run.undo_log.make(object.__new__(instance_type))
        call(run, start, [instance, *arguments], named, location)
        return instance
    found = native(location, instance_type, *arguments, **named)
    if issubclass(instance_type, BaseException):
        return found
    given = [id(each) for each in (*arguments, *named.values())]
    for field in fields(instance_type) if is_dataclass(instance_type) else ():
        value = getattr(found, field.name, None)
        if field.default_factory is not MISSING and id(value) not in given:
            run.undo_log.make(value)
    return run.undo_log.make(found)


def _other(
    run: Run, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], location: Location
) -> Any:
    """Calls what is not read."""
    _require_pure(function, location)
    values = [*arguments, *named.values()]
    texts = any(isinstance(value, Text) for value in values) or _joins_texts(function, values)
    if texts and not any(function is each for each in _TAKING_TEXTS):
        raise refused_text(location, f"a call of {getattr(function, '__name__', function)}")
    for value in values:
        _require_fresh(value, location)
    dynamic = texts or any(map(holds_dynamic, values))
    ufunc = getattr(function, "__self__", None)
    if dynamic and isinstance(ufunc, np.ufunc) and ufunc in BY_OBJECT:
        function = getattr(BY_OBJECT[ufunc], function.__name__)
    if function is reduce:
        return _reduce(run, arguments, location)
    if _is_hashable(function) and function in BUILTINS and (dynamic or function in ALWAYS):
        return BUILTINS[function](run, location, *arguments, **named)
    if _is_numpy(function):
        return _numpy(run, function, arguments, named, dynamic, location)
    method = getattr(type(function), "__call__", None)  # noqa: B004  the method is wanted
    original = getattr(function, "source_function", None)
    if original is not None:
        return call(run, original, arguments, named, location)
    if isinstance(method, FunctionType) and is_read(method):
        return call(run, method, [function, *arguments], named, location)
    return _native(run, function, arguments, named, dynamic, location)


def _joins_texts(function: Any, values: Sequence[Any]) -> bool:
    """Whether it is a method of a text, on a list with a text of what only a call knows."""
    lists = [each for each in values if isinstance(each, list | tuple)]
    joined = [each for found in lists for each in cast("Sequence[Any]", found)]
    holder = getattr(function, "__self__", None)
    return isinstance(holder, str) and any(isinstance(each, Text) for each in joined)


def _native(
    run: Run,
    function: Any,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    dynamic: bool,
    location: Location,
) -> Any:
    """Calls a function that is not read; functions of the user's that it calls are."""
    if not callable(function):
        raise location.refuse("a call requires a function", shown(function))
    module = getattr(function, "__module__", None) or ""
    if module == "weft.array_api.creation" and dynamic:
        return _created(run, function, arguments, named, location)
    if isinstance(function, BuiltinMethodType) and dynamic and module in ("builtins", "math"):
        rule = f"{function.__name__} requires values that are known while compiling"
        raise location.refuse(rule, "a tensor", "NumPy's functions take tensors")
    if module == "weft.autodiff.derivatives":
        arguments = [_floats_lifted(run, each) for each in arguments]
    passed = [_passed(run, each, location) for each in arguments]
    passed_by_name = {name: _passed(run, each, location) for name, each in named.items()}
    found = native(
        location, _with_interpreted_closure(run, function, location), *passed, **passed_by_name
    )
    if module in _ARRAYS:
        found = _seen(run, function.__name__, arguments, found)
    return made(run, _received(run, found))


def _seen(run: Run, name: str, given: Sequence[Any], found: Any) -> Any:
    """What a function of arrays gave, as a program sees it: a view shows the first array among the
    arguments, and what is no view is no other name of an argument either.
    """
    leaves, tree = flatten_exactly(found)
    given = flatten_exactly(list(given), KNOWN)[0]
    shown_ = [each for each in given if isinstance(each, Array)][: len(leaves)] or [None]
    seen: list[Any] = []
    for position, leaf in enumerate(leaves):
        first = shown_[position % len(shown_)]
        same = any(leaf is each for each in given)
        if isinstance(leaf, Array) and not (same and name in SAME):
            leaf = run.recording.array(leaf.value) if same else leaf
            if name in VIEWS and first is not None and leaf.ndim and not leaf.is_within(first):
                leaf.viewing(first, None)
        seen.append(leaf)
    return unflatten(tree, seen)


def _created(
    run: Run, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], location: Location
) -> Any:
    """A function of weft's that makes tensors, of sizes that only a call knows."""
    function_ = CREATION.get(function.__name__)
    if function_ is None:
        return made(run, _received(run, native(location, function, *arguments, **named)))
    return function_(run, location, *arguments, **named)


def _with_interpreted_closure(run: Run, function: Any, location: Location) -> Any:
    """A function of weft's own with the user's functions in its closure read."""
    if not isinstance(function, FunctionType) or not function.__closure__:
        return function
    cells = tuple(
        CellType(_passed(run, cell.cell_contents, location)) for cell in function.__closure__
    )
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _passed(run: Run, value: Any, location: Location) -> Any:
    if isinstance(value, list) and any(isinstance(each, Spread) for each in value):
        return stacked(run, value, location)
    method = getattr(type(value), "__call__", None)  # noqa: B004  the method is wanted
    if any(isinstance(each, FunctionType) and is_read(each) for each in (value, method)):
        return Interpreted(run, value)
    if isinstance(value, FunctionType) and value.__closure__:
        return _with_interpreted_closure(run, value, location)
    original = getattr(value, "source_function", None)
    return value if original is None else Interpreted(run, original)


def _floats_lifted(run: Run, value: Any) -> Any:
    """Arguments of derivatives with known numbers as a part of the graph, as derivatives are."""
    leaves, tree = flatten_exactly(value)
    lifted = [made(run, np.asarray(x) if isinstance(x, float) else x) for x in leaves]
    return unflatten(tree, lifted)


def _received(run: Run, value: Any) -> Any:
    """What a function of weft's own gave, with tensors that the program may change."""
    leaves, tree = flatten_exactly(value)
    if not any(isinstance(leaf, Traced | Tensor) for leaf in leaves):
        return value
    return unflatten(
        tree,
        [
            run.recording.array(leaf.value)
            if isinstance(leaf, Traced) and not isinstance(leaf, Array | Number)
            else made(run, leaf)
            for leaf in leaves
        ],
    )


def _reduce(run: Run, arguments: Sequence[Any], location: Location) -> Any:
    function, values, *start = arguments
    rest = elements(run, values, location)
    total = start[0] if start else rest.pop(0)
    for each in rest:
        total = call(run, function, [total, each], {}, location)
    return total


def _numpy(
    run: Run,
    function: Any,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    dynamic: bool,
    location: Location,
) -> Any:
    if not dynamic:
        return made(run, native(location, function, *arguments, **named))
    name = function.__name__
    if isinstance(function, type) and issubclass(function, np.generic):
        return run.recording.array(tensor_of(run, arguments[0], location).astype(function).value)
    if name in CREATION and function is getattr(np, name):
        return CREATION[name](run, location, *arguments, **named)
    joined = _JOINED.get(id(arguments[0])) if name == "__getitem__" else None
    if joined is not None:
        function_, arguments = joined.__getitem__, arguments[1:]
    else:
        function_ = BY_OBJECT.get(function)
    if function_ is None:
        constants = [_constant_of(run, each) for each in arguments]
        if not any(map(holds_dynamic, [*constants, *named.values()])):
            return made(run, native(location, function, *constants, **named))
        rule = "source mode requires functions of NumPy that it knows"
        raise location.refuse(rule, f"{name} of a tensor", "write it with others")
    passed = [_passed(run, each, location) for each in arguments]
    passed_by_name = {key: _passed(run, each, location) for key, each in named.items()}
    try:
        found = native(location, function_, *passed, **passed_by_name)
    except TypeError as error:
        rule = f"np.{name} requires arguments that weft knows"
        raise location.refuse(rule, str(error).partition(") ")[2] or str(error)) from error
    return made(run, _received(run, _seen(run, name, arguments, found)))


def _constant_of(run: Run, value: Any) -> Any:
    """The elements of an array that is a constant of the graph; any other value as it is."""
    if isinstance(value, Array) and isinstance(value.value.owner, ConstantOp):
        return value.value.owner.array(run.recording.weights)
    return value


def _require_fresh(value: Any, location: Location) -> None:
    """Refuses parts of arrays that were changed since, within lists too."""
    if isinstance(value, Array) and value.stale:
        rule = "a part of an array requires that the array stays as it is"
        raise location.refuse(rule, "one that was changed since", "take a copy: x[i].copy()")
    if isinstance(value, list | tuple | Complex):
        for each in value.parts if isinstance(value, Complex) else cast("Sequence[Any]", value):
            _require_fresh(each, location)


def _is_hashable(value: Any) -> bool:
    return type(value).__hash__ is not None


def _is_numpy(function: Any) -> bool:
    module = getattr(function, "__module__", None) or ""
    return isinstance(function, np.ufunc) or module.split(".")[0] == "numpy"


def _require_pure(function: Any, location: Location) -> None:
    """Refuses what gives another answer with each call, or acts on the world."""
    holder = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    numpys = sys.modules.get("numpy.random")  # whose objects nobody has who has not imported it
    drawn = () if numpys is None else (numpys.RandomState, numpys.Generator)
    stateful = isinstance(holder, (random.Random, *drawn))
    if stateful or module.startswith(_IMPURE) or any(function is each for each in _SIDE_EFFECTS):
        rule = "a compiled function requires calls that give the same answer every time"
        advice = "call it before, and hand in what it gives as an argument"
        raise location.refuse(rule, getattr(function, "__name__", function), advice)
