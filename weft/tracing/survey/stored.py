"""Programs made of functions that this computer has compiled before, which are found before the
compiler is imported.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from weft.array.operators import RUNNING
from weft.compiler.driver.options import Options
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import Cache, default_cache
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key
from weft.compiler.machine.python.executable import Executable
from weft.eager.tape import DEPTH
from weft.tracing.survey.known import PURE_BUILTINS
from weft.tracing.survey.survey import Survey, survey_of

_UNKNOWN_CLASS: Final = (pickle.PickleError, AttributeError, ImportError)
"""What pickle raises for classes that are found by no name."""


class StoredProgram(Struct, frozen=True):
    """The entry of a program, which may be there or not: its key, its options, and what the program
    depends on.
    """

    key: str
    options: Options
    survey: Survey
    cache: Cache

    def find(self) -> tuple[Any, Compiled] | None:
        """What was kept beside a compiled program, and the program."""
        metadata = self.find_metadata()
        compiled = None if metadata is None else self.find_code()
        return None if compiled is None else (metadata, compiled)

    def find_metadata(self) -> Any:
        """What was kept beside a compiled program; None where nothing was."""
        found = self.cache.find_kernel(cache_key([self.key, "metadata"]))
        try:
            return None if found is None else pickle.loads(found)
        except _UNKNOWN_CLASS:
            return None

    def find_code(self, *parts: str) -> Compiled | None:
        """The compiled program, if it is there; for `parts` see `code_key`."""
        return self.cache.find(self.code_key(*parts), self.options.target)

    def code_key(self, *parts: str) -> str:
        """The key of the compiled program, of which `parts` are known when its graph is made."""
        return cache_key([self.key, *parts]) if parts else self.key

    def keep(self, metadata: Any, now: StoredProgram | None) -> None:
        """Keeps what a program has beside what was compiled under the key, if what it depends on is
        the same `now` that it is made: making it may have changed that. Trees of classes that other
        processes do not find by name are not kept.
        """
        if now is None or now.key != self.key:
            return
        try:
            data = pickle.dumps(metadata)
        except _UNKNOWN_CLASS:
            return
        self.cache.keep_kernel(cache_key([self.key, "metadata"]), data)


def stored_program(
    mode: str,
    values: Mapping[str, Any],
    options: Options,
    *parts: object,
    contents: bool = True,
    allowed: frozenset[str] = PURE_BUILTINS,
) -> StoredProgram | None:
    """The entry of the program that is made of these values, of which one is a function, and of all
    that they lead to, see `survey_of`; `parts` are what else decides it. None where that cannot be
    told: see `survey_of`, or where another program is being made.
    """
    if DEPTH.count or RUNNING.get() is not None or options.mesh:
        return None
    survey = survey_of(values, contents=contents, allowed=allowed)
    if survey is None:
        return None
    interpreter = sys.implementation.cache_tag or sys.version
    said = [mode, survey.digest(), options.digest, *map(str, parts), interpreter, compiler_digest()]
    return StoredProgram(cache_key(said), options, survey, default_cache(os.environ))


def found_or_made(
    entry: Callable[[], StoredProgram | None],
    loaded: Callable[[Compiled], Executable],
    made: Callable[[str | None], tuple[Executable, Any]],
) -> tuple[Executable, Any]:
    """An executable and what is to be known beside it: out of the cache, where `entry` has it, or
    `made`, and kept under a key if there is one. `entry` is asked again when it is made.
    """
    stored = entry()
    found = None if stored is None else stored.find()
    if found is not None:
        (metadata, names_values), compiled = found
        executable = loaded(compiled)
        if names_values:
            executable.compile_watched = lambda names: made(None)[0].watch(*names)
        return executable, metadata
    executable, metadata = made(None if stored is None else stored.key)
    if stored is not None:
        stored.keep((metadata, executable.compile_watched is not None), entry())
    return executable, metadata
