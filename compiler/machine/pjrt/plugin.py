"""The plugin's native half in this process: it comes with weft, or is emitted and compiled."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.compiler.deferred import deferred
from weft.compiler.machine.codegen.prebuilt import OwnCode
from weft.compiler.machine.pjrt.declarations import API, ERROR, SET_COPY
from weft.compiler.target.target import Target

if TYPE_CHECKING:
    from weft.compiler.machine.codegen import object_code
    from weft.compiler.machine.pjrt import code
    from weft.compiler.target import features
else:
    code = deferred("weft.compiler.machine.pjrt.code")
    object_code = deferred("weft.compiler.machine.codegen.object_code")
    features = deferred("weft.compiler.target.features")

_MACHINE: Final = Path(__file__).parents[1]

_SOURCES: Final = (
    _MACHINE / "pjrt",
    _MACHINE / "python" / "entry_memory.py",
    _MACHINE / "codegen" / "code_generator.py",
    _MACHINE / "codegen" / "optimize.py",
)
"""What the code is made by: to emit it takes longer than to read these."""


def plugin_code(target: Target) -> OwnCode:
    """The plugin on an architecture."""
    name, compiled = f"weft_pjrt.{target.triple}", partial(_compile, target)
    return OwnCode(name, (API, ERROR, SET_COPY), (target.triple,), _SOURCES, compiled)


def _compile(target: Target) -> bytes:
    return object_code.compile_object(code.plugin_ir(target), features.baseline(target))
