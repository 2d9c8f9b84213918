"""What a program captures: globals, closures and attributes of objects.

Arrays become inputs, which every call reads again; of everything else a guard remembers the value,
and a call that finds another one compiles again.
"""

from __future__ import annotations

from types import CellType, FunctionType, ModuleType
from typing import Any, cast

from msgspec import Struct, field
from xdsl.ir import Block

from weft.array.complex_numbers import separated
from weft.array.interleaved import interleaved
from weft.dialects.graph.core.dtypes import element_type
from weft.dialects.graph.core.types import tensor
from weft.dialects.weights import Array as NumpyArray
from weft.source.program import Captured, Guard, Read, elements_of, is_held
from weft.source.recording import SourceRecording
from weft.source.values import Array
from weft.tracing.recognize import is_traced_tensor
from weft.tracing.survey.known import is_known_class, is_known_function, is_known_module
from weft.tracing.survey.survey import HEAP_TYPE, same_class, same_function
from weft.tracing.traced import hint_of


class Captures(Struct):
    """Reads the captures of a program. With `frozen` arrays become constants of the graph."""

    recording: SourceRecording
    entry: Block
    """The function's own block, whose arguments the inputs are."""
    frozen: bool = False
    guards: dict[tuple[object, ...], Guard] = field(default_factory=dict[tuple[object, ...], Guard])
    captured: list[Captured] = field(default_factory=list[Captured])
    _arrays: dict[tuple[object, ...], Array] = field(
        default_factory=dict[tuple[object, ...], Array]
    )
    _kept: list[object] = field(default_factory=list[object])

    @property
    def keys(self) -> tuple[tuple[object, ...], ...]:
        """What tells arrays that became inputs apart."""
        return tuple(self._arrays)

    def cell(self, cell: CellType, name: str) -> Any:
        """A variable of a function around the compiled one."""
        return self._read((id(cell),), name, lambda: cell.cell_contents, cell)

    def item(self, names: dict[str, Any], key: str, name: str) -> Any:
        """A global variable."""
        return self._read((id(names), key), name, lambda: names[key], names)

    def attribute(self, holder: Any, attribute: str, name: str) -> Any:
        """An attribute of an object that it captures."""
        read = lambda: getattr(holder, attribute)  # noqa: E731
        if isinstance(holder, type):
            self.watch_class(holder)
        known = isinstance(holder, ModuleType) and is_known_module(holder, {attribute})
        if known or (isinstance(holder, type) and is_known_class(holder)):
            return self.adopt(read(), name)
        return self._read((id(holder), attribute), name, read, holder)

    def adopt(self, value: Any, name: str) -> Any:
        """A value that an object that it captures holds: an array becomes an input."""
        if is_held(value):
            read = lambda: value  # noqa: E731
            return self._capture((id(value),), name, read, elements_of(value, name), value)
        if type(value) in (list, dict):
            self._hold(value, name)
        return value

    def watch_class(self, own: type) -> None:
        """Has calls look at what a class defines, and those that it inherits from."""
        for base in own.__mro__:
            if base.__flags__ & HEAP_TYPE and not is_known_class(base):
                name = f"that the class {base.__name__} is as it was"
                self.watch(Guard(name, same_class(base), value=True), base)

    def watch_function(self, function: FunctionType) -> None:
        """Has calls look at the code and the defaults of a function of the program's."""
        if not is_known_function(function):
            name = f"that the function {function.__qualname__} is as it was"
            self.watch(Guard(name, same_function(function), value=True), function)

    def watch(self, guard: Guard, keep: object) -> None:
        """Has calls look at something whose value only matters in being the same."""
        key = (guard.name, id(keep))
        if key not in self.guards:
            self._kept.append(keep)
            self.guards[key] = guard

    def _read(self, key: tuple[object, ...], name: str, read: Read, keep: object) -> Any:
        value = read()
        if is_traced_tensor(value):
            return value  # which the program has put there for a while
        if is_held(value):
            return self._capture(key, name, read, elements_of(value, name), keep)
        if key not in self.guards:
            self._kept.append(keep)
            self.guards[key] = Guard(name, read, value)
        if type(value) in (list, dict):
            self._hold(value, name)
        return value

    def _hold(self, value: Any, name: str) -> None:
        """Lists and dicts are watched item by item."""
        key = (id(value), "items")
        if key not in self.guards:
            self._kept.append(value)
            read = lambda: _items(value)  # noqa: E731
            self.guards[key] = Guard(f"an item of {name}", read, read())

    def _capture(
        self, key: tuple[object, ...], name: str, read: Read, array: NumpyArray, keep: object
    ) -> Any:
        if array.dtype.kind not in "biufc" and array.dtype.name != "bfloat16":
            return array
        if key not in self._arrays:
            self._kept.append(keep)
            self._arrays[key] = self._input(name, read, array)
        found = self._arrays[key]
        return separated(found) if array.dtype.kind == "c" else found

    def _input(self, name: str, read: Read, array: NumpyArray) -> Array:
        r = self.recording
        pairs = interleaved(array) if array.dtype.kind == "c" else array
        if self.frozen:
            found = r.constant(pairs)
            return Array(r, found.value, f"{name}, which is outside of this function")
        self.captured.append(Captured(name, read, array.dtype, array.shape))
        tensor_type = tensor(pairs.shape, element_type(pairs.dtype))
        value = self.entry.insert_arg(tensor_type, len(self.entry.args))
        value.name_hint = hint_of(name).replace(".", "_")
        return Array(r, value, f"{name}, which is outside of this function")


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(cast("dict[Any, Any]", value).items() if type(value) is dict else value)
