"""Registers the platform: its client, and what JAX lowers for it."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

from weft.compiler.frontend.stablehlo.platform import PLATFORM
from weft.dialects.errors import UnsupportedError
from weft.jax_plugin.callbacks import register_callbacks
from weft.jax_plugin.client import Client
from weft.jax_plugin.lowering import register_rules

MINORS = ("0.9", "0.10")
"""Those of JAX and jaxlib that the platform was tried with. It uses what is internal to JAX."""


def register() -> None:
    """Tells JAX of the platform and its lowering rules, unless it knows them. Raises
    UnsupportedError for minor versions of JAX or jaxlib that it does not know.
    """
    for name in ("jax", "jaxlib"):
        version: str = import_module(name).__version__
        if ".".join(version.split(".")[:2]) not in MINORS:
            rule = f"the platform {PLATFORM} requires {name} of {' or '.join(MINORS)}"
            raise UnsupportedError(f"{rule}, got {version}")
    bridge: Any = import_module("jax._src.xla_bridge")
    if PLATFORM in bridge._backend_factories:
        return
    mlir: Any = import_module("jax._src.interpreters.mlir")
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
    bridge.register_plugin(PLATFORM, c_api=_capsule(Client.of_process().api))
    register_rules()  # for a platform that JAX knows
    register_callbacks()


def _capsule(address: int) -> Any:
    new: Any = ctypes.pythonapi.PyCapsule_New
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new.restype = ctypes.py_object
    return new(address, b"pjrt_c_api", None)
