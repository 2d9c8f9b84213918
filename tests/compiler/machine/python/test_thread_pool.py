"""Contexts of a process share their threads."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weft
from tests.compiler.loop_to_llvm.runtime.runtime_library import thread_count
from tests.support.small_models import add_model, dense_model, rows_of
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.codegen.jit import load_objects
from weft.compiler.machine.python.executable import Executable

THREADS, CALLERS = 3, 4


def dense(threads: int) -> Executable:
    return weft.compile(dense_model("rows"), prefix="dense", threads=threads)


@pytest.fixture(autouse=True)
def no_garbage():
    """Executables of earlier tests end, and threads with them."""
    gc.collect()


def test_contexts_share_workers_which_end_with_the_last():
    before = thread_count()
    models = [dense(THREADS) for _ in range(CALLERS)]
    assert thread_count() == before + THREADS - 1
    other = dense(THREADS + 2)  # no test before this one has left a pool of so many
    assert thread_count() == before + THREADS - 1 + THREADS + 1
    del models[1:], other
    assert thread_count() == before + THREADS - 1
    assert models.pop()(rows_of(100))
    assert thread_count() == before


def test_callers_at_once_get_the_bits_of_one_thread():
    """Each has a model of its own; one has the workers, the others their own threads."""
    rows = rows_of(2000)
    expected = dense(1)(rows)[0].tobytes()
    before = thread_count()
    models = [dense(THREADS) for _ in range(CALLERS)]

    def call(model: Executable) -> set[bytes]:
        return {model(rows)[0].tobytes() for _ in range(30)}

    with ThreadPoolExecutor(CALLERS) as callers:
        assert list(callers.map(call, models)) == [{expected}] * CALLERS
        assert thread_count() <= before + CALLERS + THREADS - 1


def test_default_is_the_pool_of_that_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_NUM_THREADS", str(THREADS))
    before = thread_count()
    models = [dense(THREADS), weft.compile(dense_model("rows"), prefix="dense")]
    assert thread_count() == before + THREADS - 1
    assert len({model(rows_of(100))[0].tobytes() for model in models}) == 1


def test_a_child_of_a_fork_has_a_pool_of_its_own():
    parents = dense(THREADS)
    rows = rows_of(500)
    expected = parents(rows)[0].tobytes()
    child = os.fork()
    if child == 0:
        own = dense(THREADS)
        alike = own(rows)[0].tobytes() == parents(rows)[0].tobytes() == expected
        os._exit(0 if alike and thread_count() == THREADS else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert parents(rows)[0].tobytes() == expected


def test_an_artifact_of_an_older_weft_has_its_own_threads():
    compiled = compile_model(add_model(), options_of(add_model(), prefix="m"))
    later = ("m_create_pool", "m_parallel_for")
    older = [name for name in compiled.exports if name not in later]
    assert len(older) == len(compiled.exports) - len(later)
    library = load_objects(list(compiled.objects.values()), older)
    before = thread_count()
    models = [
        Executable(library, "m", compiled.signature, threads=5, metadata=compiled.metadata)
        for _ in range(2)
    ]
    assert thread_count() == before + 2 * 4
    (total,) = models[0](np.ones(8, np.float32), np.ones(8, np.float32))
    assert (total == 2).all()
