"""`.pt2` files of torch.export, read without torch, against eager mode."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="torch.export writes the files")

import weft  # noqa: E402
from weft.dialects.errors import InputError, ModelError, UnsupportedError  # noqa: E402


class Layers(torch.nn.Module):
    """A model of images whose batch varies."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 2)
        self.drop = torch.nn.Dropout()

    def forward(self, x):
        y = self.norm(self.conv(x)).relu_()
        pooled = torch.nn.functional.adaptive_avg_pool2d(y, 1).flatten(1)
        return self.head(self.drop(pooled)), {"scaled": pooled * torch.tensor(2.0)}


@pytest.fixture(scope="module")
def program():
    torch.manual_seed(0)
    model = Layers().eval()
    batch = {0: torch.export.Dim("batch", min=2, max=64)}
    return model, torch.export.export(model, (torch.randn(3, 3, 6, 6),), dynamic_shapes=(batch,))


def check(exe, model):
    x = torch.randn(5, 3, 6, 6)
    with torch.no_grad():
        y, named = model(x)
    found = exe(x.numpy())
    for one, other in zip(found, (y, named["scaled"]), strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)


def test_file_is_read_without_torch(program, tmp_path):
    model, exported = program
    path = tmp_path / "layers.pt2"
    torch.export.save(exported, path)
    check(weft.compile(path), model)
    text = "import sys, weft; weft.compile(sys.argv[1]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", text, path], check=True)


def test_program_in_memory_compiles(program):
    model, exported = program
    check(weft.compile(exported), model)


def test_operators_that_are_missing_are_all_listed(tmp_path):
    class Missing(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x) + torch.igamma(x, x)

    path = tmp_path / "missing.pt2"
    torch.export.save(torch.export.export(Missing(), (torch.eye(3),)), path)
    with pytest.raises(UnsupportedError, match=r"missing.pt2: 2 nodes: .*svdvals.*igamma"):
        weft.compile(path)


@pytest.mark.parametrize("whole", [False, True])
def test_writes_that_others_see_are_refused(tmp_path, whole):
    class Writes(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            view = y[0]
            (y if whole else view).add_(1)
            return view if whole else y

    path = tmp_path / "writes.pt2"
    torch.export.save(torch.export.export(Writes(), (torch.ones(2, 2),)), path)
    with pytest.raises(UnsupportedError, match="without writes into"):
        weft.compile(path)
    exported = torch.export.export(Writes(), (torch.ones(2, 2),))
    (found,) = weft.compile(exported)(np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(found, [3, 3] if whole else [[3, 3], [2, 2]])


def test_a_file_that_is_no_program_is_refused(tmp_path):
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"PK no zip")
    with pytest.raises(ModelError, match="requires a program of torch.export"):
        weft.compile(path)


def test_range_constraints_are_bounds(program):
    exe = weft.compile(program[1])
    for rows in (1, 65):
        with pytest.raises(InputError, match="to be 2 to 64"):
            exe(np.zeros((rows, 3, 6, 6), np.float32))


def test_buffers_that_change_are_donated(tmp_path):
    class Running(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            return x * self.total

    exported = torch.export.export(Running(), (torch.ones(2, 3),)).run_decompositions()
    path = tmp_path / "running.pt2"
    torch.export.save(exported, path)
    exe = weft.compile(path)
    assert [spec.name for spec in exe.inputs] == ["x", "total"]
    total = np.zeros(3, np.float32)
    for count in (1, 2):
        result, changed = exe(np.ones((2, 3), np.float32), total)
        np.testing.assert_array_equal(result, np.full((2, 3), 2 * count))
        np.testing.assert_array_equal(total, np.full(3, 2 * count))
        assert changed is total
