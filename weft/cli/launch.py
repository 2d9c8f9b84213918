"""`weft launch`: a Python program on several ranks, which are processes of this machine."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from weft.cli.parser import command_parser
from weft.compiler.loop_to_llvm.transport.segment import segment_bytes
from weft.compiler.target.wire import Wire
from weft.dialects.errors import OptionError, RankError
from weft.distributed.processors import share
from weft.distributed.shared_memory import AREA, Segment
from weft.distributed.world import (
    LIMIT,
    LIMIT_VARIABLE,
    RANK_VARIABLE,
    RANKS_VARIABLE,
    SEGMENT_VARIABLE,
    WIRE_VARIABLE,
)

_EXAMPLES: Final = """\
examples:
  weft launch -n 4 train.py --epochs 3      four ranks, with the output of the first
  weft launch -n 2 --all-output train.py    with the output of both
"""

_LOOK: Final = 0.02
"""Seconds between two looks at the processes."""

_GRACE: Final = 5.0
"""Seconds beyond their time limit that ranks have to end in when one has failed."""

_DIE_WITH_PARENT: Final = 1
"""The option PR_SET_PDEATHSIG of prctl."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft launch",
        "Runs a Python program on ranks that are processes of this machine and share memory: "
        "each has its share of the processors. When one fails, all end.",
        _EXAMPLES,
    )
    made.add_argument("-n", dest="ranks", type=int, required=True, help="how many ranks")
    made.add_argument("--all-output", action="store_true", help="the output of every rank")
    made.add_argument(
        "--timeout",
        type=float,
        default=LIMIT,
        help=f"seconds that a rank waits for another one, {LIMIT:g} by default",
    )
    made.add_argument(
        "--beta", metavar="RATE", help="let bytes of messages take as long as at 1.1GB/s, say"
    )
    made.add_argument(
        "--alpha", default="0s", metavar="TIME", help="let each message take 30us, say"
    )
    made.add_argument("program", help="a Python file")
    made.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    return made


def run(arguments: argparse.Namespace) -> None:
    """Runs the program to its end. Raises RankError for a rank that failed, OptionError for a
    number of ranks that is none.
    """
    ranks = arguments.ranks
    if ranks < 1 or arguments.timeout <= 0:
        got = f"{ranks} and {arguments.timeout:g}"
        raise OptionError(f"launch requires a rank or more and a positive timeout, got {got}")
    wire = Wire.written(arguments.alpha, arguments.beta)
    descriptor = os.memfd_create("weft-ranks")  # which goes with the last process that has it
    os.ftruncate(descriptor, segment_bytes(ranks, AREA))
    segment = Segment(ranks, descriptor)
    command = [sys.executable, arguments.program, *arguments.arguments]
    hidden = None if arguments.all_output else subprocess.DEVNULL
    processes = [
        subprocess.Popen(
            command,
            env=_environment(rank, ranks, descriptor, arguments.timeout, wire),
            stdout=hidden if rank else None,
            pass_fds=[descriptor],
            preexec_fn=_prepare(share(rank, ranks), os.getpid()),
        )
        for rank in range(ranks)
    ]
    try:
        _watch(processes, segment.leave, arguments.timeout + _GRACE)
    finally:
        for each in processes:
            each.kill()
            each.wait()


def _environment(
    rank: int, ranks: int, descriptor: int, timeout: float, wire: Wire
) -> dict[str, str]:
    own = {
        RANK_VARIABLE: rank,
        RANKS_VARIABLE: ranks,
        SEGMENT_VARIABLE: descriptor,
        LIMIT_VARIABLE: timeout,
        WIRE_VARIABLE: f"{wire.alpha} {wire.beta}",
    }
    return os.environ | {name: str(value) for name, value in own.items()}


def _prepare(cores: Sequence[int], parent: int) -> Callable[[], None]:
    """What a process does first: it ends with this one, however that ends, and has its cores."""
    control = ctypes.CDLL(None).prctl

    def prepare() -> None:
        control(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        os.sched_setaffinity(0, cores)

    return prepare


def _watch(
    processes: Sequence[subprocess.Popen[bytes]], leave: Callable[[int], None], grace: float
) -> None:
    """Waits until all have ended. When one fails, others are told, and have some time to end."""
    running = dict(enumerate(processes))
    failed: RankError | None = None
    deadline = None
    while running:
        for rank, each in list(running.items()):
            status = each.poll()
            if status is None:
                continue
            leave(rank)
            del running[rank]
            if status and failed is None:
                how = f"signal {-status}" if status < 0 else f"status {status}"
                rule = "launch requires every rank to end well"
                failed = RankError(f"{rule}, got {how} of rank {rank}")
                deadline = time.monotonic() + grace
        if deadline is not None and time.monotonic() > deadline:
            break
        time.sleep(_LOOK)
    if failed is not None:
        raise failed
