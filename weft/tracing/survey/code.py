"""Which values the code of a Python function may lead to: globals, and attributes of modules."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from opcode import EXTENDED_ARG, opmap
from types import CodeType
from typing import Any, Final

from weft.tracing.survey.unknown import Unknown

_GLOBAL: Final = opmap["LOAD_GLOBAL"]
_ATTRIBUTES: Final = {opmap[each] for each in ("LOAD_ATTR", "LOAD_METHOD") if each in opmap}
_SHIFTED: Final = 1 if sys.version_info >= (3, 12) else 0
"""How many low bits of an attribute's argument are no part of the name's number."""

_BETWEEN: Final = {opmap[each] for each in ("CACHE", "EXTENDED_ARG", "PRECALL") if each in opmap}
"""Instructions that do nothing to what lies on the stack."""

_REFUSED: Final = {
    opmap[each]
    for each in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_LOCALS")
    if each in opmap
}
"""Instructions whose effect is not in what a function returns, or whose names are not known."""


def code_digest(code: CodeType) -> str:
    """A hash of the code of a function, those in it, and the lines that it stands on."""
    text = hashlib.sha256()
    parts: list[object] = [
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
        code.co_filename, code.co_firstlineno, code.co_linetable, code.co_exceptiontable,
        code.co_qualname,
    ]  # fmt: skip
    for part in (*parts, *map(_constant, code.co_consts)):
        text.update(f"{part!r}\0".encode())
    return text.hexdigest()


def _constant(value: Any) -> object:
    """A constant of code, by what does not differ from process to process."""
    if isinstance(value, CodeType):
        return code_digest(value)
    if isinstance(value, frozenset):
        return sorted(map(repr, value))  # pyright: ignore[reportUnknownArgumentType]
    return value.__class__.__name__, value


def chains(code: CodeType) -> Iterator[tuple[str, ...]]:
    """The globals that a function and those in it read, each with the attributes of it that are
    read at once: `np.linalg.norm` is ("np", "linalg", "norm"). Raises Unknown for a function that
    imports, or changes its globals.
    """
    chain: list[str] = []
    extension = 0
    for op, given in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = given | extension
        extension = argument << 8 if op == EXTENDED_ARG else 0
        if op in _REFUSED:
            raise Unknown(f"{code.co_qualname} imports, or changes what is around it")
        if op == _GLOBAL:
            if chain:
                yield tuple(chain)
            chain = [code.co_names[argument >> 1]]
        elif chain and op in _ATTRIBUTES:
            chain.append(code.co_names[argument >> _SHIFTED])
        elif op not in _BETWEEN and chain:
            yield tuple(chain)
            chain = []
    if chain:
        yield tuple(chain)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from chains(constant)


def names_in(code: CodeType) -> set[str]:
    """All names that a function and those in it mention."""
    inner = (names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)
