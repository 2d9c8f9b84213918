"""The costs that `weft calibrate` measured: a file of JSON in the user's cache for each CPU that
weft has no table of.

    {"format": 1, "cpu": "znver9", "cost": {"source": "calibrated", "ghz": 4.2, ...}}
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from weft.compiler.machine.artifact.cache_folder import cache_folder
from weft.compiler.target.cost import CALIBRATED, CostModel
from weft.dialects.errors import OptionError

FORMAT: Final = 1
"""Raised when a field of the costs means something else."""


class Calibration(Struct, frozen=True):
    """The contents of a file."""

    format: int
    cpu: str
    cost: CostModel


_CALIBRATIONS: Final = msgspec.json.Decoder(Calibration)


def calibration_path(cpu: str, features: Mapping[str, bool]) -> Path:
    """The file for a CPU with these features, which may not be there."""
    names = ",".join(sorted(name for name, on in features.items() if on))
    digest = hashlib.sha256(f"{cpu} {names}".encode()).hexdigest()
    return cache_folder(os.environ) / f"calibration-{cpu}-{digest[:12]}.json"


def read_calibration(path: Path) -> CostModel | None:
    """The costs of a file, None where there is none. Raises OptionError for one that
    `write_calibration` did not write.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # or a folder of it is a file
        return None
    except OSError as error:
        raise OptionError(_wrong(path, error.strerror)) from error
    try:
        found = _CALIBRATIONS.decode(data)
    except msgspec.DecodeError as error:
        raise OptionError(_wrong(path, error)) from error
    numbers = asdict(found.cost)
    source = numbers.pop("source")
    wrong = [f"{name} = {number}" for name, number in numbers.items() if not number > 0]
    if wrong or found.format != FORMAT or source != CALIBRATED:
        got = ", ".join(wrong) or f"format {found.format} and source {source}"
        raise OptionError(_wrong(path, got))
    return found.cost


def write_calibration(path: Path, cpu: str, cost: CostModel) -> None:
    """Writes the costs, in place of those that were there. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = msgspec.json.encode(Calibration(FORMAT, cpu, cost))
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(msgspec.json.format(data, indent=1) + b"\n")
    unfinished.replace(path)


def _wrong(path: Path, problem: object) -> str:
    rule = "native requires costs that `weft calibrate` wrote, which writes them again"
    return f"{rule}, got {path}: {problem}"
