"""Examples as doctests, in which the place of an error is shown as the prompt does, zeros that were
rounded have any sign, and empty lines are part of what is shown.
"""

import doctest
import io
import re
from typing import Any

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        got = re.sub("<doctest [^>]*>", "<stdin>", got)
        return super().check_output(_without_signs(want), _without_signs(got), optionflags)


def _without_signs(text: str) -> str:
    return re.sub(r"-0\.(?!\d)", "0.", text.replace("-0.j", "+0.j"))


def globals_after(text: str) -> dict[str, Any]:
    """The names that an example defines."""
    names: dict[str, Any] = {}
    for each in doctest.DocTestParser().get_examples(text):
        exec(each.source, names)
    return names


def require_shown(name: str, text: str, names: dict[str, Any]) -> None:
    """Runs an example; raises AssertionError where it shows something else than it says."""
    parsed = text.replace("\n\n", "\n<BLANKLINE>\n") + "\n"
    examples = doctest.DocTestParser().get_examples(parsed)
    test = doctest.DocTest(examples, names, name, None, None, text)
    shown = io.StringIO()
    doctest.DocTestRunner(_Checker(), optionflags=FLAGS).run(test, out=shown.write)
    assert not shown.getvalue(), shown.getvalue()
