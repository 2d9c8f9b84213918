"""What LLVM knows of this machine, asked for without llvmlite's Python: importing that takes five
times as long as to load the library and to ask.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NAMES: Final = {"darwin": "libllvmlite.dylib", "win32": "llvmlite.dll"}


def llvm_text(function: str) -> str:
    """The text that a function of llvmlite's library gives, such as "GetHostCPUName"."""
    text = ctypes.c_char_p()
    getattr(_library(), f"LLVMPY_{function}")(ctypes.byref(text))
    found = (text.value or b"").decode()
    _library().LLVMPY_DisposeString(text)
    return found


@cache
def _library() -> ctypes.CDLL:
    spec = find_spec("llvmlite")
    assert spec is not None, "weft requires llvmlite"
    assert spec.submodule_search_locations, "llvmlite is a package"
    (folder, *_) = spec.submodule_search_locations
    return ctypes.CDLL(str(Path(folder, "binding", _NAMES.get(sys.platform, "libllvmlite.so"))))
