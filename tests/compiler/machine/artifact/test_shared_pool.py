"""`m_create_pool`: the contexts of a C program, of two artifacts, compute with one pool."""

import shutil
import subprocess
from pathlib import Path

import pytest

import weft
import weft.numpy as wnp

HOST_PROGRAM = Path(__file__).with_name("pool_host.c")
SIZE = 200

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def product(x, y):
    return wnp.tanh(x @ y)


def difference(x, y):
    return wnp.exp(x @ y - x)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    specs = [weft.Spec("float32", (SIZE, SIZE))] * 2
    for name, function in (("m", product), ("n", difference)):
        weft.compile(function, specs, prefix=name).export(folder / f"lib{name}.so")
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", str(HOST_PROGRAM)]
    libraries = [str(folder / "libm.so"), str(folder / "libn.so")]
    where = [f"-I{folder}", f"-Wl,-rpath,{folder}", "-o", str(folder / "host")]
    subprocess.run([*command, *libraries, *where], check=True)
    return folder / "host"


@pytest.mark.parametrize(("threads", "callers"), [(1, 2), (2, 4), (3, 4)])
def test_contexts_of_two_models_share_threads_and_keep_their_bits(
    host: Path, threads: int, callers: int
):
    done = subprocess.run(
        [host, str(threads), str(callers), "0.01"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(threads), "1"]
