"""What every test relies on: one hypothesis profile, the same examples in every run."""

import gc
from functools import partialmethod

from hypothesis import HealthCheck, settings

from weft.compiler.driver.session import Session

settings.register_profile(
    "weft",
    deadline=None,  # the first example of a test may compile, the next ones hit caches
    derandomize=True,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("weft")

Session.__init__ = partialmethod(Session.__init__, verify_each=True)  # in every test


def pytest_collection_finish() -> None:
    """Lets the interpreter look for cycles rarely, and not among what the tests are made of."""
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
