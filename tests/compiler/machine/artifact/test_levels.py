"""Artifacts on processors that lack what they need, and with code for several kinds of them."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import weft
from tests.support.small_models import dense_model
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.artifact.artifact import Compiled, load, read_metadata
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target.cpuid import FEATURES, STATE, needed_bits

HOST_PROGRAM = Path(__file__).with_name("levels_host.c")
EMULATOR = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.skipif(host_target().arch != "x86_64", reason="needs an x86-64 machine"),
]
emulated = pytest.mark.skipif(EMULATOR is None, reason="needs qemu-x86_64 (Debian: qemu-user)")


def compiled_for(target: str) -> Compiled:
    model = dense_model("rows")
    return compile_model(model, options_of(model, target=target, prefix="dense"))


@pytest.fixture(scope="module")
def leveled() -> Compiled:
    model = dense_model("rows")
    return compile_model(model, options_of(model, isa=["v4", "v2", "v3"], prefix="dense"))


def build(compiled: Compiled, folder: Path) -> Path:
    """The host program beside its library."""
    compiled.export(folder / "libdense.so")
    program = folder / "host"
    command = ["cc", "-std=c11", "-Wall", "-Werror", str(HOST_PROGRAM), f"-I{folder}"]
    flags = [str(folder / "libdense.so"), f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run([*command, *flags], check=True)
    return program


def run(program: Path, cpu: str | None = None, flags: int = 0) -> tuple[str, np.ndarray]:
    """What the program says, and its output, on this processor or an emulated one."""
    output = program.with_name("output")
    output.write_bytes(b"")
    emulator = [] if cpu is None else [str(EMULATOR), "-cpu", cpu]
    command = [*emulator, str(program), str(flags), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 11), done
    return done.stdout.strip(), np.fromfile(output, np.float32)


@emulated
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "haswell", "znver4"])
def test_a_lesser_processor_is_told_what_it_lacks(target: str, tmp_path: Path):
    said, output = run(build(compiled_for(target), tmp_path), "Nehalem")
    v2 = "cx16, popcnt, sahf, sse3, sse4.1, sse4.2, ssse3"
    v3 = "avx, avx2, bmi, bmi2, f16c, fma, lzcnt, movbe, xsave"
    if not {f"+{name}" for name in f"{v2}, {v3}".split(", ")} <= set(host_target().features):
        pytest.skip("this machine lacks them too")
    wanted = rf"create requires a CPU with {v2}, {v3}.*, got one with {v2} that lacks some of {v3}"
    assert re.fullmatch(wanted, said)
    assert output.size == 0


@emulated
def test_an_artifact_for_all_runs_on_the_least(tmp_path: Path):
    said, output = run(build(compiled_for("x86-64"), tmp_path), "qemu64")
    assert said == "level 0"
    assert output.size == 80


def test_the_emulator_is_not_needed_to_see_this_processor(tmp_path: Path):
    said, output = run(build(compiled_for("native"), tmp_path))
    assert said == "level 0"
    expected = compiled_for("native").executable(1)(np.ones((1, 96), np.float32))[0]
    assert output.tobytes() == expected.tobytes()


def test_each_level_gives_right_answers(leveled: Compiled, tmp_path: Path):
    program = build(leveled, tmp_path)
    (expected,) = compiled_for("x86-64").executable(1)(np.ones((1, 96), np.float32))
    said, best = run(program)
    highest = int(said.removeprefix("level "))
    for level in range(highest + 1):
        said, output = run(program, flags=1 + level)
        assert said == f"level {level}"
        np.testing.assert_allclose(output, expected[0], rtol=1e-5, atol=1e-6)
    assert output.tobytes() == best.tobytes()
    for beyond in range(highest + 1, 4):
        said, output = run(program, flags=1 + beyond)
        assert said.startswith("create requires ")
        assert said.endswith(
            (f"at most 3, got {1 + beyond}", f"flags {1 + beyond} names, got one without")
        )


@emulated
def test_a_processor_gets_the_last_level_that_it_can_run(leveled: Compiled, tmp_path: Path):
    program = build(leveled, tmp_path)
    (expected,) = compiled_for("x86-64").executable(1)(np.ones((1, 96), np.float32))
    for number, cpu in enumerate(("Nehalem", "Haswell")):
        said, output = run(program, cpu)
        assert said == f"level {number}"
        np.testing.assert_allclose(output, expected[0], rtol=1e-5, atol=1e-6)
    said, _ = run(program, "qemu64")
    assert said.startswith("create requires a CPU with cx16, popcnt, sahf, sse3")


def test_levels_are_told_and_loaded(leveled: Compiled, tmp_path: Path):
    path = tmp_path / "libdense.so"
    leveled.export(path)
    metadata = read_metadata(path)
    names = [level["name"] for level in metadata["levels"]]
    assert names == ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    assert metadata["features"] == metadata["levels"][0]["features"]
    x = np.random.default_rng(0).random((5, 96), np.float32)
    assert load(path, host_target())(x)[0].tobytes() == leveled.executable(2)(x)[0].tobytes()
    lesser = replace(host_target(), features=("+sse3",), cpu="lesser")
    with pytest.raises(weft.ArtifactError, match=r"requires a CPU with .*\+ssse3.*, got lesser"):
        load(path, lesser)


def test_levels_share_weights_of_one_layout(leveled: Compiled):
    names = [weight["name"] for weight in leveled.metadata["weights"]]
    assert names.count("bias") == 1
    assert len(set(names)) == len(names)


def test_every_level_has_its_place_in_the_cache(tmp_path: Path):
    model, cache = dense_model("rows"), weft.Cache(tmp_path)
    first, again = (weft.compile(model, isa=["v1", "v2"], cache=cache) for _ in range(2))
    first.export(tmp_path / "a.so")
    again.export(tmp_path / "b.so")
    assert first.metadata == again.metadata
    one = weft.compile(model, isa=["v1"], cache=cache)
    assert "levels" not in one.metadata


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"isa": ["v5"]}, "isa requires some of v1, v2, v3, v4, got v5"),
        ({"isa": ["v2"], "target": "x86-64"}, "got the target x86-64"),
    ],
)
def test_refuses_levels(options: dict, reason: str):
    with pytest.raises(weft.OptionError, match=reason):
        options_of(dense_model("rows"), **options)


def test_features_are_bits_of_their_own():
    assert len(set(FEATURES.values())) == len(FEATURES)


def test_vectors_need_a_system_that_saves_them():
    assert STATE not in needed_bits(["sse4.2", "bmi"])
    assert needed_bits(["avx2"])[STATE] == 0b110
    assert needed_bits(["fma", "avx512f"])[STATE] == 0b11100110
