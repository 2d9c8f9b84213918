"""What a compilation can be asked for: one frozen value, part of the cache key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product

import numpy as np

from weft.compiler.target.target import Target
from weft.dialects.errors import OptionError
from weft.dialects.weights import Array

BUCKET_ELSE = ("refuse", "dynamic")
"""What may happen to sizes that have no bucket."""

BUCKET_FIT = ("exact", "pad")
"""Which sizes a bucket is for: its own, or, rows being padded, lesser ones as well."""


@dataclass(frozen=True)
class KernelSchedule:
    """How a kernel, named by its hash, is to be scheduled: calls of primitives, as text such as
    `tile{loop="i" size=6}`.
    """

    kernel: str
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Bound:
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


@dataclass(frozen=True)
class Bucket:
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


@dataclass(frozen=True)
class BucketMask:
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
class Options:
    """Choices that change the compiled code.

    `prefix` starts every symbol of the artifact. `strict_fp` keeps floating-point reductions
    in the order of the graph and forbids contraction to fused multiply-adds. `naive` applies
    no schedule and fuses nothing. `schedules` replaces what weft would choose for those kernels.
    `outputs` are the values that the model gives, by their names in it; none stands for its own.
    The gradients of the first output, a scalar, in the inputs `gradients` are further outputs.
    `tuned` does the same where the model has those kernels.
    `weights` says where an artifact has them: embedded, in a file, or with its caller.
    `timed` adds an output: the ticks of each call of a kernel.
    `isa` are the CPU levels that one artifact holds, from the least, which is also the `target`;
    none stands for the target alone.
    `bare` leaves the description of the model out of the code, so that models which take and give
    equally many tensors share their run time.
    `bounds` are of sizes of the inputs. For each combination of `buckets` there is a copy of the
    program for these very sizes; for others `bucket_else` is `refuse`, or `dynamic` for one more.
    `bucket_fit` is `exact`, or `pad` for lesser sizes to be padded to those of a bucket, which has
    to be proved not to change results, but for sizes that have one of `bucket_masks`.
    `self_test` adds golden inputs and outputs, and what compares them.
    `max_iterations` is how many a loop may have before a call fails; None is no limit.
    `check_indices` makes an index outside of its axis an error of the call.
    `guarded` is for a fuzzer: the side of GUARD_SIDES on which each buffer of the workspace lies
    against a page of nobody; buffers on the stack lie between poisoned bytes, which are checked.
    """

    target: Target
    prefix: str = "model"
    strict_fp: bool = False
    naive: bool = False
    schedules: tuple[KernelSchedule, ...] = ()
    outputs: tuple[str, ...] = ()
    gradients: tuple[str, ...] = ()
    timed: bool = False
    weights: str = "embedded"
    tuned: tuple[KernelSchedule, ...] = ()
    bounds: tuple[Bound, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    bucket_else: str = "refuse"
    bucket_fit: str = "exact"
    bucket_masks: tuple[BucketMask, ...] = ()
    isa: tuple[Target, ...] = ()
    bare: bool = False
    self_test: SelfTest | None = None
    check_indices: bool = False
    guarded: str = ""
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        if self.max_iterations is not None and not 1 <= self.max_iterations < 1 << 63:
            rule = "max_iterations requires a number from 1 to 2^63 - 1"
            raise OptionError(f"{rule}, got {self.max_iterations}")
        names = [name for bucket in self.buckets for name in bucket.names]
        if len(set(names)) < len(names):
            raise OptionError(f"buckets require each size once, got {', '.join(names)}")
        if self.bucket_else not in BUCKET_ELSE:
            rule = f"bucket_else requires one of {', '.join(BUCKET_ELSE)}"
            raise OptionError(f"{rule}, got {self.bucket_else}")
        if self.bucket_fit not in BUCKET_FIT:
            rule = f"bucket_fit requires one of {', '.join(BUCKET_FIT)}"
            raise OptionError(f"{rule}, got {self.bucket_fit}")
        unused = [each.size for each in self.bucket_masks if each.size not in names]
        if unused or (self.bucket_masks and self.bucket_fit != "pad"):
            rule = "bucket masks require buckets that are padded to, of the sizes that have one"
            raise OptionError(f"{rule}, got {', '.join(unused) or self.bucket_fit}")
        if self.buckets and (self.timed or self.schedules):
            raise OptionError("buckets require neither clocks nor forced schedules, got some")
        if self.self_test and self.timed:
            raise OptionError("a self-test requires a model without clocks, got some")

    def bucket_sizes(self) -> list[dict[str, int]]:
        """The named sizes of each copy, the last bucket's changing fastest."""
        return [
            {name: size for pairs in combination for name, size in pairs}
            for combination in product(*(bucket.pairs() for bucket in self.buckets))
        ]

    def levels(self) -> tuple[Options, ...]:
        """The options of each CPU level, whose symbols start with the prefix and its name."""
        if not self.isa:
            return (self,)
        return tuple(
            replace(self, target=level, isa=(), prefix=f"{self.prefix}.{level.name}")
            for level in self.isa
        )

    @property
    def digest(self) -> str:
        """A hash of every choice."""
        text = "\n".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self))
        return hashlib.sha256(text.encode()).hexdigest()
