"""What helps others to use a shared object: build files, an example in C, and bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from weft.compiler.machine.bindings.build_files import cmake, cmake_version, pkg_config
from weft.compiler.machine.bindings.example_c import example_c
from weft.compiler.machine.bindings.go import go
from weft.compiler.machine.bindings.library import Library
from weft.compiler.machine.bindings.python import python_module
from weft.compiler.machine.bindings.rust import rust

Form = Callable[[Library], str]
"""The text of one file."""

BINDINGS: Final[Mapping[str, Mapping[str, Form]]] = {
    "example-c": {"{stem}_example.c": example_c},
    "pc": {"{stem}.pc": pkg_config},
    "cmake": {"{stem}Config.cmake": cmake, "{stem}ConfigVersion.cmake": cmake_version},
    "python": {"{prefix}.py": python_module},
    "rust": {"{prefix}.rs": rust},
    "go": {"{prefix}_weft.go": go},
}
"""By their names on the command line: what their files are called, and who writes them. The name of
one of Go does not end as those that Go leaves out on other systems do.
"""
