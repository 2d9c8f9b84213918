"""Artifacts under valgrind, which sees every access, leak and race: in C programs that leak
nothing, on a processor with AVX2 at the most, and through a host's own threads.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.small_models import dense_model
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.host import host_target

HERE = Path(__file__).parent
ROWS = 200
LAYERS = 3

pytestmark = [
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.skipif(
        host_target().arch != "x86_64" or not sys.platform.startswith("linux"),
        reason="needs Linux on x86-64",
    ),
]


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    model = dense_model("rows")
    return compile_model(model, options_of(model, isa=["v2", "v3", "v4"], prefix="dense"))


def check(
    compiled: Compiled, host: str, tool: list[str], folder: Path, arguments: list[str]
) -> str:
    """What the program prints; fails where the tool has found anything."""
    compiled.export_archive(folder / "libdense.a")
    program = folder / "program"
    sources = [str(HERE / host), str(folder / "libdense.a")]
    command = ["cc", "-g", "-std=c11", "-Wall", "-Werror", f"-I{folder}", "-pthread"]
    subprocess.run([*command, *sources, "-o", str(program)], check=True)
    done = subprocess.run(
        ["valgrind", "--quiet", "--error-exitcode=99", *tool, str(program), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_no_access_goes_astray_and_nothing_leaks(compiled: Compiled, tmp_path: Path):
    tool = ["--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=all"]
    said = check(compiled, "levels_host.c", tool, tmp_path, ["0", str(tmp_path / "output")])
    assert said in ("level 0\n", "level 1\n")  # valgrind has no AVX-512


def test_kernels_race_for_nothing(compiled: Compiled, tmp_path: Path):
    output = tmp_path / "output"
    arguments = [str(ROWS), "3", str(output)]
    said = check(compiled, "helgrind_host.c", ["--tool=helgrind"], tmp_path, arguments)
    number, word = said.split()
    assert (int(number) >= LAYERS, word) == (True, "loops")
    x = (np.arange(ROWS * 96) % 17 / 8).astype(np.float32).reshape(ROWS, 96)
    (expected,) = compiled.executable(1)(x)
    got = np.fromfile(output, np.float32).reshape(ROWS, 80)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
