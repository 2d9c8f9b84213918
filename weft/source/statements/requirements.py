"""`assert` and `raise` that hang on what only a call knows: the program ends with an error."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from weft.dialects.graph import AssertOp
from weft.dialects.graph.core.types import BOOL
from weft.dialects.printed import filled
from weft.source.expressions.attributes import item
from weft.source.run import Ended, Run
from weft.source.syntax import Location
from weft.source.values import Number
from weft.tracing.printing import Text, traced_in
from weft.tracing.traced import Traced

MOST_SHOWN: Final = 80
"""Characters of a condition."""
MOST_BYTES: Final = 400
"""Of a message: a context keeps 1023 bytes of an error, the file's name among them."""


def require(
    run: Run, test: bool | Number, condition: str, message: Any, location: Location
) -> None:
    """Ends the call with `AssertError` where the test does not hold. The message may show numbers
    that only a call knows. Raises SourceError for one that shows tensors.
    """
    r = run.recording
    text = Text.of(message)
    values = [_number(run, each, location) for each in traced_in(text)]
    got = filled(text.text, lambda number, _: "{}", "()") or "another value"
    if len(got.encode()) > MOST_BYTES:
        rule = f"the message of an assert requires at most {MOST_BYTES} bytes"
        raise location.refuse(rule, len(got.encode()), "print it in front")
    whole = f"assert requires {_shortened(condition)}, got {got}"
    b = r.builder()
    held = b.constant_of(False, BOOL) if isinstance(test, bool) else test.value
    b.builder.insert(AssertOp.of(held, whole, [each.value for each in values], b.location))
    run.note(location, "graph.assert")


def end_with_error(run: Run, shown: str, location: Location) -> NoReturn:
    """Ends the call with the exception of a `raise`, and the way that is read here."""
    b = run.recording.builder()
    text = f"raise {_shortened(shown)}"
    b.builder.insert(AssertOp.of(b.constant_of(False, BOOL), text, (), b.location))
    run.note(location, "graph.assert")
    raise Ended


def _shortened(condition: str) -> str:
    shown = condition.replace("{", "(").replace("}", ")")
    return shown if len(shown) <= MOST_SHOWN else f"{shown[: MOST_SHOWN - 3]}..."


def _number(run: Run, value: Traced, location: Location) -> Number:
    if value.type.size != 1:
        rule = "the message of an assert requires numbers"
        raise location.refuse(rule, str(value.type), "print the tensor in front of it")
    number = item(run, location, value)
    return number if number.python_type is not bool else Number(
        run.recording, int, run.recording.number_as(number, int).value
    )  # fmt: skip
