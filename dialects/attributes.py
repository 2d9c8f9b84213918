"""Attributes are defined when they are first used, as operations are (`definitions.py`): a class
that is declared has its parameters' constraints made of its annotations when an attribute of it is
first verified, printed or parsed, or somebody asks for the definition.

Imported before xDSL's dialects; what was imported before it is right all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from xdsl.ir import ParametrizedAttribute, TypedAttribute
from xdsl.irdl import BaseAttr
from xdsl.irdl import attributes as declared
from xdsl.irdl.attributes import ParamAttrDef
from xdsl.utils.exceptions import PyRDLAttrDefinitionError
from xdsl.utils.runtime_final import runtime_final

Declared = TypeVar("Declared", bound=type[ParametrizedAttribute])

_TYPE: Final = "type"


def _declare(cls: Declared) -> Declared:
    """What xDSL's `irdl_param_attr_definition` does, but for the definition."""
    made: list[ParamAttrDef] = []

    def definition(_: Any) -> ParamAttrDef:
        if not made:
            made.append(ParamAttrDef.from_pyrdl(cls))
        return made[0]

    def type_index(cls: Any) -> int:
        names = [name for name, _ in cls.get_irdl_definition().parameters]
        if _TYPE not in names:
            rule = f"TypedAttribute {cls.__name__} requires a parameter '{_TYPE}'"
            raise PyRDLAttrDefinitionError(f"{rule}, got {names}")
        return names.index(_TYPE)

    members: dict[str, Any] = {"get_irdl_definition": classmethod(definition)}
    if issubclass(cls, TypedAttribute):
        members["get_type_index"] = classmethod(type_index)
    for name, member in members.items():
        setattr(cls, name, member)
    return runtime_final(dataclass(frozen=True, init=False)(cls))


def _relax(self: BaseAttr[Any], other: Any) -> Any:
    """What both allow, of which unions of types ask each pair: of two classes the same or none."""
    if type(other) is BaseAttr:
        return self if self.attr is other.attr else None
    return other.relax_constraint(self)


declared.irdl_param_attr_definition = _declare
BaseAttr.relax_constraint = _relax
