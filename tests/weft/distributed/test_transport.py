"""Large collectives by the table of communication alone: threads, which reach all of each other's
memory, and ranks of one memfd, which reach what their heaps gave.
"""
# pyright: basic

from __future__ import annotations

import ctypes
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weft
from weft.compiler.abi.structs import COLLECTIVE
from weft.compiler.loop_to_llvm.transport.segment import (
    SLOT,
    heaps_start,
    mailbox_slots,
    segment_bytes,
)
from weft.compiler.machine.python.communication import REACHED
from weft.distributed.messages import CollectiveRecord
from weft.distributed.shared_memory import AREA, Segment

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = range(3)
COUNT = 300_007
"""Elements: more than an area of the segment has, and no multiple of a cache line."""


def tables(ranks: int, descriptor: int):
    """Of ranks that are threads, or that have a mapping each of a memfd."""
    if descriptor < 0:
        segment = Segment(ranks)
        return [segment.table(rank, 10.0) for rank in range(ranks)]
    os.ftruncate(descriptor, segment_bytes(ranks, AREA))
    return [Segment(ranks, descriptor).table(rank, 10.0) for rank in range(ranks)]


def collective(table, operation: int, source, target, ranks: int) -> None:
    size, stride = ctypes.c_int64(ranks), ctypes.c_int64(1)
    what = CollectiveRecord(
        size=COLLECTIVE.size,
        tag=7,
        operation=operation,
        axes=1,
        count=min(source.size, target.size),
        sizes=ctypes.addressof(size),
        strides=ctypes.addressof(stride),
    )
    arguments = table.user, ctypes.addressof(what), source.ctypes.data, target.ctypes.data
    assert FUNCTION(table.wait)(*arguments) == 0


def copied_in(table, ranks: int) -> bool:
    """Whether the first rank has put values into its area of the segment."""
    before = mailbox_slots(ranks) * SLOT * ranks * ranks + 2 * ranks * AREA
    address = table.held[0].address + heaps_start(ranks, AREA) - before
    return any((ctypes.c_char * 4096).from_address(address).raw)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("memory", ["threads", "heap", "staged"])
def test_large_collectives(ranks: int, memory: str):
    descriptor = -1 if memory == "threads" else os.memfd_create("weft-test")
    numbers = np.random.default_rng(ranks)
    given = numbers.normal(size=(ranks, ranks * COUNT)).astype(np.float32)
    summed = given[0]
    for each in given[1:]:
        summed = summed + each  # in the order of ranks: the same bits
    found = tables(ranks, descriptor)

    def run(rank: int) -> None:
        table, held = found[rank], []

        def array(size: int):
            if memory != "heap":
                return np.empty(size, np.float32)
            held.append(table.heap.workspace(4 * size, 4 * size))
            return np.ctypeslib.as_array((ctypes.c_float * size).from_address(held[-1].address))

        whole, other, part = array(ranks * COUNT), array(ranks * COUNT), array(COUNT)
        whole[:] = given[rank]
        collective(table, ALL_REDUCE, whole, other, ranks)
        assert (other == summed).all()
        collective(table, REDUCE_SCATTER, whole, part, ranks)
        assert (part == np.split(summed, ranks)[rank]).all()
        collective(table, ALL_GATHER, part, other, ranks)
        assert (other == summed).all()
        collective(table, ALL_REDUCE, whole, whole, ranks)
        assert (whole == summed).all()

    try:
        with ThreadPoolExecutor(ranks) as pool:
            list(pool.map(run, range(ranks)))
        assert copied_in(found[0], ranks) == (memory == "staged")
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def test_a_workspace_that_others_reach_is_never_freed_by_calls_at_once():
    """It stays when calls of several threads leave their workspaces, and ends with the call."""
    descriptor = os.memfd_create("weft-test")
    table = tables(1, descriptor)[0]
    executable = weft.compile(
        weft.trace(lambda x: ((x @ x) @ x) @ x, np.ones((96, 96), np.float32)), cache=False
    )
    executable.metadata["mesh"] = {"collective_bytes": 4096}
    REACHED.heap = table.heap
    try:
        call = executable.call_or(executable)
    finally:
        REACHED.heap = None
    assert call is not None
    assert len(table.heap.taken) == 1
    x = np.eye(96, dtype=np.float32)
    barrier = threading.Barrier(4)

    def run(call) -> None:
        barrier.wait()
        for _ in range(50):
            assert (call(x)[0] == x).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [call] * 4))
    del call
    gc.collect()
    assert not table.heap.taken
    os.close(descriptor)
