"""Everything that a function of a program may depend on, walked through once: its code, the
globals, closures and attributes that the code leads to, and what these hold.

The hash of all that is a key by which another process finds what was made of the function. It may
take in more than the function reads, never less: what has no content that can be told (files,
clocks, generators of random numbers, code in C that is not known to be a function of its arguments
alone) makes that there is no key.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from operator import is_
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field

from weft.array.complex_numbers import Complex
from weft.dialects.weights import digest_of
from weft.eager.tape import is_differentiated
from weft.eager.tensor import Tensor, array_of
from weft.tracing.survey.code import chains, code_digest, names_in
from weft.tracing.survey.known import (
    PURE_BUILTINS,
    is_known_class,
    is_known_function,
    is_known_module,
)
from weft.tracing.survey.unknown import Unknown

_PLAIN: Final = frozenset((bool, int, float, complex, str, bytes, type(None), type(...)))
"""Classes whose values are what their text says."""

HEAP_TYPE: Final = 1 << 9
"""The flag of classes that Python code made."""

_FIXED: Final = ("weft.array", "weft.tracing.spec", "weft.trees")
"""Modules whose objects never change."""

MOST_BYTES: Final = 1 << 28
"""Of arrays whose elements count: to hash them takes a fifth of a second."""

_MOST: Final = 20_000
"""Values that a walk looks at."""


def survey_of(
    values: Mapping[str, Any], *, contents: bool, allowed: frozenset[str] = PURE_BUILTINS
) -> Survey | None:
    """The walk from these values, by name; None where there is something whose content no hash has.
    `contents` says that elements of arrays count, else only their types do; `allowed` are those
    names of Python's that functions may use.
    """
    survey = Survey(contents, allowed)
    try:
        for name, value in values.items():
            survey.visit(value, name)
    except Unknown:
        return None
    return survey


class Observation(Struct, frozen=True):
    """A value that the walk found: its name, how to read it again, and whether another value there
    makes another program; arrays are read in each call.
    """

    name: str
    read: Callable[[], Any]
    value: Any
    guarded: bool


class Survey(Struct):
    """One walk; see `survey_of`. `observations` are found by what tells them apart in this process,
    in an order that is the same in each, and so are arrays; those that are `shared` were found more
    than once.
    """

    contents: bool
    allowed: frozenset[str]
    arrays: list[Any] = field(default_factory=list[Any])
    shared: set[int] = field(default_factory=set[int])
    bytes: int = 0
    observations: dict[tuple[object, ...], Observation] = field(
        default_factory=dict[tuple[object, ...], Observation]
    )
    _hash: Any = field(default_factory=hashlib.sha256)
    _seen: dict[int, int] = field(default_factory=dict[int, int])
    _kept: list[object] = field(default_factory=list[object])

    def digest(self) -> str:
        """The hash of all that was visited."""
        return self._hash.hexdigest()

    def visit(self, value: Any, name: str) -> None:
        """Takes in a value and what it holds. Raises Unknown."""
        if is_plain(value):
            return self._say(value.__class__.__name__, repr(value))
        number = self._seen.get(id(value))
        if number is not None:
            self.shared.add(id(value))
            return self._say("again", number)
        if len(self._seen) >= _MOST:
            raise Unknown(f"{name} is one of too many values")
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if isinstance(value, np.ndarray | Tensor):
            return self._array(value, name)
        if isinstance(value, Complex):
            return self._complex(value, name)
        if isinstance(value, type):
            return self._class(value, name)
        return self._visit_of(value)(value, name)

    def _visit_of(self, value: Any) -> Callable[[Any, str], None]:
        """What takes in a value of its class."""
        own: type[Any] = value.__class__
        visits: list[tuple[tuple[type, ...], Callable[[Any, str], None]]] = [
            ((list, tuple, dict), self._items),
            ((set, frozenset), self._set),
            ((FunctionType,), self._function),
            ((MethodType,), self._method),
            ((partial,), self._partial),
            ((property, staticmethod, classmethod), self._wrapper),
        ]
        for classes, visit in visits:
            if own in classes:
                return visit
        if hasattr(own, "_fields") and tuple in own.__mro__:
            return self._items
        is_compiled = callable(value) and not own.__flags__ & HEAP_TYPE
        return self._builtin if is_compiled else self._instance

    def _say(self, *parts: object) -> None:
        text = "\0".join(map(str, parts))
        self._hash.update(f"{len(text)}\0{text}".encode())

    def _note(
        self,
        key: tuple[object, ...],
        name: str,
        read: Callable[[], Any],
        value: Any,
        *,
        fixed: bool = False,
    ) -> None:
        """Notes a place, at which `fixed` values stay, and visits what is there."""
        guarded = not fixed and not isinstance(value, np.ndarray | Tensor | Complex)
        self.observations.setdefault(key, Observation(name, read, value, guarded))
        self.visit(value, name)

    def _watch(self, key: tuple[object, ...], what: str, same: Callable[[], bool]) -> None:
        """Notes something that has to stay as it is."""
        name = f"that {what} is as it was"
        self.observations.setdefault(key, Observation(name, same, value=True, guarded=True))

    def _array(self, value: Any, name: str) -> None:
        if isinstance(value, Tensor) and is_differentiated(value):
            raise Unknown(f"{name} is being differentiated")
        array: np.ndarray[Any, Any] = array_of(value) if isinstance(value, Tensor) else value
        if array.dtype.hasobject or type(value) not in (np.ndarray, Tensor):
            raise Unknown(f"{name} has elements that are objects")
        self._say("array", type(value).__name__, array.dtype, array.shape)
        self.observations.setdefault((id(value),), Observation(name, lambda: value, value, False))
        self.arrays.append(value)
        if self.contents:
            self.bytes += array.nbytes
            if self.bytes > MOST_BYTES:
                raise Unknown(f"{name} is one of arrays that take too long to hash")
            self._say(digest_of(array))

    def _complex(self, value: Complex, name: str) -> None:
        """Complex numbers: the arrays of their parts."""
        self._say("complex")
        self.observations.setdefault((id(value),), Observation(name, lambda: value, value, False))
        for part in value.parts:
            self.visit(part, name)

    def _items(self, value: Any, name: str) -> None:
        """A list, a tuple or a dict; lists and dicts may change."""
        own = value.__class__
        self._say(own.__module__, own.__qualname__, len(value))
        parts = [part for pair in value.items() for part in pair] if own is dict else list(value)
        if own in (list, dict):
            read = lambda: _items(value)  # noqa: E731
            item = f"an item of {name}"
            self.observations.setdefault(
                (id(value), "items"), Observation(item, read, read(), True)
            )
        for part in parts:
            self.visit(part, f"an item of {name}")

    def _set(self, value: Any, name: str) -> None:
        if not all(is_plain(each) for each in value):
            raise Unknown(f"{name} is a set of objects")
        self._say("set", *sorted(map(repr, value)))

    def _function(self, function: FunctionType, name: str) -> None:
        known = is_known_function(function)
        if not known and (function.__module__ or "").startswith("weft."):
            raise Unknown(f"{name} is a function of weft that reads more than its arguments")
        self._say("function", function.__module__, function.__qualname__, known)
        if not known:
            self._code(function, name)
            self._watch((id(function), "function"), f"the function {name}", same_function(function))
        code, cells = function.__code__, function.__closure__ or ()
        for variable, cell in zip(code.co_freevars, cells, strict=True):
            read = lambda cell=cell: cell.cell_contents  # noqa: E731
            try:
                content = read()
            except ValueError as error:
                raise Unknown(f"{variable} of {name} has no value yet") from error
            if variable == "__class__":
                self._members(content, name)
            elif isinstance(content, ModuleType):
                self._module(content, names_in(code), variable)
            else:
                self._note((id(cell),), variable, read, content, fixed=known)
        self.visit(function.__defaults__, f"the defaults of {name}")
        self.visit(function.__kwdefaults__, f"the defaults of {name}")
        left_out = ("__wrapped__", "__signature__") if known else ("__wrapped__",)
        own = {key: each for key, each in vars(function).items() if key not in left_out}
        self.visit(tuple(own.items()), f"attributes of {name}")

    def _code(self, function: FunctionType, name: str) -> None:
        """The code of a function of the program's, and the globals that it reads."""
        code = function.__code__
        self._say(code_digest(code))
        names = function.__globals__
        for chain in sorted({*chains(code)}):
            key, *attributes = chain
            self._say("global", *chain)
            if key in names:
                read = lambda key=key: names[key]  # noqa: E731
                if isinstance(names[key], ModuleType):
                    self._chain(names[key], attributes, names_in(code), key)
                else:
                    self._note((id(names), key), key, read, names[key])
            elif not hasattr(builtins, key):
                raise Unknown(f"{key} is not defined yet")
            elif key not in self.allowed:
                raise Unknown(f"{name} calls {key}")

    def _chain(self, module: ModuleType, attributes: list[str], names: set[str], name: str) -> None:
        """What attributes of a module lead to."""
        value: Any = module
        known = is_known_module(module, names)
        for position, attribute in enumerate(attributes):
            if not hasattr(value, attribute):
                raise Unknown(f"{name} has no {attribute} yet")
            holder, value, name = value, getattr(value, attribute), f"{name}.{attribute}"
            inner = known and value.__class__ is SimpleNamespace and position + 1 < len(attributes)
            if not isinstance(value, ModuleType) and not inner:  # such as weft.numpy.fft
                self._say("module", *attributes[: position + 1])
                read = partial(getattr, holder, attribute)
                return self._note((id(holder), attribute), name, read, value, fixed=known)
        return self._module(value, names, name)

    def _module(self, module: ModuleType, names: set[str], name: str) -> None:
        """A module as a value: all of it that the code names."""
        self._say("module", module.__name__)
        if is_known_module(module, names):
            return
        if "getattr" in names or module.__name__.partition(".")[0] in ("weft", "numpy"):
            raise Unknown(f"what is read of {name} is not known")
        for each in sorted(names & vars(module).keys()):
            value = vars(module)[each]
            if isinstance(value, ModuleType):
                raise Unknown(f"{name}.{each} is a module that is read by another name")
            self._say(each)
            read = partial(getattr, module, each)
            self._note((id(module), each), f"{name}.{each}", read, value)

    def _method(self, method: MethodType, name: str) -> None:
        self._say("method")
        self.visit(method.__func__, name)
        self.visit(method.__self__, f"the object of {name}")

    def _partial(self, value: partial[Any], name: str) -> None:
        self._say("partial")
        for part in (value.func, value.args, value.keywords):
            self.visit(part, name)

    def _builtin(self, value: Any, name: str) -> None:
        if not is_known_function(value):
            raise Unknown(f"{name} is compiled code")
        self._say("builtin", value.__module__, value.__qualname__)

    def _wrapper(self, value: Any, name: str) -> None:
        """A descriptor: a property, a static method or a class method."""
        self._say(value.__class__.__name__)
        if isinstance(value, property):
            parts = (value.fget, value.fset, value.fdel)
        else:
            parts = (value.__func__,)
        for part in parts:
            self.visit(part, name)

    def _class(self, value: type, name: str) -> None:
        """A class as a value, which the program may make an object of: layers begin with random
        numbers.
        """
        if hasattr(value, "construct") and value.__module__.startswith("weft."):
            raise Unknown(f"{name} makes layers")
        self._say("class", value.__module__, value.__qualname__)
        if not is_known_class(value):
            self._members(value, name)
            for base in value.__mro__:
                if "__init__" in vars(base) and base.__flags__ & HEAP_TYPE:
                    self.visit(vars(base)["__init__"], f"{name}.__init__")

    def _members(self, value: type, name: str) -> None:
        """What classes of the program's define for their objects."""
        for base in value.__mro__:
            is_base = base is object or base.__module__ == "msgspec._core"
            if not base.__flags__ & HEAP_TYPE and not is_base:
                raise Unknown(f"{name} is an object of code that is compiled")
            if is_base or is_known_class(base):
                continue
            if base.__module__.startswith("weft."):
                raise Unknown(f"{name} is an object of weft that is not what its attributes say")
            self._watch((id(base), "class"), f"the class {base.__name__}", same_class(base))
            for key, member in sorted(vars(base).items()):
                function = isinstance(member, FunctionType)
                if key == "__init__" or key.startswith("__") and not function:
                    continue
                if not isinstance(member, MemberDescriptorType | GetSetDescriptorType):
                    self._say(key)
                    self.visit(member, f"{name}.{key}")

    def _instance(self, value: Any, name: str) -> None:
        """An object: its class, and its attributes."""
        parts = getattr(value.__class__, "survey_parts", None)
        if parts is not None:
            self._say("object", value.__class__.__qualname__)
            self.visit(parts(value), name)
            return
        own = value.__class__
        self._say("object", own.__module__, own.__qualname__)
        self._members(own, name)
        fixed = own.__module__.startswith(_FIXED)
        slots = [each for each in _slots(own) if hasattr(value, each)]
        held: Mapping[str, Any] = getattr(value, "__dict__", {})
        if not slots and not held and not hasattr(value, "__dict__"):
            raise Unknown(f"{name} is an object whose content is not known")
        if not fixed:
            kept = same_attributes(value)
            self._watch((id(value), "attributes"), f"the attributes of {name}", kept)
        for key in (*slots, *held):
            read = lambda key=key: getattr(value, key)  # noqa: E731
            content = held[key] if key in held else read()
            self._say(key)
            self._note((id(value), key), f"{name}.{key}", read, content, fixed=fixed)


def is_plain(value: object) -> bool:
    """Whether the text of a value says what it is."""
    return value.__class__ in _PLAIN or isinstance(value, np.generic | np.dtype)


def same_class(own: type) -> Callable[[], bool]:
    """Whether what a class itself defines is still what it is now, in some tenths of a
    microsecond.
    """
    before = _content(own)
    return lambda: len(own.__dict__) * 2 == len(before) and all(map(is_, _content(own), before))


def _content(own: type) -> tuple[Any, ...]:
    held = own.__dict__
    return (*held, *held.values())


def same_function(function: FunctionType) -> Callable[[], bool]:
    """Whether the code and the defaults of a function are still those that it has now."""
    code, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
    return lambda: (
        function.__code__ is code
        and function.__defaults__ is defaults
        and function.__kwdefaults__ is named
    )


def same_attributes(value: object) -> Callable[[], bool]:
    """Whether an object still has the attributes of its own that it has now."""
    slots, held = _slots(value.__class__), getattr(value, "__dict__", {})
    before, present = [*held], [hasattr(value, each) for each in slots]
    return lambda: [*held] == before and [hasattr(value, each) for each in slots] == present


def _slots(own: type) -> list[str]:
    """The attributes of a class's objects that are not in their dict."""
    fields: tuple[str, ...] | None = getattr(own, "__struct_fields__", None)
    if fields is not None:
        return [*fields]
    slots = (base.__dict__.get("__slots__", ()) for base in own.__mro__)
    listed = ((each,) if isinstance(each, str) else tuple(each) for each in slots)
    return [name for each in listed for name in each if name not in ("__dict__", "__weakref__")]


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(cast("dict[Any, Any]", value).items() if type(value) is dict else value)
