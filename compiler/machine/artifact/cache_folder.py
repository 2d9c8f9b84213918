"""Where a user's cache is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str]) -> Path:
    """$WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or ~/.cache/weft."""
    if environment.get("WEFT_CACHE_DIR"):
        return Path(environment["WEFT_CACHE_DIR"])
    return Path(environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "weft"
