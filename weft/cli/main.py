"""`weft`: finds the command, and turns what goes wrong into one line and an exit status."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from weft.cli.parser import command_parser
from weft.cli.terminal import tell
from weft.compiler.version import VERSION
from weft.dialects.errors import WeftError

COMMANDS: Final[Mapping[str, str]] = {
    "compile": "compile a model to a shared object, or to any level on the way",
    "run": "run a model or an artifact on arrays",
    "inspect": "show what a model or an artifact takes, does and needs",
    "view": "show a model or an artifact on one page, from its graph to its assembly",
    "profile": "show where the time of a call goes, by kernel, operator and node",
    "verify": "check that an artifact is whole, and what it needs",
    "compare": "show how far two forms of a model differ, and where they part",
    "bench": "time a model beside other engines and the machine's limits",
    "quantize": "store the weights of a model in 4 or 8 bits",
    "tune": "search faster schedules for a model's kernels by timing them",
    "plan": "predict what a model takes on the ranks of a mesh",
    "launch": "run a Python program on several ranks of this machine",
    "calibrate": "measure the costs of a CPU that weft has no table of",
    "cache": "show what is kept of compilations, or remove it",
    "demo": "compile, run and check a real network",
}
"""Each is the module of that name in this package, with `parser()` and `run(arguments)`."""

_COMPILES: Final = ("compile", "inspect")
"""Commands whose NumPy needs no threads: starting them takes longer than what it computes, and a
process that has but one may copy itself to compile.
"""

_RARE: Final = (400_000, 50, 100)
"""When the interpreter looks for cycles: modules and the IR make many objects and few cycles."""

FAILED: Final = 1
INTERRUPTED: Final = 130

_EXAMPLES: Final = """\
first steps:
  weft demo                                                  see it work
  weft compile model.onnx -o libmodel.so                     libmodel.so and libmodel.h
  weft run libmodel.so --input image=x.npy --output-dir out  out/<output>.npy
  weft inspect libmodel.so                                   kernels, flops, memory

`weft <command> --help` has more examples.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or 1 after one line `weft: error: <reason>`.

    Wrong usage exits with 2. Without arguments it is the process's own command, which ends with it.
    """
    if argv is not None:
        return _run(argv)
    statuses: list[int] = []
    atexit.register(_leave, statuses)  # first, hence called last
    statuses.append(_run(sys.argv[1:]))
    return statuses[0]


def _leave(statuses: Sequence[int]) -> None:
    """Ends the process where its command came to an end: to take modules and the IR apart, object
    by object, takes a tenth of a second. All else that happens at an exit has happened, but that
    what a command printed before it failed is written out.
    """
    for status in statuses:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(argv: Sequence[str]) -> int:
    warnings.showwarning = _show_warning
    thresholds = gc.get_threshold()
    gc.set_threshold(*_RARE)
    try:
        _command(argv)()
        sys.stdout.flush()
    except KeyboardInterrupt:
        tell("weft: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone, as `head` does; Python would complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (WeftError, OSError) as error:
        tell(f"weft: error: {_one_line(error)}")
        return FAILED
    finally:
        gc.set_threshold(*thresholds)
    return 0


def _command(argv: Sequence[str]) -> Callable[[], None]:
    """The command of this line, ready to run. Only its own module is imported."""
    parser = command_parser("weft", "Compiles ONNX models to native code.", _EXAMPLES)
    parser.add_argument(
        "--version", action="version", version=f"weft {VERSION}", help="print the version"
    )
    commands = parser.add_subparsers(metavar="<command>", required=True, dest="command")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    chosen, rest = parser.parse_known_args(argv[:1])
    assert not rest, "one argument is a command, an option or an error"
    if chosen.command in _COMPILES:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module = importlib.import_module(f"weft.cli.{chosen.command}")
    arguments = module.parser().parse_args(argv[1:])
    return lambda: module.run(arguments)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, WeftError):
        prefix = f"{error.filename}: " if error.filename is not None else ""
        return f"{prefix}{error.strerror or error}"
    return " ".join(str(error).split())


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    tell(f"weft: warning: {' '.join(str(message).split())}")
