"""The kernels that compilations of tests share: in a run of all tests, each is compiled once."""

import os

from weft.compilation import CachedKernels
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import Session
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import default_cache


class SharedKernels:
    """The kernels in this user's cache, of this compiler, whose digest is part of their keys; of
    the cache that there was at the start, since some tests have caches of their own.
    """

    def __init__(self) -> None:
        self.used = True
        self._kernels = CachedKernels(default_cache(os.environ))

    def find_kernel(self, key: str) -> bytes | None:
        return self._kernels.find_kernel(key) if self.used else None

    def keep_kernel(self, key: str, data: bytes) -> None:
        if self.used:
            self._kernels.keep_kernel(key, data)


SHARED_KERNELS = SharedKernels()


def compile_shared(source: Source | ImportedModel, options: Options) -> Compiled:
    """`compile_model` of what is not about the compilation of kernels: those that another test
    needed, too, come out of the cache. All else is done anew.
    """
    return compile_model(source, options, Session(options, store=SHARED_KERNELS))
