"""Programs of JAX, compiled: portable artifacts of StableHLO become what the plugin's native code
calls.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from weft.compilation import compile_cached
from weft.compiler.deferred import deferred, fewer_collections
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.frontend.stablehlo.jaxlib_text import read_bytecode
from weft.compiler.frontend.stablehlo.platform import HOST_CALL
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key
from weft.compiler.machine.pjrt.declarations import OBJECTS
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import UnsupportedError
from weft.dialects.weights import Array
from weft.jax_plugin.description import Description
from weft.jax_plugin.options import device_counts

if TYPE_CHECKING:
    from weft.jax_plugin import import_program as importing
else:
    importing = deferred("weft.jax_plugin.import_program")


_DESCRIBED: Final = "jax"
"""The key of a program's description in the metadata that the cache has."""

_PREFIX: Final = "jax"
"""Of the symbols of all programs, which share what was read of the run time."""

_DESCRIPTIONS: Final = msgspec.json.Decoder(Description)

_NAME: Final = re.compile(r'(?<=^module )@("[^"]*"|[^\s"]+)')
"""A program's name, where its text has one: JAX's is that of a function."""


class Program:
    """A compiled program, and its structure in native code."""

    def __init__(self, described: Description, executable: Executable) -> None:
        self._executable = executable
        self._held: list[Any] = []
        self.structure: Any = OBJECTS["Executable"].structure()
        self.address = ctypes.addressof(self.structure)
        owner, results = self.structure, len(described.numbers)
        owner.references, owner.one, owner.itself = 1, 1, self.address
        self._set_text("name", described.name)
        self._set_text("fingerprint", f"{described.name} {id(self)}")
        owner.num_inputs, owner.num_outputs = described.inputs, results
        self._set_memories("input", owner.num_inputs)
        self._set_memories("output", owner.num_outputs)
        self._set("output_types", ctypes.c_int32, described.numbers)
        self._set("output_dims", ctypes.c_int64, [dim for each in described.dims for dim in each])
        self._set("output_ranks", ctypes.c_int64, [len(each) for each in described.dims])
        self._set("output_sizes", ctypes.c_int64, described.sizes)
        donors = {target: source for source, target in executable.donated}
        self._set("donors", ctypes.c_int64, [donors.get(at, -1) for at in range(results)])
        self._set("logical_ids", ctypes.c_int32, [0, 0])
        native = executable.native_call()
        owner.context, owner.run, owner.workspace_size = native

    def fail(self, status: int) -> None:
        """Raises what a call failed with."""
        self._executable.fail(status)

    def close(self) -> None:
        """Gives back what the structure refers to."""
        libc: Any = ctypes.CDLL(None)
        libc.free(ctypes.c_void_p(self.structure.workspace))
        self.structure.workspace = None

    def _set(self, member: str, c_type: Any, values: Sequence[int]) -> None:
        array = (c_type * max(1, len(values)))(*values)
        self._held.append(array)
        setattr(self.structure, member, ctypes.addressof(array))

    def _set_text(self, member: str, text: str) -> None:
        data = text.encode()
        buffer = ctypes.create_string_buffer(data)
        self._held.append(buffer)
        setattr(self.structure, member, ctypes.addressof(buffer))
        setattr(self.structure, f"{member}_size", len(data))

    def _set_memories(self, what: str, count: int) -> None:
        name = ctypes.create_string_buffer(b"device")
        self._held.append(name)
        self._set(f"{what}_kinds", ctypes.c_void_p, [ctypes.addressof(name)] * count)
        self._set(f"{what}_kind_sizes", ctypes.c_size_t, [len("device")] * count)


@fewer_collections()
def compile_program(code: bytes, options: bytes) -> Program:
    """Compiles a portable artifact with JAX's serialised options, unless the cache has it."""
    counts = device_counts(options)
    if counts != (1, 1):
        rule = "a program requires one device"
        raise UnsupportedError(f"{rule}, got {counts[0]} replicas of {counts[1]} partitions")
    described, compiled = _found_or_made(*read_bytecode(code, "program"))
    return Program(described, compiled.executable(is_native=True))


@functools.cache
def _common_options() -> tuple[Options, str]:
    """The options of all programs but for what they donate, and their hash."""
    plain = Options(artifact=Artifact(prefix=_PREFIX), brief=True)
    return plain, plain.digest


def _name_of(text: str) -> str:
    """What a program is called."""
    found = _NAME.search(text)
    return "program" if found is None else found[1].strip('"')


def _found_or_made(text: str, arrays: Sequence[Array]) -> tuple[Description, Compiled]:
    """A program with the functions of this process is in no cache; those that are alike but for
    their names are one.
    """
    cache, plain, digest = default_cache(os.environ), *_common_options()
    held = [hashlib.sha256(each.tobytes()).hexdigest() for each in arrays]
    key = cache_key([_NAME.sub("", text, 1), *held, digest, compiler_digest()])
    key = None if HOST_CALL in text else key
    if key is not None:
        found = cache.find(key, plain.target)
        if found is not None:
            described = _DESCRIPTIONS.decode(found.metadata[_DESCRIBED])
            return replace(described, name=_name_of(text)), found
    imported, donated, described = importing.import_program(text, arrays)
    options = plain.changed(donate=donated) if donated else plain
    compiled = compile_cached(imported, options, cache)
    if key is not None:
        metadata = {**compiled.metadata, _DESCRIBED: msgspec.json.encode(described).decode()}
        compiled = cache.keep(key, replace(compiled, metadata=metadata))
    return described, compiled
