"""What every test relies on: one hypothesis profile, the same examples in every run."""

import gc
import sys
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.support.shared_kernels import SHARED_KERNELS
from weft.compiler.deferred import COLLECTION_THRESHOLDS
from weft.compiler.driver.session import Session
from weft.nn.initializers import seed

settings.register_profile(
    "weft",
    deadline=None,  # the first example of a test may compile, the next ones hit caches
    derandomize=True,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("weft")

# In every test. Those that run beside this one have the other processors, and workers are
# interpreters, which take longer to start than most compilations of tests; the tests of workers
# start their own. Each module is verified behind each pass. Kernels that another test needed, too,
# are compiled once, those aside of tests that ask for `own_kernels`, or for no cache.
Session.__init__ = partialmethod(Session.__init__, cores=1, verify_each=True, store=SHARED_KERNELS)

gc.disable()  # until the tests are collected: what is imported stays


@pytest.fixture
def own_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For tests that look at how kernels are compiled, or change it: all are compiled anew."""
    monkeypatch.setattr(SHARED_KERNELS, "used", False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))


YOUNG_OBJECTS = 300_000
"""So many new ones are looked through for cycles behind a test, when hardly any is in use."""


def pytest_collection_finish() -> None:
    """Lets the interpreter look for cycles rarely, and not among what the tests are made of: what
    is in use in the middle of a test would have to be looked through again.
    """
    gc.freeze()
    young, *others = COLLECTION_THRESHOLDS
    gc.set_threshold(10 * young, *others)
    gc.enable()
    GENERATORS.extend(
        (value, value.bit_generator.state)
        for name, module in list(sys.modules.items())
        if name.startswith("tests.")
        for value in list(vars(module).values())
        if isinstance(value, np.random.Generator)
    )


GENERATORS: list[tuple[np.random.Generator, dict]] = []
"""Those of the modules of tests, and their states once all modules are imported."""


@pytest.fixture(autouse=True)
def same_numbers() -> Iterator[None]:
    """Each test draws the same numbers in every run, whichever ran before it in its process, and
    its modules begin with the same.
    """
    for generator, state in GENERATORS:
        generator.bit_generator.state = state
    with seed(0):
        yield


def pytest_runtest_logfinish() -> None:
    """Looks for cycles among what a test, or some short ones, have left behind."""
    if gc.get_count()[0] > YOUNG_OBJECTS:
        gc.collect(0)


def pytest_sessionfinish() -> None:
    """Finds what is left once; pytest looks for it five times more."""
    gc.collect()
    gc.freeze()
