"""weft compiles ONNX graphs to native SIMD code.

exe = weft.compile("model.onnx")  # a path, bytes or an onnx.ModelProto
(y,) = exe(x)                     # arrays by position or name -> a tuple of arrays
exe.export("libmodel.so")         # and libmodel.h, for C and for weft.load

x = weft.Tensor([[1.0, 2.0]])     # a tensor; operators and weft.numpy compute at once
fast = weft.jit(f)                # a Python function from its source, control flow included
step = weft.trace(f, *examples)   # a Python function of tensors, with weft.numpy and weft.grad
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from weft.compiler.version import VERSION

if TYPE_CHECKING:
    from weft import nn as nn
    from weft import numpy as numpy
    from weft import optim as optim
    from weft import random as random
    from weft.api import compile, load, save_graph
    from weft.autodiff.batching import vmap
    from weft.autodiff.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
    from weft.autodiff.derivatives import grad, hessian, jacobian, jvp, value_and_grad, vjp
    from weft.autodiff.gradient_check import check_grad
    from weft.compiler.driver.extension import Extension
    from weft.compiler.driver.options import Artifact, Buckets, Options
    from weft.compiler.machine.artifact.cache import Cache
    from weft.compiler.machine.artifact.signature import TensorSpec
    from weft.compiler.machine.artifact.store import CacheWarning
    from weft.compiler.machine.python.executable import Executable
    from weft.dialects.errors import (
        ArtifactError,
        AssertError,
        BudgetError,
        CancelledError,
        IllegalSchedule,
        InputError,
        ModelError,
        ModelWarning,
        OptionError,
        RankError,
        RecompileWarning,
        SourceError,
        TypeInferenceError,
        UnsupportedError,
        WeftError,
    )
    from weft.distributed.mesh import Mesh, P
    from weft.distributed.profiles import profiles_of_ranks
    from weft.distributed.world import rank, ranks, simulate
    from weft.eager.tensor import Tensor
    from weft.history import History
    from weft.jax_function import JaxFunction, from_jax
    from weft.probing.watch import watch
    from weft.source.jit import jit
    from weft.tracing.compiled import trace
    from weft.tracing.control import cond, fori_loop, scan, switch, while_loop
    from weft.tracing.graph import Graph
    from weft.tracing.native_kernel import NativeKernel
    from weft.tracing.order import after
    from weft.tracing.printing import print
    from weft.tracing.spec import Spec
    from weft.training import Step, step

__version__ = VERSION

__all__ = [
    "Artifact",
    "ArtifactError",
    "AssertError",
    "Buckets",
    "BudgetError",
    "Cache",
    "CacheWarning",
    "CancelledError",
    "Executable",
    "Extension",
    "Graph",
    "History",
    "IllegalSchedule",
    "InputError",
    "JaxFunction",
    "Mesh",
    "ModelError",
    "ModelWarning",
    "NativeKernel",
    "OptionError",
    "Options",
    "P",
    "RankError",
    "RecompileWarning",
    "SourceError",
    "Spec",
    "Step",
    "Tensor",
    "TensorSpec",
    "TypeInferenceError",
    "UnsupportedError",
    "WeftError",
    "__version__",
    "after",
    "check_grad",
    "checkpoint",
    "compile",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "fori_loop",
    "from_jax",
    "grad",
    "hessian",
    "jacobian",
    "jit",
    "jvp",
    "load",
    "print",
    "profiles_of_ranks",
    "rank",
    "ranks",
    "save_graph",
    "scan",
    "simulate",
    "step",
    "stop_gradient",
    "switch",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
    "watch",
]

_HOMES: Final = {
    "weft.api": ("compile", "load", "save_graph"),
    "weft.autodiff.batching": ("vmap",),
    "weft.autodiff.custom": ("checkpoint", "custom_jvp", "custom_vjp", "stop_gradient"),
    "weft.autodiff.derivatives": ("grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp"),
    "weft.autodiff.gradient_check": ("check_grad",),
    "weft.compiler.driver.extension": ("Extension",),
    "weft.compiler.driver.options": ("Artifact", "Buckets", "Options"),
    "weft.compiler.machine.artifact.cache": ("Cache",),
    "weft.compiler.machine.artifact.signature": ("TensorSpec",),
    "weft.compiler.machine.artifact.store": ("CacheWarning",),
    "weft.compiler.machine.python.executable": ("Executable",),
    "weft.dialects.errors": (
        "ArtifactError",
        "AssertError",
        "BudgetError",
        "CancelledError",
        "IllegalSchedule",
        "InputError",
        "ModelError",
        "ModelWarning",
        "OptionError",
        "RankError",
        "RecompileWarning",
        "SourceError",
        "TypeInferenceError",
        "UnsupportedError",
        "WeftError",
    ),
    "weft.distributed.mesh": ("Mesh", "P"),
    "weft.distributed.profiles": ("profiles_of_ranks",),
    "weft.distributed.world": ("rank", "ranks", "simulate"),
    "weft.eager.tensor": ("Tensor",),
    "weft.history": ("History",),
    "weft.jax_function": ("JaxFunction", "from_jax"),
    "weft.probing.watch": ("watch",),
    "weft.source.jit": ("jit",),
    "weft.tracing.compiled": ("trace",),
    "weft.tracing.control": ("cond", "fori_loop", "scan", "switch", "while_loop"),
    "weft.tracing.graph": ("Graph",),
    "weft.tracing.native_kernel": ("NativeKernel",),
    "weft.tracing.order": ("after",),
    "weft.tracing.printing": ("print",),
    "weft.tracing.spec": ("Spec",),
    "weft.training": ("Step", "step"),
}
"""Where each name is defined, which is imported when the name is asked for: a command that prints
its help needs no NumPy, a model out of the cache no compiler.
"""


_MODULES: Final = ("nn", "numpy", "optim", "random")
"""Modules that are imported when they are first asked for."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"weft.{name}")
    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(home), name)
            return found
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
