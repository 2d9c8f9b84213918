"""`weft cache`: what is kept of compilations on this computer, and how to be rid of it."""

from __future__ import annotations

import argparse
import os
import time
from typing import Final

from weft.cli.parser import command_parser
from weft.cli.table import shown_bytes, table
from weft.cli.terminal import show
from weft.compiler.machine.artifact.store import KERNEL_SUFFIX, SUFFIX, Entry, default_store

_EXAMPLES: Final = """\
examples:
  weft cache            where it is, and what it holds
  weft cache --empty    removes all of it
"""

_TYPES: Final = {SUFFIX: "models and programs", KERNEL_SUFFIX: "kernels and what is known of files"}

_DAY: Final = 86_400


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft cache",
        "Shows what weft keeps of compilations in $WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or "
        "~/.cache/weft. What is unused longest goes by itself when all of it takes more than "
        "$WEFT_CACHE_LIMIT bytes.",
        _EXAMPLES,
    )
    made.add_argument("--empty", action="store_true", help="remove all of it")
    return made


def run(arguments: argparse.Namespace) -> None:
    """Shows the cache, or empties it. Raises OSError for a folder that cannot be read or changed,
    OptionError for a limit that is no number.
    """
    store = default_store(os.environ)
    entries = list(store.entries()) if store.folder.is_dir() else []
    size = sum(each.size for each in entries)
    if arguments.empty:
        for each in entries:
            each.remove()
        show(f"{store.folder}: {len(entries)} entries removed, {shown_bytes(size)}")
        return
    show(f"{store.folder}: {shown_bytes(size)} of at most {shown_bytes(store.limit)}")
    rows = [_row(suffix, entries) for suffix in _TYPES]
    if entries:
        show(table([("", "entries", "bytes", "longest unused"), *rows]))


def _row(suffix: str, entries: list[Entry]) -> tuple[object, ...]:
    own = [each for each in entries if each.suffix == suffix]
    days = max(((time.time() - each.used) / _DAY for each in own), default=0.0)
    return _TYPES[suffix], len(own), shown_bytes(sum(each.size for each in own)), f"{days:.0f} days"
