"""`holder.name`: of tensors, of what the program made, and of its surroundings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.methods import METHODS
from weft.source.calls.container_methods import CHANGING, change
from weft.source.expressions.conditions import refused_text
from weft.source.expressions.iteration import elements
from weft.source.program import Guard
from weft.source.run import Run
from weft.source.state import change_state, is_state
from weft.source.statements.changes import set_element
from weft.source.syntax import Location
from weft.source.undo_log import NameSlot, Slot
from weft.source.values import Number
from weft.tracing.printing import Text
from weft.tracing.traced import Traced

_CONTAINERS: Final = (list, dict, set)


def attribute(run: Run, holder: Any, name: str, text: str, location: Location) -> Any:
    """An attribute. Raises SourceError for one that tensors lack, AttributeError for others."""
    if isinstance(holder, Traced):
        return _of_tensor(run, holder, name, location)
    if isinstance(holder, Complex):
        return _of_complex(run, holder, name, location)
    if isinstance(holder, Text):
        raise refused_text(location, f"its method {name}")
    holder_type = type(holder)
    if holder_type in _CONTAINERS and name in CHANGING[holder_type]:
        return partial(change, run, holder, name, location)
    if holder_type in _CONTAINERS:
        return getattr(holder, name)
    made = run.undo_log.is_made(holder)
    if not made:
        run.captures.watch_class(holder_type)
    found = _static_attribute(holder_type, name)
    if isinstance(found, property) and isinstance(found.fget, FunctionType):
        return run.call(run, found.fget, [holder], {}, location)
    if isinstance(found, FunctionType) and name not in getattr(holder, "__dict__", ()):
        if not made:
            has_own = lambda: name in getattr(holder, "__dict__", ())  # noqa: E731
            run.captures.watch(Guard(f"whether {text} is its own", has_own, False), holder)
        return MethodType(found, holder)
    if made or isinstance(holder, super | BaseException):
        return getattr(holder, name)
    return run.captures.attribute(holder, name, text)


def _static_attribute(holder_type: type, name: str) -> Any:
    return next((vars(each)[name] for each in holder_type.__mro__ if name in vars(each)), None)


def item(run: Run, location: Location, x: Traced, *index: Any) -> Any:
    """The one element, or that at an index, as a number of Python."""
    if isinstance(x, Number):
        return x
    if index:
        flat = len(index) == 1 and not isinstance(index[0], tuple)
        x = (x.reshape(-1) if flat else x)[index[0] if len(index) == 1 else index]
    if x.type.size != 1:
        raise location.refuse("item requires one element", str(x.type))
    one = x if not x.ndim else x.reshape(())
    number_type = {"b": bool, "i": int, "u": int}.get(one.dtype.kind, float)
    wide = {bool: np.bool_, int: np.int64, float: np.float64}[number_type]
    return Number(run.recording, number_type, one.astype(wide).value)


def _tolist(run: Run, location: Location, x: Traced) -> Any:
    if not x.ndim:
        return item(run, location, x)
    return run.undo_log.make([_tolist(run, location, each) for each in elements(run, x, location)])


def _fill(run: Run, location: Location, x: Traced, value: Any) -> None:
    set_element(run, x, ... if x.ndim else (), value, location)


LANGUAGE: Final = {"item": item, "tolist": _tolist, "fill": _fill}
"""Methods of tensors that give numbers of Python, or change elements: a program's own matter."""


def _of_tensor(run: Run, holder: Traced, name: str, location: Location) -> Any:
    number = run.recording.number
    if isinstance(holder, Number) and name in ("real", "numerator"):
        return holder
    match name:
        case "shape":
            return tuple(number(dim) for dim in holder.type.shape)
        case "size":
            return number(holder.type.size)
        case "ndim":
            return holder.ndim
        case "dtype":
            return holder.dtype
        case "T":
            return holder.transpose()
        case _ if name in LANGUAGE:
            return partial(LANGUAGE[name], run, location, holder)
        case _ if hasattr(type(holder), name) and not name.startswith("_"):
            return getattr(holder, name)
        case _:
            choices = ", ".join(METHODS)
            rule = "a tensor requires an attribute that source mode knows"
            raise location.refuse(rule, name, f"it has shape, size, ndim, dtype, T and {choices}")


def _of_complex(run: Run, holder: Complex, name: str, location: Location) -> Any:
    if name in ("shape", "size"):
        return _of_tensor(run, holder.real, name, location)
    if name in ("item", "tolist"):
        advice = f"x.real.{name}() and x.imag.{name}() are numbers of Python"
        raise location.refuse(f"{name} requires real numbers", holder.dtype, advice)
    if name == "fill":
        return lambda value: set_element(run, holder, ..., value, location)
    if name.startswith("_") or not hasattr(type(holder), name):
        return _of_tensor(run, holder.real, f"_{name}", location)
    return getattr(holder, name)


@dataclass(frozen=True, eq=False)
class AttributeSlot(Slot):
    """An attribute of an object that the program made."""

    holder: Any
    name: str

    @property
    def owner(self) -> object:
        return self.holder

    @property
    def key(self) -> tuple[object, ...]:
        return id(self.holder), self.name

    def get(self) -> Any:
        return getattr(self.holder, self.name)

    def set(self, value: Any) -> None:
        setattr(self.holder, self.name, value)

    def __str__(self) -> str:
        return f"the attribute {self.name}"


def assign_attribute(run: Run, holder: Any, name: str, value: Any, location: Location) -> None:
    """`holder.name = value`."""
    is_part = isinstance(holder, Complex) and name in ("real", "imag")
    if is_part:
        set_element(run, getattr(holder, name), ..., value, location)
        return
    is_lent = (id(holder), name) in run.lent
    if is_state(holder, name) and not is_lent and not run.undo_log.is_made(holder):
        change_state(run, cast("Any", holder), name, value, location)
        return
    if not run.undo_log.is_made(holder) and not is_lent:
        rule = "an assignment to an attribute requires an object that this call has made"
        advice = "return the new value; the caller keeps it"
        raise location.refuse(rule, f"{name} of {_described(holder)}", advice)
    setter = _static_attribute(type(holder), name)
    if isinstance(setter, property) and isinstance(setter.fset, FunctionType):
        run.call(run, setter.fset, [holder, value], {}, location)
    elif hasattr(holder, "__dict__"):
        run.undo_log.assign(NameSlot(vars(holder), name), value)
    else:
        run.undo_log.assign(AttributeSlot(holder, name), value)


def _described(holder: Any) -> str:
    if isinstance(holder, Traced | np.ndarray):
        return "a tensor"
    if isinstance(holder, ModuleType):
        return f"the module {holder.__name__}"
    return f"a {type(holder).__name__} from outside" if not isinstance(holder, type) else "a class"
