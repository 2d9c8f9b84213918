"""Files of tuned schedules: read back what was written, add to it, take what fits the target."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.tuned_file import (
    Tuned,
    TunedWarning,
    read_tuned,
    target_key,
    tuned_for,
    warn_of_others,
    write_tuned,
)
from weft.compiler.target.module_target import GENERIC
from weft.dialects.errors import OptionError

KEY = target_key(GENERIC)
FIRST = Tuned(KEY, "relu_1", 1, 2.0, 1.0, ('parallelize{loop="i"}',))


def test_later_schedules_replace_those_of_the_same_kernel_and_target(tmp_path: Path):
    path = tmp_path / "tuned.json"
    other = replace(FIRST, target="elsewhere")
    write_tuned(path, [FIRST, other])
    faster = replace(FIRST, tuned_ms=0.5, steps=())
    write_tuned(path, [faster, replace(FIRST, kernel="relu_2")])
    assert set(read_tuned(path)) == {faster, other, replace(FIRST, kernel="relu_2")}
    assert tuned_for(path, GENERIC) == (
        KernelSchedule("relu_1", ()),
        KernelSchedule("relu_2", FIRST.steps),
    )
    rule = f"tuned requires schedules for x86-64-v3 128, got .* for elsewhere, {KEY}"
    with pytest.warns(TunedWarning, match=rule):
        assert tuned_for(path, replace(GENERIC, vector_bytes=16)) == ()


def test_what_is_known_of_a_cpu_does_not_tell_targets_apart():
    assert target_key(replace(GENERIC, cores=7)) == KEY
    assert target_key(replace(GENERIC, cost=replace(GENERIC.cost, ghz=5.0))) == KEY


def test_schedules_of_other_kernels_are_named():
    found = [KernelSchedule("relu_1", ()), KernelSchedule("relu_2", ())]
    with pytest.warns(TunedWarning, match="of the model's kernels, got @relu_2 too, unused"):
        warn_of_others(found, {"relu_1"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not json", "a file that `weft tune` wrote"),
        ("[]", "a file of format 3"),
        ('{"format": 1, "schedules": []}', "a file of format 3"),
        ('{"format": 3, "schedules": [{"kernel": "k"}]}', "schedules of kernels, got {'kernel'"),
        (None, "a file that `weft tune` wrote"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str | None, reason: str):
    path = tmp_path / "tuned.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(OptionError, match="tuned requires ") as refusal:
        tuned_for(path, GENERIC)
    assert reason in str(refusal.value)
