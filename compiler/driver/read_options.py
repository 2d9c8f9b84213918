"""What users write of options -> what they hold, and what makes records of them. Each function
raises OptionError for a text that says nothing; values that were read already stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast, dataclass_transform

import numpy as np

from weft.compiler.deferred import quicker_dataclasses
from weft.compiler.driver.named_sizes import (
    Bound,
    Bucket,
    BucketMask,
    Donation,
    FixedSize,
    parse_bound,
    parse_bucket,
    parse_bucket_mask,
    parse_donation,
    parse_fixed_size,
)
from weft.compiler.graph.partition.written import read_axes, read_shardings, read_stages
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import X86_TARGETS
from weft.dialects.errors import OptionError
from weft.dialects.weights import Array, digest_of

FileName = str | os.PathLike[str]
"""The path of a file."""

GoldenInputs = bool | FileName | Mapping[str, Any]
"""Whether there is a self-test, or its inputs, or where they are."""


@dataclass(frozen=True)
class SelfTest:
    """That an artifact has golden inputs and outputs: inputs that weft makes up, or those given by
    name, of which `digest` is the SHA-256.
    """

    digest: str = ""
    arrays: Mapping[str, Array] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> SelfTest:
        """A test on these arrays."""
        digest = hashlib.sha256()
        for name, array in sorted(arrays.items()):
            digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return SelfTest(digest.hexdigest(), arrays)


@dataclass(frozen=True)
class FixedInput:
    """The value that an input has in each call, of which `digest` is the SHA-256."""

    name: str
    digest: str
    array: Array = field(repr=False, compare=False)

    @staticmethod
    def of(name: str, array: Array) -> FixedInput:
        """This value of the input."""
        return FixedInput(name, f"{digest_of(array)} {list(array.shape)}", array)


def parse_fixed_input(text: str) -> FixedInput:
    """The value that a text such as `rate=16000` or `sizes=3,4` fixes, `sizes=[3]` for one that
    only looks like a number. Raises OptionError for another text.
    """
    name, _, numbers = text.partition("=")
    try:
        elements = json.loads(f"[{numbers}]")
        array = np.asarray(elements[0] if len(elements) == 1 else elements)
    except ValueError:
        array = np.asarray(None)
    if not name or array.dtype.kind not in "biuf":
        rule = "value requires a text such as rate=16000 or sizes=3,4"
        raise OptionError(f"{rule}, got {text!r}")
    return FixedInput.of(name, array)


def choice(keyword: str, choices: Sequence[str]) -> Callable[[str], str]:
    """A reader of one of the known texts."""

    def read(written: str) -> str:
        if written not in choices:
            raise OptionError(f"{keyword} requires one of {', '.join(choices)}, got {written}")
        return written

    return read


def split_names(text: str) -> list[str]:
    """The names of a text with commas between them."""
    return [name for name in text.split(",") if name]


def read_names(written: Sequence[str]) -> tuple[str, ...]:
    """Names in any sequence."""
    return tuple(written)


def read_target(written: str | Target) -> Target:
    """The target of a name, or one that is given."""
    if isinstance(written, Target):
        return written
    if written == "native":
        return host_target()
    for target in TARGETS:
        if target.name == written:
            return target
    choices = ", ".join(["native", *(target.name for target in TARGETS)])
    raise OptionError(f"target requires one of {choices}, got {written}")


def read_levels(written: Sequence[str | Target]) -> tuple[Target, ...]:
    """The x86-64 levels of these names, from the least on."""
    choices = dict(zip(("v1", "v2", "v3", "v4"), X86_TARGETS, strict=True))
    for each in written:
        if each not in choices and each not in X86_TARGETS:
            raise OptionError(f"isa requires some of {', '.join(choices)}, got {each}")
    return tuple(level for name, level in choices.items() if name in written or level in written)


def read_prefix(written: str | None) -> str | None:
    """A start of names in C and of a module, or none."""
    if written is not None and written != c_identifier(written):
        rule = "requires letters, digits and _ that can start a name in C and name a module"
        raise OptionError(f"prefix {rule}, got {written!r}")
    return written


def read_self_test(written: GoldenInputs | SelfTest | None) -> SelfTest | None:
    """The self-test that a user asks for."""
    if isinstance(written, bool):
        return SelfTest() if written else None
    if isinstance(written, (str, os.PathLike)):
        from zipfile import BadZipFile

        try:
            arrays: Any = np.load(written, allow_pickle=False)
            written = dict(arrays)
        except (OSError, ValueError, EOFError, TypeError, BadZipFile) as error:
            rule = "self-test requires arrays by name in NumPy's format .npz"
            raise OptionError(f"{rule}, got {os.fspath(written)}: {error}") from error
    if written is None or isinstance(written, SelfTest):
        return written
    return SelfTest.of({name: np.asarray(array) for name, array in written.items()})


def read_schedule(
    written: FileName | Sequence[KernelSchedule] | None,
) -> tuple[KernelSchedule, ...]:
    """The schedules of a file, or those that are given."""
    if not isinstance(written, (str, os.PathLike)):
        return tuple(written or ())
    from weft.compiler.loop.schedule_file import parse_schedules

    path = Path(written)
    try:
        return parse_schedules(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise OptionError(f"schedule requires a text file, got {path}: {problem}") from problem


def read_tuned(written: FileName | Sequence[KernelSchedule] | None) -> tuple[KernelSchedule, ...]:
    """The schedules that are given, or the path of a file that has some."""
    if isinstance(written, (str, os.PathLike)):
        # It stays a path until Options has a target, whose schedules are taken.
        return cast("tuple[KernelSchedule, ...]", Path(written))
    return tuple(written or ())


def read_bounds(
    written: Mapping[str, tuple[int, int]] | Sequence[str | Bound] | None,
) -> tuple[Bound, ...]:
    """Bounds by name, or as texts."""
    if isinstance(written, Mapping):
        return tuple(Bound(name, *pair) for name, pair in written.items())
    return tuple(parse_bound(each) if isinstance(each, str) else each for each in written or ())


def read_fixed_sizes(
    written: Mapping[str, int] | Sequence[str | FixedSize] | None,
) -> tuple[FixedSize, ...]:
    """Sizes by name, or as texts."""
    if isinstance(written, Mapping):
        return tuple(FixedSize(name, size) for name, size in written.items())
    read = tuple(parse_fixed_size(x) if isinstance(x, str) else x for x in written or ())
    _require_once("dims", [each.name for each in read])
    return read


def read_donations(
    written: Mapping[str, str] | Sequence[str | Donation] | None,
) -> tuple[Donation, ...]:
    """Inputs and the outputs that take their memory, by name, or as texts."""
    if isinstance(written, Mapping):
        return tuple(Donation(source, target) for source, target in written.items())
    return tuple(parse_donation(x) if isinstance(x, str) else x for x in written or ())


def read_fixed_inputs(
    written: Mapping[str, Any] | Sequence[str | FixedInput] | None,
) -> tuple[FixedInput, ...]:
    """Values of inputs by name, or as texts."""
    if isinstance(written, Mapping):
        return tuple(FixedInput.of(name, np.asarray(value)) for name, value in written.items())
    read = tuple(parse_fixed_input(x) if isinstance(x, str) else x for x in written or ())
    _require_once("values", [each.name for each in read])
    return read


def _require_once(keyword: str, names: Sequence[str]) -> None:
    again = [name for at, name in enumerate(names) if name in names[:at]]
    if again:
        raise OptionError(f"{keyword} require each name once, got {again[0]} twice")


def read_max_iterations(written: int | None) -> int | None:
    """A count that a program can reach, or none."""
    if written is not None and not 1 <= written < 1 << 63:
        raise OptionError(f"max_iterations requires a number from 1 to 2^63 - 1, got {written}")
    return written


def read_max_weights_bytes(written: str | int | None) -> str:
    """A number of bytes, or how many times as many as the model's weights have, such as `1.1x`."""
    text = "" if written is None else str(written)
    if text and not re.fullmatch(r"[0-9]+|[0-9]+(\.[0-9]+)?x", text):
        rule = "a number of bytes, or of times the model's own, such as 1.1x"
        raise OptionError(f"max_weights_bytes requires {rule}, got {text}")
    return text


def read_mesh_text(written: object) -> str:
    """The text of a mesh, or of what has one, such as `weft.Mesh`, with spaces left out."""
    text = str(written or "").replace(" ", "")
    read_axes(text)
    return text


def read_shard_texts(written: Mapping[str, Any] | Sequence[str] | None) -> tuple[str, ...]:
    """Shardings as texts, or as what has one by name, such as `weft.P`."""
    if isinstance(written, Mapping):
        written = [f"{name}={each}" for name, each in written.items()]
    texts = tuple(written or ())
    read_shardings(texts)
    return texts


def read_stage_texts(written: Mapping[str, int] | Sequence[str] | None) -> tuple[str, ...]:
    """Stages as texts, or as numbers by the names of nodes."""
    if isinstance(written, Mapping):
        written = [f"{name}={each}" for name, each in written.items()]
    texts = tuple(written or ())
    read_stages(texts)
    return texts


def read_bucket_sizes(written: Sequence[str | Bucket]) -> tuple[Bucket, ...]:
    """Buckets, also as texts."""
    return tuple(parse_bucket(each) if isinstance(each, str) else each for each in written)


def read_masks(written: Sequence[str | BucketMask]) -> tuple[BucketMask, ...]:
    """Masks, also as texts."""
    return tuple(parse_bucket_mask(each) if isinstance(each, str) else each for each in written)


_T = TypeVar("_T")


def option(
    *,
    default: Any,
    help: str,
    converter: Callable[[Any], Any] | None = None,
    keyword: str | None = None,
    flag: str | None = None,
    **argument: Any,
) -> Any:
    """A field that users set: what it is for; what reads that which they write; the keyword of
    `weft.compile` and the flag of the command line where these are not the field's name; and what
    else argparse has to know.
    """
    metadata = {"help": help, "converter": converter, "keyword": keyword, "flag": flag}
    return field(default=default, metadata=metadata | {"argument": argument})


def part(*, default: Any, help: str, converter: Callable[[Any], Any] | None = None) -> Any:
    """A field that is a record of options itself, or that only weft sets."""
    return field(default=default, metadata={"help": help, "converter": converter})


@dataclass_transform(frozen_default=True, field_specifiers=(option, part))
def record(cls: type[_T]) -> type[_T]:
    """A frozen dataclass whose docstring lists its fields."""
    with quicker_dataclasses():
        made: Any = dataclass(frozen=True)(cls)
    lines = (f"{each.name}: {each.metadata['help']}" for each in fields(made))
    made.__doc__ = "\n\n".join([cls.__doc__ or "", *lines])
    return made


def keyword_of(option: Field[Any]) -> str:
    """What callers name an option by."""
    return option.metadata.get("keyword") or option.name


def user_options(record: type[Any]) -> list[Field[Any]]:
    """The fields of a record that users set, by a keyword and on the command line."""
    return [each for each in fields(record) if "argument" in each.metadata]


def read_fields(record: Any) -> None:
    """What is written in the fields becomes what they hold."""
    for each in fields(record):
        converter = each.metadata.get("converter")
        if converter is not None:
            object.__setattr__(record, each.name, converter(getattr(record, each.name)))
