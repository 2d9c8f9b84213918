"""What a module says of the compilation that it is in: the options that decide code, as attributes,
so that a pass reads them from the module and a text of it has them.

    builtin.module attributes {weft.options = {strict_fp = true}, weft.target = "x86-64-v4"} { .. }
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct, field, json
from msgspec.structs import FieldInfo, fields
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute

from weft.dialects.errors import OptionError

OPTIONS: Final = "weft.options"

Record = TypeVar("Record")


class CodeOptions(Struct, frozen=True):
    """The options of a compilation that decide which passes a module goes through, and what these
    and the emitters do: as the compiler's `Options` document them, but `schedules`, which are the
    calls of primitives by which kernels of these names are scheduled.
    """

    prefix: str = "weft"
    strict_fp: bool = False
    naive: bool = False
    check_indices: bool = False
    brief: bool = False
    timed: bool = False
    guarded: str = ""
    max_iterations: int | None = None
    max_weights_bytes: str = ""
    mesh: str = ""
    shard: tuple[str, ...] = ()
    stage: tuple[str, ...] = ()
    schedules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def code_options(module: ModuleOp) -> CodeOptions:
    """The options of a module; the defaults where it has none. Raises OptionError for unknown
    ones.
    """
    attribute = module.attributes.get(OPTIONS)
    return CodeOptions() if attribute is None else _read_options(attribute)


@lru_cache(maxsize=8)
def _read_options(attribute: Attribute) -> CodeOptions:
    """Ten passes of a compilation ask for the same."""
    return read_record(CodeOptions, attribute, OPTIONS)


def set_code_options(module: ModuleOp, options: CodeOptions) -> None:
    """Notes the options on a module: those that are not as by default."""
    module.attributes[OPTIONS] = _written_options(json.encode(options))


@lru_cache(maxsize=8)
def _written_options(encoded: bytes) -> DictionaryAttr:
    """All passes of a compilation are told of the same, and so are those of the next one."""
    return record_attribute(json.decode(encoded, type=CodeOptions))


def record_attribute(record: Any) -> DictionaryAttr:
    """The fields of a record that are not as by default.

    `CodeOptions(prefix="net")` -> `{prefix = "net"}`
    """
    return DictionaryAttr(
        {
            each.name: _attribute(value)
            for each in _fields(record.__class__)
            if (value := getattr(record, each.name)) != _default(each)
        }
    )


def read_record(record_class: type[Record], attribute: Attribute, name: str) -> Record:
    """The record that `record_attribute` wrote. Raises OptionError, which calls the attribute by
    its name, for fields that it does not have, lacks, or has with values of another type.
    """
    hints = _hints(record_class)
    given = attribute.data if isinstance(attribute, DictionaryAttr) else {"": attribute}
    values = {
        key: read_record(hints[key], each, f"{name}.{key}")
        if _is_record(hints.get(key))
        else _value(each)
        for key, each in given.items()
    }
    wrong = [key for key in values if key not in hints or not _fits(values[key], hints[key])]
    if wrong:
        choices = ", ".join(f"{key}: {_shown(hint)}" for key, hint in hints.items())
        got = ", ".join(f"{key or 'value'} = {given[key]}" for key in wrong)
        raise OptionError(f"{name} requires a dictionary of {choices}, got {got}")
    lacking = [key for key in _required(record_class) if key not in values]
    if lacking:
        raise OptionError(f"{name} requires {', '.join(lacking)}, got {attribute}")
    return record_class(**values)


@cache
def _hints(record_class: type[Any]) -> Mapping[str, Any]:
    """The annotated types by field, which take longer to find than all else here."""
    return get_type_hints(record_class)


@cache
def _fields(record_class: type[Any]) -> tuple[FieldInfo, ...]:
    return fields(record_class)


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def _default(each: Any) -> object:
    return each.default if each.default_factory is NODEFAULT else each.default_factory()


def _required(record_class: Any) -> list[str]:
    return [each.name for each in _fields(record_class) if _default(each) is NODEFAULT]


def _attribute(value: object) -> Attribute:
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, Struct):
        return record_attribute(value)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        return ArrayAttr([_attribute(each) for each in cast("tuple[object, ...]", value)])
    assert isinstance(value, Mapping), "options are texts, numbers, booleans and groups of them"
    pairs = cast("Mapping[str, object]", value)
    return DictionaryAttr({key: _attribute(each) for key, each in pairs.items()})


def _value(attribute: Attribute) -> object:
    """What `_attribute` wrote; the attribute itself where it cannot have."""
    match attribute:
        case IntegerAttr():
            number: int = attribute.value.data
            return bool(number) if attribute == BoolAttr.from_bool(bool(number)) else number
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            items: ArrayAttr[Attribute] = attribute
            return tuple(_value(each) for each in items)
        case DictionaryAttr():
            return {key: _value(each) for key, each in attribute.data.items()}
        case _:
            return attribute


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type."""
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return get_origin(hint) is tuple and all(_fits(each, get_args(hint)[0]) for each in items)
    if isinstance(value, dict):
        items = tuple(cast("dict[str, object]", value).values())
        return get_origin(hint) is Mapping and all(_fits(each, get_args(hint)[1]) for each in items)
    return type(value) is hint


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("collections.abc.", "")
