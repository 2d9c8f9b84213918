"""Programs made of functions that this computer has compiled before, which are found before the
compiler is imported.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from weft.array.operators import RUNNING
from weft.compiler.driver.options import Options
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import Cache, default_cache
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key
from weft.eager.tape import DEPTH
from weft.tracing.survey.known import PURE_BUILTINS
from weft.tracing.survey.survey import Survey, survey_of


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
        facts = self.cache.find_kernel(cache_key([self.key, "facts"]))
        compiled = None if facts is None else self.cache.find(self.key, self.options.target)
        return None if facts is None or compiled is None else (pickle.loads(facts), compiled)

    def keep(self, facts: Any, now: StoredProgram | None) -> None:
        """Keeps what a program has beside what was compiled under the key, if what it depends on is
        the same `now` that it is made: making it may have changed that.
        """
        if now is None or now.key != self.key:
            return
        self.cache.keep_kernel(cache_key([self.key, "facts"]), pickle.dumps(facts))


def stored_program(
    kind: str,
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
    said = [kind, survey.digest(), options.digest, *map(str, parts), interpreter, compiler_digest()]
    return StoredProgram(cache_key(said), options, survey, default_cache(os.environ))
