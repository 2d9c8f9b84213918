"""What a user says of named sizes of the inputs: values, bounds, buckets, masks; also as texts."""

from __future__ import annotations

import re

from msgspec import Struct

from weft.dialects.errors import OptionError


class Bound(Struct, frozen=True):
    """The least and greatest value that a named size of the model's inputs has in any call."""

    name: str
    least: int
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most:
            rule = f"bound requires sizes in order, of at least 0, for {self.name}"
            raise OptionError(f"{rule}, got {self.least}..{self.most}")


def parse_bound(text: str) -> Bound:
    """The bound that a text such as `batch=1..32` says. Raises OptionError for another text."""
    found = re.fullmatch(r"(\w+)=(\d+)\.\.(\d+)", text, re.ASCII)
    if found is None:
        raise OptionError(f"bound requires a text such as batch=1..32, got {text!r}")
    return Bound(found[1], int(found[2]), int(found[3]))


class FixedSize(Struct, frozen=True):
    """The one value that a named size of the model's inputs has."""

    name: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise OptionError(f"dim requires a size of at least 0, got {self.name}={self.size}")


def parse_fixed_size(text: str) -> FixedSize:
    """The size that a text such as `batch=4` fixes. Raises OptionError for another text."""
    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch(r"\d+", size, re.ASCII):
        raise OptionError(f"dim requires a text such as batch=4, got {text!r}")
    return FixedSize(name, int(size))


class Bucket(Struct, frozen=True):
    """Sizes that named sizes of the inputs have together: in each of `sizes` one for each name."""

    names: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    def pairs(self) -> list[tuple[tuple[str, int], ...]]:
        """Names with their sizes, of each of `sizes`."""
        return [tuple(zip(self.names, each, strict=True)) for each in self.sizes]


def parse_bucket(text: str) -> Bucket:
    """The sizes that a text such as `batch=1,4` or `h,w=224x224,448x448` says. Raises OptionError
    for another text.
    """
    names, _, values = text.partition("=")
    found = re.fullmatch(r"\w+(,\w+)*=\d+(x\d+)*(,\d+(x\d+)*)*", text, re.ASCII)
    sizes = tuple(tuple(map(int, each.split("x"))) for each in values.split(",")) if found else ()
    split = tuple(names.split(","))
    if not sizes or any(len(each) != len(split) for each in sizes):
        rule = "bucket requires a text such as batch=1,4 or h,w=224x224,448x448"
        raise OptionError(f"{rule}, got {text!r}")
    return Bucket(split, sizes)


class BucketMask(Struct, frozen=True):
    """That rows of a named size where an input is 0 change nothing else, on the caller's word."""

    size: str
    input: str


def parse_bucket_mask(text: str) -> BucketMask:
    """The mask that a text such as `sequence=attention_mask` names. Raises OptionError for another
    text.
    """
    size, _, name = text.partition("=")
    if not size or not name:
        rule = "bucket mask requires a text such as sequence=attention_mask"
        raise OptionError(f"{rule}, got {text!r}")
    return BucketMask(size, name)


class Donation(Struct, frozen=True):
    """An input whose memory an output takes."""

    input: str
    output: str


def parse_donation(text: str) -> Donation:
    """The pair that a text such as `past=present` names. Raises OptionError for another text."""
    source, _, target = text.partition("=")
    if not source or not target:
        raise OptionError(f"donate requires a text such as past=present, got {text!r}")
    return Donation(source, target)
