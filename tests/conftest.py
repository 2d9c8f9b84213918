"""What every test relies on: one hypothesis profile, the same examples in every run."""

import gc
from functools import partialmethod

from hypothesis import HealthCheck, settings

from weft.compiler.driver.session import Session
from weft.compiler.driver.workers import COLLECTION_THRESHOLDS

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
# start their own. Each module is verified behind each pass.
Session.__init__ = partialmethod(Session.__init__, cores=1, verify_each=True)

gc.disable()  # until the tests are collected: what is imported stays


def pytest_collection_finish() -> None:
    """Lets the interpreter look for cycles rarely, and not among what the tests are made of."""
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)  # lower ones would end each compilation with a search
    gc.enable()


def pytest_sessionfinish() -> None:
    """Finds what is left once; pytest looks for it five times more."""
    gc.collect()
    gc.freeze()
