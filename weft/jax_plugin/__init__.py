"""weft as a platform of JAX, with the entry point `jax_plugins`: `JAX_PLATFORMS=weft`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def initialize() -> None:
    """Registers the platform where JAX is asked for it: others never pay for it."""
    config: Any = import_module("jax").config
    if "weft" in (config.jax_platforms or "").split(","):
        from weft.jax_plugin.register import register

        register()
