"""The few kinds of errors that weft raises at its users.

A user's mistake is a `WeftError`: the command line prints its message as one line and exits with 1.
A mistake of weft's own is an `assert` with a sentence, and shows its traceback.

Messages read `<who> requires <rule>, got <facts>`, in lower case and with no full stop.
"""

import builtins
import re
from functools import cache


def printable(text: object) -> str:
    """The text on one line of characters that can be seen: names in a model may hold line breaks,
    codes that terminals obey, and characters that change the direction of text.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)


def printable_lines(text: object) -> str:
    """The same for a text of several lines, whose ends and tabs stay."""
    return re.sub(r"[^\n\t]+", lambda piece: printable(piece[0]), str(text))


def shortened(text: str, most: int) -> str:
    """The start of a text and dots, of so many bytes of UTF-8; the text itself where it has no
    more.
    """
    data = text.encode()
    return text if len(data) <= most else f"{data[: max(0, most - 3)].decode(errors='ignore')}..."


class WeftError(Exception):
    """Something that the user can mend; the message names the file, the node and the rule. No
    character of a name in it reaches a terminal that would obey it.
    """

    def __str__(self) -> str:
        return printable_lines(super().__str__())


class ModelError(WeftError):
    """A model that is damaged, inconsistent or dangerous:
    the input of a front end breaks a rule of its format.
    """


class ModelWarning(UserWarning):
    """Something in a model that is not as it says, and of which weft knows what is meant; the
    message names the file, the place, the rule and what happens.
    """


class RecompileWarning(UserWarning):
    """A function of `weft.jit` was compiled many times; the message names the last reason."""


class UnsupportedError(WeftError):
    """A sound model that uses what weft lacks; the message lists all such places at once."""


class TypeInferenceError(WeftError):
    """Operand types or attributes that an operator's rule does not allow."""


class ExtentError(TypeInferenceError):
    """An extent, or the bytes of a tensor, that no memory can hold, or no extent at all."""


class SourceError(WeftError):
    """A Python program that source mode cannot compile; the message shows its file, line and place,
    the rule, and a way out. `statement` is the line and column of the statement of the compiled
    function itself that was refused, where it is one.
    """

    statement: tuple[int, int] | None = None


class InputError(WeftError):
    """A call of a compiled function with missing, superfluous or wrongly typed arguments."""


class CancelledError(WeftError):
    """A call that was told to end before it was done."""


class RankError(WeftError):
    """A call of a program on many ranks that one of them cannot take part in: it ended, or did not
    answer in time, or runs another program. The message names the rank.
    """


class AssertError(InputError, AssertionError):
    """An `assert` of a compiled program that does not hold; the message names its line."""


class RaisedError(InputError):
    """An exception that a compiled program raises; where it is one of Python's own, the error is of
    its class too.
    """


@cache
def raised_as(name: str) -> type[RaisedError]:
    """The class of errors for an exception of that name."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return type(name, (RaisedError, found), {})
    return RaisedError


class InvalidIndexError(WeftError, IndexError):
    """What stands in `x[...]` and is no index of an array; the message is NumPy's."""


class MissingNameError(WeftError, AttributeError):
    """A name of NumPy's that `weft.numpy` does not have."""


class ArtifactError(WeftError):
    """A compiled artifact that is damaged, foreign to this machine, or of another ABI version."""


class OptionError(WeftError):
    """An option, a target or a pipeline that does not exist or contradicts another."""


class BudgetError(WeftError):
    """A compilation that would use more operators, bytes or time than it may; the message names the
    limit and the option that raises it.
    """


class IllegalSchedule(WeftError):
    """A schedule primitive that would change what the program means;
    the message names the accesses that clash.
    """


class PlanError(WeftError):
    """A decision about memory that weft cannot prove to keep the meaning of a program: a fault of
    weft's own. Nothing is emitted; the message names the kernel or buffer.
    """
