"""Operations are defined when they are first used: xDSL's dialects and weft's have 330 classes of
operations, of which a program has thirty. A class that is declared has what is asked of a class:
its name, its traits, how it is parsed and verified. Its operands, results and attributes become
fields, and its definition is made of them, when the first operation is made or somebody asks for
the definition; its assembly format is read when one is first printed or parsed.

What declares a dialect has xDSL's `Dialect` from here: an `irdl_op_definition` that was imported
before this module defines at once, and is right all the same.
"""

from __future__ import annotations

import weft.dialects.attributes  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Ahead of xDSL's dialects, whose attributes it defines later.
# isort: split
from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any, Final, TypeVar

from xdsl import irdl
from xdsl.ir import Dialect
from xdsl.ir.core import OpTraits
from xdsl.irdl import operations
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.irdl.operations import IRDLOperation, OpDef
from xdsl.parser import Parser
from xdsl.printer import Printer

from weft.dialects.fields import quicken, tell_quickly

__all__ = ["Dialect", "irdl_op_definition"]

Declared = TypeVar("Declared", bound=IRDLOperation)

_DEFINING: Final = RLock()


def irdl_op_definition(cls: type[Declared]) -> type[Declared]:
    """What xDSL's decorator does, of which it leaves to the first use what nobody may ask for."""
    text = cls.assembly_format
    members = {
        "traits": _traits(cls),
        "verify_": _verify(cls.verify_),
        "get_irdl_definition": _on_demand(cls),
        **({} if text is None else _of_format(text, cls)),
    }
    for name, member in members.items():
        setattr(cls, name, member)
    return cls


def _on_demand(cls: type[IRDLOperation]) -> Any:
    """The definition of a class, which is made once."""
    made: list[OpDef] = []

    def definition(_: type[IRDLOperation]) -> OpDef:
        with _DEFINING:
            if not made:
                made.append(_define(cls))
        return made[0]

    return classmethod(definition)


def _define(cls: type[IRDLOperation]) -> OpDef:
    """Gives a class its fields, and returns its definition."""
    text, cls.assembly_format = cls.assembly_format, None  # beside which xDSL lets nothing parse
    try:
        definition = OpDef.from_pyrdl(cls)
    finally:
        cls.assembly_format = text
    definition.traits = cls.traits
    members = operations.get_accessors_from_op_def(definition, None)
    definition.assembly_format = text
    del members["verify_"]
    for name, member in members.items():
        setattr(cls, name, member)
    quicken(cls)
    return definition


def _traits(cls: type[IRDLOperation]) -> OpTraits:
    """The traits of a class and of those that it is derived from."""
    declared = [vars(each)["traits"] for each in cls.__mro__ if "traits" in vars(each)]
    if len(declared) == 1:
        return declared[0]
    return OpTraits(lambda: tuple(trait for traits in declared for trait in traits.gen_traits()))


def _verify(custom: Callable[[Any], None]) -> Callable[[IRDLOperation], None]:
    def verify_(self: IRDLOperation) -> None:
        self.get_irdl_definition().verify(self)
        custom(self)

    return verify_


def _of_format(text: str, cls: type[IRDLOperation]) -> dict[str, Any]:
    """How a class of operations is parsed and printed."""
    assert not vars(cls).keys() & {"parse", "print"}, f"{cls.name} is printed by its format"

    @cache
    def program() -> FormatProgram:
        return FormatProgram.from_str(text, cls.get_irdl_definition())

    def parse(cls: type[IRDLOperation], parser: Parser) -> IRDLOperation:
        return program().parse(parser, cls)

    def print(self: IRDLOperation, printer: Printer) -> None:
        program().print(printer, self)

    return {"parse": classmethod(parse), "print": print}


irdl.irdl_op_definition = operations.irdl_op_definition = irdl_op_definition
tell_quickly()
