"""The target that a module is compiled for, as its attribute `weft.target`: a name that weft knows,
or every fact of a processor that was detected.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target
from weft.dialects.errors import OptionError
from weft.dialects.module_attributes import read_record, record_attribute

TARGET: Final = "weft.target"

GENERIC: Final = Target(
    name="generic",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64-v3",
    features=(),
    vector_bytes=32,
    vector_registers=16,
    has_fma=True,
    factor_registers=1,
)
"""What `weft-opt` compiles a module without a target for: 8 lanes of f32 and 16 registers, so that
golden tests do not depend on the machine.
"""


def target_of(module: ModuleOp) -> Target:
    """The target of a module, GENERIC where it has none. Raises OptionError for one that weft does
    not know.
    """
    return _read(module.attributes.get(TARGET, StringAttr(GENERIC.name)))


@lru_cache(maxsize=16)
def _read(attribute: Attribute) -> Target:
    """The target that an attribute says: passes of a compilation ask for the same one."""
    if isinstance(attribute, StringAttr):
        return named_target(attribute.data)
    return read_record(Target, attribute, TARGET)


def named_target(name: str) -> Target:
    """The target of that name. Raises OptionError for an unknown one."""
    choices = (*TARGETS, GENERIC)
    found = next((each for each in choices if each.name == name), None)
    if found is None:
        names = ", ".join(each.name for each in choices)
        raise OptionError(f"{TARGET} requires one of {names}, got {name}")
    return found


def set_target(module: ModuleOp, target: Target) -> None:
    """Notes the target on a module: its name where that says all."""
    module.attributes[TARGET] = _written(target)


@lru_cache(maxsize=16)
def _written(target: Target) -> Attribute:
    is_named = target in (*TARGETS, GENERIC)
    return StringAttr(target.name) if is_named else record_attribute(target)
