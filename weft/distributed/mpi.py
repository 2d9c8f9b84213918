"""Ranks that MPI has started: a table of communication whose functions call mpi4py. As MPI makes
progress inside its calls alone, a thread asks while kernels run whether collectives are done.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import chain
from typing import Any, Final

import numpy as np

from weft.compiler.abi.structs import COMMUNICATION
from weft.distributed.messages import RECV, SEND, CollectiveRecord, members
from weft.distributed.processors import keep_to_share

_ALL_REDUCE, _ALL_GATHER = 0, 1
_DIGEST_SHIFT: Final = 16
"""Bits of a tag that number the collectives of a program."""

_TAGS: Final = (1 << 15) - 1
"""The tags that MPI has at least."""

_PATIENCE: Final = 0.001
"""Seconds for which a rank asks again at once whether a collective is done."""

_CALM: Final = 0.1
"""Seconds for which a rank waits without a look at what others ask."""

_GRACE: Final = 1.0
"""Seconds that ranks have to answer."""

_QUESTION, _ANSWER = 0, 1
"""Tags of messages between ranks that wait for each other."""

_POLL: Final = 0.0005
"""Seconds between two such questions of the thread."""


class _Table(ctypes.Structure):
    _fields_ = COMMUNICATION.ctypes_fields


_RECORD: Final = ctypes.POINTER(CollectiveRecord)
_COMMUNICATE: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, _RECORD, ctypes.c_void_p, ctypes.c_void_p
)
_ABORT: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def join_ranks(limit: float) -> tuple[int, int, Any]:
    """The rank of this process among those of MPI, how many there are, and its table, None where it
    is alone. A rank waits so many seconds for others. An exception that nothing catches ends all.
    """
    transport = _Transport(import_module("mpi4py.MPI"), limit)
    comm = transport.comm
    if comm.size == 1:
        return 0, 1, None
    here = comm.Split_type(transport.mpi.COMM_TYPE_SHARED)
    keep_to_share(here.rank, here.size)
    own_hook = sys.excepthook

    def end_all(*error: Any) -> None:
        own_hook(*error)
        sys.stderr.flush()
        comm.Abort(1)

    sys.excepthook = end_all
    return comm.rank, comm.size, transport.table()


class _Transport:
    """The collectives of a program by those of MPI."""

    def __init__(self, mpi: Any, limit: float):
        self.mpi = mpi
        self.comm = mpi.COMM_WORLD.Dup()
        self._roll_call = _RollCall(mpi, limit)
        self._groups: dict[tuple[int, ...], Any] = {}
        self._digest = 0
        self._requests: dict[int, Any] = {}
        self._sent: list[tuple[Any, bytearray]] = []
        self._types = (mpi.FLOAT, mpi.DOUBLE, mpi.INT32_T, mpi.INT64_T, mpi.BYTE)
        self._bytes = (4, 8, 4, 8, 1)
        self._reductions = (mpi.SUM, mpi.MAX, mpi.MIN)
        self._lock = threading.Lock()
        """Of what calls MPI, which need not take calls of several threads at once."""
        self._under_way = threading.Event()
        if mpi.Query_thread() >= mpi.THREAD_SERIALIZED:
            threading.Thread(target=self._progress, name="weft-mpi", daemon=True).start()

    def table(self) -> Any:
        """A `weft_communication`, which holds what it needs."""
        functions = (
            _COMMUNICATE(self._ended_by_errors(self._start)),
            _COMMUNICATE(self._ended_by_errors(self._wait)),
            _ABORT(self._abort),
        )
        addresses = (ctypes.cast(each, ctypes.c_void_p).value for each in functions)
        size = ctypes.sizeof(_Table)
        table = _Table(size, None, self.comm.rank, self.comm.size, *addresses)
        table.held = (self, functions)
        return table

    def _progress(self) -> None:
        """Lets MPI go on with what was started and is not waited for yet."""
        while self._under_way.wait():
            with self._lock:
                for request in self._requests.values():
                    request.Test()
            time.sleep(_POLL)

    def _abort(self, user: object) -> None:
        self.comm.Abort(1)

    def _ended_by_errors(self, function: Callable[..., int]) -> Callable[..., int]:
        """The function; an exception, which cannot leave it, ends all ranks."""

        def guarded(user: object, what: Any, source: int, target: int) -> int:
            try:
                with self._lock:
                    status = function(what.contents, source, target)
                    if self._requests:
                        self._under_way.set()
                    else:
                        self._under_way.clear()
                return status
            except Exception:
                traceback.print_exc()
                sys.stderr.flush()
                self.comm.Abort(1)
                return 1

        return guarded

    def _start(self, what: Any, source: int, target: int) -> int:
        digest = what.tag >> _DIGEST_SHIFT
        if digest not in (0, self._digest):
            mine, found = np.array([digest]), np.empty(self.comm.size, np.int64)
            request = self.comm.Iallgather(mine, found)
            if missing := self._roll_call.finish(request, range(self.comm.size), what.tag):
                return missing
            others = np.flatnonzero(found != digest)
            if others.size:
                return ~int(others[0])
            self._digest = digest
        if what.operation in (SEND, RECV):
            self._start_message(what, source, target)
            return 0
        group, dtype = self._group(what), self._types[what.dtype]
        sizes: list[int] = [what.count * self._bytes[what.dtype]] * 2
        if what.operation != _ALL_REDUCE:
            sizes[int(what.operation == _ALL_GATHER)] *= group.size
        memory = self.mpi.buffer.fromaddress
        given = [memory(source, sizes[0]), dtype]
        filled = [memory(target, sizes[1]), dtype]
        if what.operation == _ALL_GATHER:
            request = group.Iallgather(given, filled)
        else:
            reduction = self._reductions[what.reduction]
            reduces = what.operation == _ALL_REDUCE
            call = group.Iallreduce if reduces else group.Ireduce_scatter_block
            request = call(self.mpi.IN_PLACE if source == target else given, filled, reduction)
        self._requests[target] = request
        return 0

    def _start_message(self, what: Any, source: int, target: int) -> None:
        """Receives into the target, or sends a copy, which is kept until it has been sent."""
        ranks = list(members(what, self.comm.rank))
        other = ranks[int(what.peer)]
        tag = what.tag & _TAGS
        if what.operation == RECV:
            filled = self.mpi.buffer.fromaddress(target, what.count)
            self._requests[target] = self.comm.Irecv([filled, self.mpi.BYTE], other, tag)
            return
        self._sent = [each for each in self._sent if not each[0].Test()]
        copy = bytearray(self.mpi.buffer.fromaddress(source, what.count))
        self._sent.append((self.comm.Isend([copy, self.mpi.BYTE], other, tag), copy))

    def _wait(self, what: Any, source: int, target: int) -> int:
        if what.operation == SEND:
            return 0
        ranks = list(members(what, self.comm.rank))
        others = [ranks[int(what.peer)]] if what.operation == RECV else ranks
        return self._roll_call.finish(self._requests.pop(target), others, what.tag)

    def _group(self, what: Any) -> Any:
        """The communicator of the ranks that differ along a collective's axes, by their index."""
        ranks = tuple(members(what, self.comm.rank))
        if ranks not in self._groups:
            of = self.comm.Get_group().Incl(ranks)  # which others need not make at the same time
            self._groups[ranks] = self.comm.Create_group(of)
        return self._groups[ranks]


class _RollCall:
    """Waits for other ranks, and finds who does not come. MPI does not tell: so ranks that wait too
    long ask the others what they wait for, who answer while they wait themselves.
    """

    def __init__(self, mpi: Any, limit: float):
        self._mpi, self._limit = mpi, limit
        self._comm = mpi.COMM_WORLD.Dup()
        self._sent: list[Any] = []
        self._calls = 0

    def finish(self, request: Any, others: Iterable[int], tag: int) -> int:
        """Waits until a request of the collective with a tag is done, and gives 0; or one more than
        the rank that does not take part within the limit, behind which the program cannot end but
        by MPI_Abort.
        """
        begin = start = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - start
            if waited < _PATIENCE:
                os.sched_yield()
                continue
            time.sleep(_PATIENCE / 10)
            if waited > _CALM:
                self._answer(tag)
            if time.monotonic() - begin < self._limit:
                continue
            if missing := self._missing(request, others, tag):
                self._sent.append(request)  # with its memory
                atexit.register(self._comm.Abort, 1)
                return missing
            begin = time.monotonic()
        return 0

    def _missing(self, request: Any, others: Iterable[int], tag: int) -> int:
        """One more than the first rank that waits for nothing, or that waits for something else
        though it is one of the others; 0 where MPI is on its way.
        """
        asked = [each for each in range(self._comm.size) if each != self._comm.rank]
        self._calls += 1
        self._sent += [self._comm.isend(self._calls, each, _QUESTION) for each in asked]
        answers: dict[int, int] = {}
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and len(answers) < len(asked):
            if request.Test():
                return 0
            self._answer(tag)
            while (rank := self._of_message(_ANSWER)) is not None:
                call, other_tag = self._comm.recv(source=rank, tag=_ANSWER)
                if call == self._calls:
                    answers[rank] = other_tag
            time.sleep(_PATIENCE)
        silent = (each for each in asked if each not in answers)
        elsewhere = (each for each in others if answers.get(each, tag) != tag)
        return next(chain(silent, elsewhere), -1) + 1

    def _answer(self, tag: int) -> None:
        """Tells ranks that have asked which collective this one waits for."""
        while (rank := self._of_message(_QUESTION)) is not None:
            call = self._comm.recv(source=rank, tag=_QUESTION)
            self._sent.append(self._comm.isend((call, tag), rank, _ANSWER))

    def _of_message(self, tag: int) -> int | None:
        """The rank from which a message has come."""
        status = self._mpi.Status()
        return status.source if self._comm.Iprobe(tag=tag, status=status) else None
