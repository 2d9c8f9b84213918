"""The names of artifacts: what files beside each other are called, and what symbols start with."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Final

from weft.dialects.errors import OptionError

_BASE: Final = re.compile(r"[A-Za-z_+][A-Za-z0-9_.+-]*")

# With these as a prefix a model would have functions that libc has, such as pthread_create.
_OF_LIBC: Final = ("clnt", "cnd", "mtx", "pthread", "sem", "svc", "thrd", "timer", "tss")
# Types of the C header, and LLVM's intrinsics, start with these.
_OF_COMPILERS: Final = ("weft", "llvm")
_OF_RUST: Final = (
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue",
    "core", "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen",
    "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv",
    "pub", "ref", "return", "self", "Self", "static", "std", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
)  # fmt: skip
_OF_GO: Final = (
    "break", "case", "chan", "const", "continue", "default", "defer", "documentation", "else",
    "fallthrough", "for", "func", "go", "goto", "if", "import", "interface", "main", "map",
    "package", "range", "return", "select", "struct", "switch", "type", "var",
)  # fmt: skip
_TAKEN: Final = frozenset(
    (*_OF_LIBC, *_OF_COMPILERS, *_OF_RUST, *_OF_GO, *keyword.kwlist, *sys.stdlib_module_names)
)
"""What cannot start C functions, or cannot be what a module of Python, one of Rust or a package of
Go is called.
"""


def c_identifier(name: str) -> str:
    """The name as the prefix of C functions, of which bindings make modules and packages:
    `ResNet-50 (v2)` gives `ResNet_50_v2`, `class` gives `model_class`.
    """
    identifier = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    if not identifier or identifier[0].isdigit() or identifier in _TAKEN:
        return f"model_{identifier}".rstrip("_")
    return identifier


def base_name(path: Path) -> str:
    """What the files beside an artifact are called: `net` for `libnet.so`.

    Raises OptionError for a name that compilers, build systems and shells may take for something
    else.
    """
    name = path.name.removeprefix("lib")
    if not _BASE.fullmatch(name):
        rule = "requires a name of letters, digits, '_', '.', '+' and '-' that starts with"
        given = "-o (export's path) gives it another"
        raise OptionError(f"an artifact {rule} a letter, '_' or '+', got {name!r}; {given}")
    return Path(name).stem


def base_name_of_library(path: Path) -> str:
    """The same for a shared object that linkers find by it. Raises OptionError for others."""
    stem = base_name(path)
    if path.name != f"lib{stem}.so":
        rule = "what helps others to use a shared object requires one called lib<name>.so"
        raise OptionError(f"{rule}, got {path.name}")
    return stem
