"""The run time of artifacts -> its object. It is the same for all models, so that a process
compiles it once, beside the kernels of the first; what differs is data in other objects.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from weft.compiler.abi.constants import ABI_VERSION
from weft.compiler.driver.options import Options
from weft.compiler.driver.workers import KernelCode
from weft.compiler.loop_to_llvm.run_time import emit_run_time
from weft.compiler.loop_to_llvm.runtime import Level
from weft.compiler.loop_to_llvm.runtime.standalone import is_standalone
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.rename_symbols import ANY_PREFIX, rename_symbols
from weft.compiler.target.features import baseline, feature_groups
from weft.compiler.target.target import Target
from weft.compiler.version import VERSION

if TYPE_CHECKING:
    from weft.compiler.driver.compile_kernels import KernelStore

_MOST_OBJECTS: Final = 64


class RunTimeTask(Struct, frozen=True):
    """All that decides what the run time's code is, for any processor of the architecture."""

    target: Target
    prefix: str
    levels: tuple[Level, ...]
    keep_texts: bool = False

    @property
    def cost(self) -> int:
        """Less than that of any kernel: who was early is at it already."""
        return 0

    @property
    def keys(self) -> tuple[str]:
        """A hash of all that decides what the code is, the compiler aside."""
        return (hashlib.sha256(repr(self).encode()).hexdigest(),)

    def key_of(self, code: KernelCode) -> str:
        """The key: there is one."""
        return self.keys[0]

    def compile(self) -> KernelCode:
        """The object, which this process compiles once."""
        start = time.perf_counter()
        code = _OBJECTS.get(self)
        if code is None:
            text = emit_run_time(self.target, self.prefix, self.levels)
            code = compile_object(text, self.target)
            self.remember(code)
        return KernelCode(code, "", [], [], seconds={"run time": time.perf_counter() - start})

    def remember(self, code: bytes) -> None:
        """Keeps the object for other models of this process."""
        if len(_OBJECTS) >= _MOST_OBJECTS:
            _OBJECTS.clear()
        _OBJECTS[self] = code

    def is_known(self, store: KernelStore | None) -> bool:
        """Whether this process has the object, or has now found it in the store."""
        if self not in _OBJECTS and store is not None:
            data = store.find_kernel(*self.keys)
            if data is not None:
                self.remember(KernelCode.of_bytes(data).code)
        return self in _OBJECTS

    def object_for(self, prefix: str) -> bytes:
        """The object with the symbols of a model."""
        return rename_symbols(self.compile().code, self.prefix, prefix)


_OBJECTS: Final[dict[RunTimeTask, bytes]] = {}


def run_time_task(options: Options) -> RunTimeTask:
    """The task for all models with these options; where objects are ELF, of any prefix: there
    symbols get another name later.
    """
    prefix = compiled_prefix(options.prefix, options.target)
    levels = (
        Level(prefix + each.prefix.removeprefix(options.prefix), feature_groups(each.target))
        for each in options.levels()
    )
    return RunTimeTask(baseline(options.target), prefix, tuple(levels))


def compiled_prefix(prefix: str, target: Target) -> str:
    """What symbols start with in objects that are compiled for a model of that prefix: where they
    are ELF, other models can have them, too.
    """
    return prefix if is_standalone(target) else ANY_PREFIX


def identity(options: Options) -> dict[str, object]:
    """What is known of an artifact before anything is compiled."""
    return {
        "abi": ABI_VERSION,
        "weft": VERSION,
        "prefix": options.prefix,
        "triple": options.target.triple,
        "cpu": options.target.cpu,
        "features": features(options),
        "bounds": {each.name: [each.least, each.most] for each in options.bounds},
    }


def features(options: Options) -> list[str]:
    """Those that the target has."""
    return [name for name in options.target.features if name.startswith("+")]
