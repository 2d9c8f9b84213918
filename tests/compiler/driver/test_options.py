"""Options are defined once: in the fields of three records, which all that takes them follows."""

import argparse
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

import numpy as np
import pytest
from msgspec import structs

import weft
from tests.support.small_models import add_model
from weft.cli.model import add_compile_options, options_from
from weft.compiler.driver.named_sizes import Bound, Bucket, BucketMask, Donation, FixedSize
from weft.compiler.driver.options import (
    PARTS,
    Artifact,
    Buckets,
    Changes,
    Options,
    keyword_of,
    option_fields,
    user_options,
)
from weft.compiler.driver.read_options import FixedInput, SelfTest
from weft.compiler.target.x86 import X86_TARGETS
from weft.dialects.module_attributes import CodeOptions

RECORDS = (Options, *PARTS.values())

# A value that is not the default, the command line that says it, and what is held.
WRITTEN: Mapping[str, tuple[Any, list[str], Any]] = {
    "target": ("aarch64", ["--target-cpu", "aarch64"], None),
    "strict_fp": (True, ["--strict-fp"], True),
    "naive": (True, ["--naive"], True),
    "schedule": (None, [], ()),
    "tuned": (None, [], ()),
    "outputs": (["a", "b"], ["--outputs", "a,b"], ("a", "b")),
    "gradients": (["w"], ["--gradients", "w"], ("w",)),
    "bounds": ({"batch": (1, 8)}, ["--bound", "batch=1..8"], (Bound("batch", 1, 8),)),
    "dims": ({"batch": 4}, ["--dim", "batch=4"], (FixedSize("batch", 4),)),
    "values": ({"r": [2, 3]}, ["--value", "r=2,3"], (FixedInput.of("r", np.array([2, 3])),)),
    "donate": ({"past": "new"}, ["--donate", "past=new"], (Donation("past", "new"),)),
    "max_iterations": (9, ["--max-iterations", "9"], 9),
    "max_weights_bytes": ("1.1x", ["--max-weights-bytes", "1.1x"], "1.1x"),
    "check_indices": (True, ["--check-indices"], True),
    "mesh": ("data=2", ["--mesh", "data=2"], "data=2"),
    "shard": ({"w": ",data"}, ["--shard", "w=,data"], ("w=,data",)),
    "stage": ({"add": 1}, ["--stage", "add=1"], ("add=1",)),
    "buckets": (["n=1,4"], ["--bucket", "n=1,4"], (Bucket(("n",), ((1,), (4,))),)),
    "bucket_else": ("dynamic", ["--bucket-else", "dynamic"], "dynamic"),
    "bucket_fit": ("pad", ["--bucket-fit", "pad"], "pad"),
    "bucket_masks": (["n=mask"], ["--bucket-mask", "n=mask"], (BucketMask("n", "mask"),)),
    "prefix": ("net", ["--prefix", "net"], "net"),
    "weights": ("file", ["--weights", "file"], "file"),
    "isa": (["v3", "v1"], ["--isa", "v3,v1"], (X86_TARGETS[0], X86_TARGETS[2])),
    "self_test": (True, ["--self-test"], SelfTest()),
}
BESIDE = {
    "bucket_masks": {"buckets": ["n=1,4"], "bucket_fit": "pad"},
    "shard": {"mesh": "data=2"},
    "stage": {"mesh": "data=2"},
}
"""What an option requires."""


def of_command_line(*words: str) -> Options:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    add_compile_options(parser)
    return options_from(parser.parse_args(["net.onnx", *words]))


@pytest.mark.parametrize("keyword", WRITTEN)
def test_keywords_and_flags_are_the_same_options(keyword: str):
    written, words, held = WRITTEN[keyword]
    beside = BESIDE.get(keyword, {})
    said = [word for name in beside for word in WRITTEN[name][1]]
    made = Options(artifact=Artifact("net")).changed(**{**beside, keyword: written})
    assert made == of_command_line("--prefix", "net", *said, *words)
    part, name = option_fields()[keyword] if keyword != "buckets" else ("buckets", "sizes")
    found = getattr(getattr(made, part) if part else made, name)
    assert found == held or (keyword == "target" and found.name == "aarch64")


def test_every_option_is_written_above():
    public = [keyword_of(each) for record in RECORDS for each in user_options(record)]
    assert sorted(public) == sorted(WRITTEN)


def test_type_checkers_see_what_the_fields_take():
    taken = {
        keyword_of(each): written_type(record, each)
        for record in RECORDS
        for each in user_options(record)
    }
    parts = {
        each.name: written_type(Options, each) for each in fields(Options) if each.name in PARTS
    }
    assert get_type_hints(Changes) == taken | parts


def written_type(record: type, option: Any) -> object:
    """What a field is given: what its converter takes, if it has one."""
    converter = option.metadata["converter"]
    if converter is None:
        return get_type_hints(record)[option.name]
    return get_type_hints(converter)["written"]


def test_options_on_a_module_are_those_of_the_compilation():
    defaults = {each.name: each.default for each in fields(Options)}
    module = {each.name: each.default for each in structs.fields(CodeOptions)}
    assert module.keys() - defaults.keys() == {"prefix", "schedules"}
    assert {name: defaults[name] for name in module if name in defaults}.items() <= module.items()


def test_records_list_their_fields():
    for record in RECORDS:
        for each in fields(record):
            assert f"{each.name}: {each.metadata['help']}" in record.__doc__


def test_what_is_read_stays_as_it_is():
    made = Options(
        "x86-64-v3",
        bounds={"n": (1, 2)},
        buckets=Buckets(["n=1"], fit="pad", masks=["n=m"]),
        artifact=Artifact("net", weights="file", self_test=True),
    )
    assert replace(made, strict_fp=False) == made
    levels = Options(artifact=Artifact(isa=["v2", "v1"]))
    assert levels.target == X86_TARGETS[0]
    assert replace(levels, strict_fp=False) == levels


def test_changes_keep_what_they_do_not_name():
    base = Options(buckets=Buckets(["n=1"], otherwise="dynamic"), artifact=Artifact("net"))
    made = base.changed(weights="file", bucket_fit="pad")
    assert made.artifact == Artifact("net", weights="file")
    assert made.buckets == Buckets(["n=1"], otherwise="dynamic", fit="pad")
    assert base.changed(buckets=["n=2"]).buckets == Buckets(["n=2"])


def test_compile_takes_options_and_changes_of_them():
    options = weft.Options(strict_fp=True, artifact=weft.Artifact("net"))
    metadata = weft.compile(add_model(), options=options, cache=False).metadata
    assert metadata["prefix"] == "net"
    changed = weft.compile(add_model(), options=options, prefix="other", cache=False).metadata
    assert changed["prefix"] == "other"


def test_what_is_no_model_is_refused_with_a_sentence(tmp_path: Any):
    for cache in (False, weft.Cache(tmp_path)):
        with pytest.raises(weft.OptionError, match="a model requires a front end.*, got int"):
            weft.compile(5, cache=cache)  # pyright: ignore[reportArgumentType]


def test_functions_refuse_what_is_no_option_of_theirs():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        weft.jit(abs, nonsense=1)
    for transform in (weft.trace, weft.step):
        with pytest.raises(weft.OptionError, match="weft.grad for a function, got x"):
            transform(abs, 1.0, gradients=["x"])
    for changes in ({"buckets": ["n=1"]}, {"values": {"x": 1}}):
        with pytest.raises(weft.OptionError, match="buckets and values require a model"):
            weft.trace(abs, weft.Spec("float32", ("n",)), **changes)
