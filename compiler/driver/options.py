"""What a compilation can be asked for: frozen records whose fields have their documentation.

A field is what `weft.compile` takes by keyword, an argument of the command line and a part of the
cache's key. What users write of it (names, texts, paths) is read when the record is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from weft.compiler.driver.named_sizes import Bound, Bucket, BucketMask, Donation, FixedSize
from weft.compiler.driver.read_options import (
    FileName,
    FixedInput,
    GoldenInputs,
    SelfTest,
    choice,
    keyword_of,
    option,
    part,
    read_bounds,
    read_bucket_sizes,
    read_donations,
    read_fields,
    read_fixed_inputs,
    read_fixed_sizes,
    read_levels,
    read_masks,
    read_max_iterations,
    read_max_weights_bytes,
    read_mesh_text,
    read_names,
    read_prefix,
    read_schedule,
    read_self_test,
    read_shard_texts,
    read_stage_texts,
    read_target,
    read_tuned,
    record,
    split_names,
    user_options,
)
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.weights.file import EMBEDDED, WEIGHT_LOCATIONS
from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target
from weft.dialects.errors import OptionError

BUCKET_ELSE: Final = ("refuse", "dynamic")
"""What may happen to sizes that have no bucket."""

BUCKET_FIT: Final = ("exact", "pad")
"""Which sizes a bucket is for: its own, or, rows being padded, lesser ones as well."""

DEFAULT_PREFIX: Final = "model"


@record
class Buckets:
    """Sizes that named sizes of the inputs have in most calls. There is a copy of the program for
    each combination.
    """

    sizes: tuple[Bucket, ...] = option(
        default=(),
        help="copies of the program for these sizes, such as batch=1,4 or h,w=224x224,448x448, "
        "which share weights",
        converter=read_bucket_sizes,
        keyword="buckets",
        flag="--bucket",
        metavar="SIZES=VALUES",
        action="append",
    )
    otherwise: str = option(
        default=BUCKET_ELSE[0],
        help="what happens to a call with sizes of no bucket: refuse, an error, or dynamic, a copy "
        "for any sizes",
        converter=choice("bucket_else", BUCKET_ELSE),
        keyword="bucket_else",
        choices=BUCKET_ELSE,
    )
    fit: str = option(
        default=BUCKET_FIT[0],
        help="the sizes that a bucket is for: exact, its own, or pad, lesser ones that are padded "
        "as well; what cannot be proved to stay right is refused while compiling",
        converter=choice("bucket_fit", BUCKET_FIT),
        keyword="bucket_fit",
        choices=BUCKET_FIT,
    )
    masks: tuple[BucketMask, ...] = option(
        default=(),
        help="an input whose zeros make the model ignore what is padded along a size, such as "
        "sequence=attention_mask",
        converter=read_masks,
        keyword="bucket_masks",
        flag="--bucket-mask",
        metavar="SIZE=INPUT",
        action="append",
    )

    def __post_init__(self) -> None:
        read_fields(self)
        names = [name for bucket in self.sizes for name in bucket.names]
        if len(set(names)) < len(names):
            raise OptionError(f"buckets require each size once, got {', '.join(names)}")
        unused = [each.size for each in self.masks if each.size not in names]
        if unused or (self.masks and self.fit != "pad"):
            rule = "bucket masks require buckets that are padded to, of the sizes that have one"
            raise OptionError(f"{rule}, got {', '.join(unused) or self.fit}")

    def combinations(self) -> list[dict[str, int]]:
        """The named sizes of each copy, the last bucket's changing fastest."""
        return [
            {name: size for pairs in combination for name, size in pairs}
            for combination in product(*(bucket.pairs() for bucket in self.sizes))
        ]


@record
class Artifact:
    """What a compiled model is called, and what it has inside beside its code."""

    prefix: str | None = option(
        default=None,
        help="what the C names start with; the model's name by default",
        converter=read_prefix,
    )
    weights: str = option(
        default=EMBEDDED,
        help="where an artifact has its weights: embedded, in a file beside it, or with its caller",
        converter=choice("weights", WEIGHT_LOCATIONS),
        choices=WEIGHT_LOCATIONS,
    )
    isa: tuple[Target, ...] = option(
        default=(),
        help="x86-64 levels out of v1 to v4: code for each in one artifact; the last that the "
        "processor can run is what runs",
        converter=read_levels,
        metavar="LEVEL,LEVEL",
        type=split_names,
    )
    self_test: SelfTest | None = option(
        default=None,
        help="golden inputs and outputs inside, which Executable.self_test(), <prefix>_self_test "
        "and weft verify compare; the inputs are weft's own unless a file has them by name",
        converter=read_self_test,
        metavar="INPUTS.npz",
        nargs="?",
        const=True,
    )
    level: str = part(default="", help="the CPU level of this code, of several in one artifact")
    bare: bool = part(
        default=False,
        help="leaves the description of the model out of the code, so that models which take and "
        "give equally many tensors share their run time",
    )

    def __post_init__(self) -> None:
        read_fields(self)


def read_buckets(written: Buckets | Sequence[str | Bucket]) -> Buckets:
    """Buckets, or their sizes."""
    return written if isinstance(written, Buckets) else Buckets(written)


@record
class Options:
    """Choices that change the compiled code. Raises OptionError for what is none, and
    IllegalSchedule for a schedule with lines that are no calls of primitives.
    """

    target: Target = option(
        default="native",
        help="the CPU: native (this machine), " + ", ".join(target.name for target in TARGETS),
        converter=read_target,
        flag="--target-cpu",
        metavar="CPU",
    )
    strict_fp: bool = option(
        default=False, help="keep sums in the order of the model, never fuse multiply and add"
    )
    naive: bool = option(default=False, help="plain loops: no fusion, no schedules")
    schedule: tuple[KernelSchedule, ...] = option(
        default=(),
        help="a file that says how to schedule the kernels that it names, as `weft inspect "
        "--schedules` prints it",
        converter=read_schedule,
        metavar="FILE",
    )
    tuned: tuple[KernelSchedule, ...] = option(
        default=(),
        help="a file of schedules that `weft tune` found, for those kernels of the model that it "
        "has",
        converter=read_tuned,
        metavar="FILE",
    )
    outputs: tuple[str, ...] = option(
        default=(),
        help="the values that the model gives, any of its graph by their names, in place of its "
        "own outputs; what they do not need is left out",
        converter=read_names,
        metavar="NAME,NAME",
        type=split_names,
    )
    gradients: tuple[str, ...] = option(
        default=(),
        help="inputs in which the first output, one number, is differentiated: further outputs, "
        "grad_<input>",
        converter=read_names,
        metavar="NAME,NAME",
        type=split_names,
    )
    bounds: tuple[Bound, ...] = option(
        default=(),
        help="the least and greatest value of a named size of the inputs, such as batch=1..32; "
        "a call with others is refused",
        converter=read_bounds,
        flag="--bound",
        metavar="SIZE=LEAST..MOST",
        action="append",
    )
    dims: tuple[FixedSize, ...] = option(
        default=(),
        help="the one value of a named size of the inputs, such as batch=4: the model is read as "
        "if it said so",
        converter=read_fixed_sizes,
        flag="--dim",
        metavar="NAME=SIZE",
        action="append",
    )
    values: tuple[FixedInput, ...] = option(
        default=(),
        help="the value that an input has in each call, such as rate=16000 or sizes=3,4: it is a "
        "constant of the model and no input; one number fills an input of constant size",
        converter=read_fixed_inputs,
        flag="--value",
        metavar="INPUT=NUMBERS",
        action="append",
    )
    donate: tuple[Donation, ...] = option(
        default=(),
        help="an input whose memory an output takes: past_key=present_key, written row by row",
        converter=read_donations,
        metavar="INPUT=OUTPUT",
        action="append",
    )
    max_iterations: int | None = option(
        default=None,
        help="a call fails in a loop of more, such as one that never ends; no limit by default",
        converter=read_max_iterations,
        metavar="N",
        type=int,
    )
    max_weights_bytes: str = option(
        default="",
        help="transform no more filters for fewer multiplications than leave all weights at so "
        "many bytes, or so many times what the model's own take, such as 1.1x",
        converter=read_max_weights_bytes,
        metavar="BYTES",
    )
    check_indices: bool = option(
        default=False,
        help="a call with an index outside of its axis fails and names the node, in place of "
        "reading the nearest element",
    )
    mesh: str = option(
        default="",
        help="the axes of the ranks that run the model together, and their sizes, such as "
        "data=2,model=2",
        converter=read_mesh_text,
        metavar="AXIS=SIZE,...",
    )
    shard: tuple[str, ...] = option(
        default=(),
        help="the axes of the mesh that cut each dim of an input or output, such as w=,model; "
        "of several in one dim there is a + between",
        converter=read_shard_texts,
        metavar="NAME=AXES,...",
        action="append",
    )
    stage: tuple[str, ...] = option(
        default=(),
        help="the node behind whose results a stage of a pipeline begins, and its number from 1; "
        "the ranks along the axis stage of the mesh compute the stages",
        converter=read_stage_texts,
        metavar="NODE=STAGE",
        action="append",
    )
    buckets: Buckets = part(
        default=Buckets(), help="copies of the program for some sizes", converter=read_buckets
    )
    artifact: Artifact = part(default=Artifact(), help="what the artifact is called and has inside")
    brief: bool = part(
        default=False,
        help="for programs that only Python calls: those that compute for less time than such a "
        "call takes get LLVM's quick level",
    )
    timed: bool = part(default=False, help="adds an output: the ticks of each call of a kernel")
    guarded: str = part(
        default="",
        help="for a fuzzer: the side of GUARD_SIDES on which each buffer of the workspace lies "
        "against a page of nobody; buffers on the stack lie between poisoned bytes, which are "
        "checked",
    )

    def __post_init__(self) -> None:
        read_fields(self)
        self._read_levels()
        if isinstance(self.tuned, Path):
            from weft.compiler.loop.tuned_file import tuned_for

            object.__setattr__(self, "tuned", tuned_for(self.tuned, self.target))
        if self.buckets.sizes and (self.timed or self.schedule or self.donate):
            raise OptionError("buckets require no clocks, schedules and donated inputs, got some")
        if self.shard and not self.mesh:
            raise OptionError(f"shardings require a mesh, got {', '.join(self.shard)} without")
        if self.stage and not self.mesh:
            raise OptionError(f"stages require a mesh, got {', '.join(self.stage)} without")
        if self.mesh and (self.buckets.sizes or self.artifact.self_test):
            raise OptionError("a mesh requires no buckets and no self-test, got some")
        if self.artifact.self_test and (self.timed or self.donate):
            raise OptionError("a self-test requires no clocks and no donated inputs, got some")

    def _read_levels(self) -> None:
        """The least of the artifact's levels is the target, and one alone is no level."""
        levels = self.artifact.isa
        if not levels:
            return
        if self.tuned or self.target not in (levels[0], host_target()):
            tuned = "schedules that were tuned for one"
            got = tuned if self.tuned else f"the target {self.target.name}"
            raise OptionError(f"isa requires nothing else that names a CPU, got {got}")
        object.__setattr__(self, "target", levels[0])
        if len(levels) == 1:
            object.__setattr__(self, "artifact", replace(self.artifact, isa=()))

    @property
    def prefix(self) -> str:
        """What starts every symbol of the code."""
        name = self.artifact.prefix or DEFAULT_PREFIX
        return f"{name}.{self.artifact.level}" if self.artifact.level else name

    def changed(self, **changes: Unpack[Changes]) -> Options:
        """These options with others in place of some, by keyword. Raises TypeError for a keyword
        that is none.
        """
        require_keywords(changes)
        parts: dict[str, dict[str, Any]] = {"": {}, **{name: {} for name in PARTS}}
        fields_of = option_fields()
        for keyword, written in changes.items():
            within, name = fields_of[keyword]
            parts[within][name] = written
        own = parts.pop("")
        buckets = read_buckets(own.pop("buckets", self.buckets))
        artifact = own.pop("artifact", self.artifact)
        return replace(
            self,
            buckets=replace(buckets, **parts["buckets"]),
            artifact=replace(artifact, **parts["artifact"]),
            **own,
        )

    def named(self, name: str) -> Options:
        """These options for a model of this name, which is the prefix where they have none."""
        return self if self.artifact.prefix else self.changed(prefix=name)

    def levels(self) -> tuple[Options, ...]:
        """The options of each CPU level, whose symbols start with the prefix and its name."""
        levels = (
            replace(self, target=each, artifact=replace(self.artifact, isa=(), level=each.name))
            for each in self.artifact.isa
        )
        return tuple(levels) or (self,)

    @property
    def digest(self) -> str:
        """A hash of every choice."""
        text = "\n".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self))
        return hashlib.sha256(text.encode()).hexdigest()


PARTS: Final[Mapping[str, type[Any]]] = {"buckets": Buckets, "artifact": Artifact}
"""The fields of Options that are records of options themselves."""


@cache
def option_fields() -> dict[str, tuple[str, str]]:
    """The part of Options ("" for itself) and the field of it that each keyword stands for."""
    records = {"": Options, **PARTS}
    fields_of = {
        keyword_of(each): (within, each.name)
        for within, record in records.items()
        for each in user_options(record)
    }
    return fields_of | {name: ("", name) for name in PARTS}


def require_keywords(changes: Iterable[str]) -> None:
    """Raises TypeError, as calls do, for what is no option's keyword."""
    unknown = [each for each in changes if each not in option_fields()]
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")


class FunctionChanges(TypedDict, total=False):
    """What options of functions take, for type checkers."""

    target: str | Target
    strict_fp: bool
    naive: bool
    schedule: FileName | Sequence[KernelSchedule] | None
    tuned: FileName | Sequence[KernelSchedule] | None
    outputs: Sequence[str]
    gradients: Sequence[str]
    bounds: Mapping[str, tuple[int, int]] | Sequence[str | Bound] | None
    dims: Mapping[str, int] | Sequence[str | FixedSize] | None
    values: Mapping[str, Any] | Sequence[str | FixedInput] | None
    max_iterations: int | None
    max_weights_bytes: str | int | None
    check_indices: bool
    buckets: Buckets | Sequence[str | Bucket]
    bucket_else: str
    bucket_fit: str
    bucket_masks: Sequence[str | BucketMask]
    artifact: Artifact
    prefix: str | None
    weights: str
    isa: Sequence[str | Target]
    self_test: GoldenInputs | SelfTest | None


class Changes(FunctionChanges, total=False):
    """What `Options.changed` takes."""

    donate: Mapping[str, str] | Sequence[str | Donation] | None
    mesh: object
    shard: Mapping[str, Any] | Sequence[str] | None
    stage: Mapping[str, int] | Sequence[str] | None
