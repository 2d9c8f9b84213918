"""Object files of the user's that become part of an artifact: what they may need, and names."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from weft.compiler.machine.elf.link import link_shared
from weft.compiler.machine.elf.object_file import RelocatableObject, read_object
from weft.compiler.machine.elf.records import machine_name
from weft.compiler.machine.elf.rename_symbols import renamed
from weft.compiler.machine.elf.symbols import undefined_names
from weft.dialects.errors import ArtifactError, WeftError

_MEMORY: Final = "memchr memcmp memcpy memmove memset calloc free malloc realloc"
_TEXTS: Final = (
    "strchr strcmp strcpy strcat strlen strncmp strncpy strncat strpbrk strrchr strspn strcspn "
    "strstr strtok_r strtod strtof strtol strtoul"
)
_OTHERS: Final = "abort abs labs llabs bsearch qsort"
_OF_COMPILERS: Final = "__memcpy_chk __memmove_chk __memset_chk __stack_chk_fail __tls_get_addr"
C_FUNCTIONS: Final = frozenset(" ".join((_MEMORY, _TEXTS, _OTHERS, _OF_COMPILERS)).split())
"""Functions of C's that libc itself has, by the names that compilers call them with."""


def read_native_object(data: bytes, function: str) -> RelocatableObject:
    """An object file with a function. Raises ArtifactError for a damaged one, for one that does not
    define the function, or needs what libc does not have, which it names.
    """
    rule = f"the native kernel {function} requires an object that"
    found = read_object(data, f"the native kernel {function}")
    if function not in (shown := _shown(found)):
        got = ", ".join(sorted(shown)) or "nothing"
        raise ArtifactError(f"{rule} defines {function} for others, got {got}")
    missing = undefined_names([found]) - C_FUNCTIONS
    if missing:
        got = ", ".join(sorted(missing))
        advice = "'ld -r' joins what it needs into one object"
        raise ArtifactError(f"{rule} needs functions of libc alone, got {got} ({advice})")
    return found


def _shown(found: RelocatableObject) -> set[str]:
    """The names that others may refer to."""
    return {each.name for each in found.symbols if each.is_defined and not each.is_local}


def check_native_object(data: bytes, function: str) -> None:
    """Raises ArtifactError as `read_native_object`, and UnsupportedError for an object that weft's
    linker lacks the means for.
    """
    read_native_object(data, function)
    try:
        link_shared([data], soname=function, exports=[function], out=BytesIO())
    except WeftError as error:
        advice = "it takes plain functions, compiled with -fPIC"
        raise type(error)(f"the native kernel {function}: {error} ({advice})") from error


def own_object(data: bytes, function: str, arch: str, start: str) -> bytes:
    """The object file for an artifact of an architecture, with `start` in front of all that it
    shows to others. Raises ArtifactError as `read_native_object`, and for another architecture.
    """
    found = read_native_object(data, function)
    if machine_name(found.machine) != arch:
        rule = f"the native kernel {function} requires an object for {arch}"
        raise ArtifactError(f"{rule}, got one for {machine_name(found.machine)}")
    shown = _shown(found)
    return renamed(data, lambda name: f"{start}{name}" if name in shown else name)


def taken_from_libc(metadata: Mapping[str, Any]) -> set[str]:
    """The functions of libc that object files of the user's in an artifact call."""
    return {name for each in metadata.get("native_calls", ()) for name in each.get("libc", ())}
