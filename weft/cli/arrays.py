"""Arrays for a model to run on, read from files or random; and results as files."""

from __future__ import annotations

import re
import zipfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.compiler.driver.read_options import read_fixed_sizes
from weft.compiler.machine.artifact.dims import size_of
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.dialects.errors import InputError
from weft.dialects.weights import Array

RANDOM_INTEGERS: Final = 10
"""Random integers lie below this: few are valid for an input that is looked up in a table."""

_STEM_BYTES: Final = 200
"""Of a name in the name of a file: systems take 255 in all."""


def add_input_options(parser: ArgumentParser) -> None:
    """--input and --random-dim, of which `read_inputs` and `random_inputs` read."""
    parser.add_argument(
        "--input", metavar="NAME=FILE", action="append", default=[],
        help="an array in NumPy's .npy format; once for each input",
    )  # fmt: skip
    add_random_dims(parser)


def add_random_dims(parser: ArgumentParser) -> None:
    """--random-dim, which says what random inputs of any size have."""
    parser.add_argument(
        "--random-dim", metavar="NAME=SIZE", action="append", default=[],
        help="a named size of random inputs, which stays open in a model; --dim fixes it",
    )  # fmt: skip


def add_random_option(parser: ArgumentParser) -> None:
    """--random, by default with the seed 0."""
    parser.add_argument(
        "--random", metavar="SEED", type=int, nargs="?", const=0,
        help="random arrays for inputs without a file: the same for the same seed",
    )  # fmt: skip


def read_inputs(specs: Sequence[TensorSpec], texts: Sequence[str]) -> dict[str, Array]:
    """The arrays of `name=file.npy` texts; a model with one input needs no name."""
    names = [spec.name for spec in specs]
    arrays: dict[str, Array] = {}
    for text in texts:
        name, path = _split(text, names)
        if name in arrays:
            raise InputError(f"--input requires each name once, got {name} twice")
        arrays[name] = _read_array(path)
    return arrays


def _split(text: str, names: Sequence[str]) -> tuple[str, str]:
    for name in sorted(names, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, text[len(name) + 1 :]
    if len(names) == 1 and "=" not in text:
        return names[0], text
    raise InputError(f"--input requires name=file.npy with a name of {names}, got {text}")


def _read_array(path: str) -> Array:
    try:
        array: Any = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} requires one array in NumPy's format, got {error}") from error
    if type(array) is not np.ndarray:
        raise InputError(f"{path} requires one array in NumPy's format, got several")
    return array


def read_archive(specs: Sequence[TensorSpec], path: str) -> dict[str, Array]:
    """The arrays of a file in NumPy's .npz format, by input. Raises InputError for another form or
    other names.
    """
    try:
        found: Any = np.load(path, allow_pickle=False)
        arrays: dict[str, Array] = {name: found[name] for name in found.files}
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} requires arrays in NumPy's .npz format, got {error}") from error
    names = [spec.name for spec in specs]
    unknown = [name for name in arrays if name not in names]
    if unknown:
        raise InputError(f"{path} requires arrays named as inputs, {names}, got {unknown}")
    return arrays


def random_inputs(specs: Sequence[TensorSpec], seed: int, arguments: Namespace) -> dict[str, Array]:
    """An array for each input: floats of a normal distribution, small integers, either truth; of
    the sizes that the command line has.
    """
    texts = [*(arguments.dims or ()), *arguments.random_dim]
    dims = {each.name: each.size for each in read_fixed_sizes(texts)}
    generator = np.random.default_rng(seed)
    return {spec.name: _random(spec, generator, dims) for spec in specs}


def _random(spec: TensorSpec, generator: np.random.Generator, dims: Mapping[str, int]) -> Array:
    try:
        shape = [size_of(dim)(dims) for dim in spec.dims]
    except KeyError as error:
        rule = f"requires --dim for every size of input '{spec.name}'"
        raise InputError(f"--random {rule}, got none for {error.args[0]}") from error
    dtype = spec.numpy_dtype
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if dtype.kind in "iu":
        return generator.integers(0, RANDOM_INTEGERS, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def write_outputs(outputs: Mapping[str, Array], folder: Path) -> list[Path]:
    """Writes each array as `<name>.npy`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.npy" for stem in _stems(outputs)]
    for path, array in zip(paths, outputs.values(), strict=True):
        with replacing(path) as out:
            np.save(out, array)
    return paths


def _stems(names: Iterable[str]) -> list[str]:
    """Names of files, each once, for names that may have any characters."""
    stems: list[str] = []
    for name in names:
        short = name.encode()[:_STEM_BYTES].decode(errors="ignore")
        stem = plain = re.sub(r"[^\w.-]+", "_", short).strip(".") or "output"
        count = 1
        while stem in stems:
            count += 1
            stem = f"{plain}_{count}"
        stems.append(stem)
    return stems


def described(array: Array) -> list[object]:
    """Type, shape and range as cells of a table."""
    shape = f"[{', '.join(map(str, array.shape))}]"
    if array.size == 0:
        return [array.dtype.name, shape, "no elements", "", ""]
    wide: Any = array.astype(np.float64)
    numbers = (wide.min(), wide.max(), wide.mean())
    labels = ("min", "max", "mean")
    ranges = [f"{label} {number:.6g}" for label, number in zip(labels, numbers, strict=True)]
    return [array.dtype.name, shape, *ranges]
