"""Examples as doctests, which show the place of an error as the prompt does."""

import doctest
import io
import re
from typing import Any

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, re.sub("<doctest [^>]*>", "<stdin>", got), optionflags)


def globals_after(text: str) -> dict[str, Any]:
    """The names that an example defines."""
    names: dict[str, Any] = {}
    for each in doctest.DocTestParser().get_examples(text):
        exec(each.source, names)
    return names


def require_shown(name: str, text: str, names: dict[str, Any]) -> None:
    """Runs an example; raises AssertionError where it shows something else than it says."""
    examples = doctest.DocTestParser().get_examples(text + "\n")
    test = doctest.DocTest(examples, names, name, None, None, text)
    shown = io.StringIO()
    doctest.DocTestRunner(_Checker(), optionflags=FLAGS).run(test, out=shown.write)
    assert not shown.getvalue(), shown.getvalue()
