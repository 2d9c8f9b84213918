"""Programs of torch.export as artifacts of C programs, and machines without a C compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="torch.export writes the files")

from torch import nn  # noqa: E402

from weft.cli.main import main  # noqa: E402

HOST = Path(__file__).with_name("deployed_host.c")
CC = shutil.which("cc")
ROWS = 5


class Net(nn.Module):
    """Images to 40 numbers; its batch varies."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 40)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


@pytest.mark.skipif(CC is None, reason="needs a C compiler")
def test_a_c_program_runs_a_program_with_the_weights_of_a_state_dict(tmp_path):
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(ROWS, 3, 6, 6)
    batch = {0: torch.export.Dim("batch", min=2, max=64)}
    program = torch.export.export(model, (x,), dynamic_shapes=(batch,))
    torch.export.save(program, tmp_path / "net.pt2")
    library, host = tmp_path / "libnet.so", tmp_path / "host"
    model_file = str(tmp_path / "net.pt2")
    assert main(["compile", model_file, "--weights", "caller", "-o", str(library)]) == 0
    given = [str(HOST), str(library), f"-I{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-o", str(host)]
    subprocess.run([str(CC), "-std=c11", "-Wall", "-Werror", *given], check=True)
    x.numpy().tofile(tmp_path / "x.bin")
    for seed in (1, 2):  # the same artifact with other weights
        torch.manual_seed(seed)
        with torch.no_grad():
            model.conv.weight.normal_()
            model.head.weight.normal_()
            model.head.bias.normal_()
            wanted = model(x).numpy()
        for name, tensor in model.state_dict().items():
            tensor.numpy().tofile(tmp_path / f"{name}.bin")
        command = [host, tmp_path, ROWS, tmp_path / "x.bin", tmp_path / "y.bin"]
        subprocess.run(list(map(str, command)), check=True, timeout=20)
        found = np.fromfile(tmp_path / "y.bin", np.float32).reshape(ROWS, 40)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_no_c_compiler_is_needed(tmp_path):
    program = """
import torch, shutil
assert not any(map(shutil.which, ("cc", "c++", "gcc", "g++", "clang")))
layer, x = torch.nn.Linear(16, 8).requires_grad_(False), torch.randn(2, 16)
fast = torch.compile(layer, backend="weft", options={"fallback": "error"})
torch.testing.assert_close(fast(x), layer(x))
"""
    without = {"CC": "/bin/false", "CXX": "/bin/false", "PATH": str(tmp_path)}
    own = {"WEFT_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **without, **own}, check=True
    )
