"""The protocol of the thread pool in every order of its threads' steps."""

import pytest

from tests.compiler.loop_to_llvm.runtime.pool_model import FLAWS, Protocol, ProtocolError


@pytest.mark.parametrize(
    ("loops", "workers"),
    [((2, 2, 2), 2), ((3, 2), 2), ((2, 3, 2, 2), 1)],
    ids=["three loops", "more chunks than workers", "four loops"],
)
def test_every_chunk_runs_once_whatever_the_order(loops: tuple[int, ...], workers: int):
    assert Protocol(loops, workers).explore() > 1000


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_noticed(flaw: str):
    with pytest.raises(ProtocolError):
        Protocol((2, 2, 2), 2, flaw).explore()
