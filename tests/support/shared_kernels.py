"""Compilations of tests that share their kernels: in a run of all tests, each is compiled once."""

import os

from weft.compilation import CachedKernels
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import Session
from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import default_cache


def shared_kernels() -> CachedKernels:
    """The kernels in this user's cache, of this compiler: its key has the compiler's digest."""
    return CachedKernels(default_cache(os.environ))


def compile_shared(source: Source | ImportedModel, options: Options) -> Compiled:
    """`compile_model` of what is not about the compilation of kernels: those that another test
    needed, too, come out of the cache. All else is done anew.
    """
    return compile_model(source, options, Session(options, store=shared_kernels()))
