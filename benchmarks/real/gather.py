"""The collection: `FOLDER/{packages,classical,exports,variants}/NAME.onnx` and `.npz`, its inputs.

In: a folder outside of the repository. Out: models that are not in it yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx

from benchmarks.real.classical import Made, make_classical
from benchmarks.real.exports import make_exports
from benchmarks.real.inputs import make_inputs
from benchmarks.real.packages import fetch_packages
from benchmarks.real.variants import make_variants

MADE = {
    "classical": lambda _: make_classical(),
    "exports": lambda _: make_exports(),
    "variants": make_variants,
}


def gather(folder: Path) -> Iterator[str]:
    """Fetches and makes what is missing; yields a line for what it does."""
    yield from fetch_packages(folder)
    yield from _give_inputs(folder / "packages")
    for group, make in MADE.items():
        if not (folder / group).is_dir():
            yield from _store_all(folder / group, make(folder / "packages"))


def models_of(folder: Path) -> dict[str, Path]:
    """The models by name, `GROUP/NAME`, without those that another package has too."""
    found: dict[bytes, tuple[str, Path]] = {}
    for group in ("packages", *MADE):
        for path in sorted((folder / group).rglob("*.onnx")):
            name = path.relative_to(folder).with_suffix("").as_posix()
            found.setdefault(hashlib.sha256(path.read_bytes()).digest(), (name, path))
    return dict(sorted(found.values()))


def _give_inputs(packages: Path) -> Iterator[str]:
    for path in sorted(packages.rglob("*.onnx")):
        if path.with_suffix(".npz").exists():
            continue
        name = path.relative_to(packages).with_suffix("").as_posix()
        inputs = make_inputs(name, onnx.load(path, load_external_data=False))
        np.savez(path.with_suffix(".npz"), **inputs)  # pyright: ignore[reportArgumentType]
        shapes = ", ".join(f"{key} {array.shape}" for key, array in inputs.items())
        yield f"{name}: {shapes}"


def _store_all(target: Path, made: Iterable[Made | str]) -> Iterator[str]:
    """Writes models and their inputs; passes on what was said of those that could not be made."""
    target.mkdir(parents=True)
    for each in made:
        if isinstance(each, str):
            yield each
        else:
            name, data, inputs = each
            (target / f"{name}.onnx").write_bytes(data)
            np.savez(target / f"{name}.npz", **inputs)  # pyright: ignore[reportArgumentType]
