"""The few kinds of errors that weft raises at its users.

A user's mistake is a `WeftError`: the command line prints its message as one line and exits with 1.
A mistake of weft's own is an `assert` with a sentence, and shows its traceback.

Messages read `<who> requires <rule>, got <facts>`, in lower case and with no full stop.
"""


class WeftError(Exception):
    """Something that the user can mend; the message names the file, the node and the rule."""


class ModelError(WeftError):
    """A model that is damaged, inconsistent or dangerous:
    the input of a front end breaks a rule of its format.
    """


class UnsupportedError(WeftError):
    """A sound model that uses what weft lacks; the message lists all such places at once."""


class TypeInferenceError(WeftError):
    """Operand types or attributes that an operator's rule does not allow."""


class SourceError(WeftError):
    """A Python program that source mode cannot compile; the message shows its file, line and place,
    the rule, and a way out.
    """


class InputError(WeftError):
    """A call of a compiled function with missing, superfluous or wrongly typed arguments."""


class AssertError(InputError, AssertionError):
    """An `assert` of a compiled program that does not hold; the message names its line."""


class ArtifactError(WeftError):
    """A compiled artifact that is damaged, foreign to this machine, or of another ABI version."""


class OptionError(WeftError):
    """An option, a target or a pipeline that does not exist or contradicts another."""


class IllegalSchedule(WeftError):
    """A schedule primitive that would change what the program means;
    the message names the accesses that clash.
    """


class PlanError(WeftError):
    """A decision about memory that weft cannot prove to keep the meaning of a program: a fault of
    weft's own. Nothing is emitted; the message names the kernel or buffer.
    """
