"""Artifacts on processors that lack what they need, and with code for several kinds of them."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.machine.artifact import Compiled
from compiler.machine.host import host_target
from compiler.pipeline import compile_model
from compiler.target.cpuid import FEATURES, STATE, needed_bits
from tests.small_models import dense_model
from weft.compilation import options_of

HOST_PROGRAM = Path(__file__).with_name("levels_host.c")
EMULATOR = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.skipif(host_target().arch != "x86_64", reason="needs an x86-64 machine"),
]
emulated = pytest.mark.skipif(EMULATOR is None, reason="needs qemu-x86_64 (Debian: qemu-user)")


def compiled_for(target: str) -> Compiled:
    model = dense_model("rows")
    return compile_model(model, options_of(model, target, prefix="dense"))


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
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
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


def test_features_are_bits_of_their_own():
    assert len(set(FEATURES.values())) == len(FEATURES)


def test_vectors_need_a_system_that_saves_them():
    assert STATE not in needed_bits(["sse4.2", "bmi"])
    assert needed_bits(["avx2"])[STATE] == 0b110
    assert needed_bits(["fma", "avx512f"])[STATE] == 0b11100110
