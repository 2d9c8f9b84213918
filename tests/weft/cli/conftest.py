"""A command that runs `weft`, and a folder with a model, its artifact and its input."""

from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support.small_models import dense_model, rows_of
from tests.weft.cli.command import Command
from weft.bench.limits import levels_of_memory
from weft.compiler.target.target import Target


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(shared_cache))


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures what the machine can do wrongly, and soon: for tests of what is said of it."""
    monkeypatch.setattr("weft.bench.limits.SECONDS", 1e-4)
    monkeypatch.setattr("weft.bench.limits.CALL_SECONDS", 1e-4)
    for module in ("limits", "calibrate"):
        monkeypatch.setattr(f"weft.bench.{module}.levels_of_memory", _small_levels)


def _small_levels(target: Target, threads: int) -> list[tuple[str, int]]:
    """The levels of the target, with as little of each as the threads can share."""
    return [(level, min(size, 1 << 20)) for level, size in levels_of_memory(target, threads)]


@pytest.fixture
def weft_command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="session")
def dense_folder(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """Holds dense.onnx, libdense.so and x.npy of 5 rows; tests write elsewhere."""
    folder = tmp_path_factory.mktemp("dense")
    (folder / "dense.onnx").write_bytes(dense_model("rows").SerializeToString())
    weft.compile(folder / "dense.onnx", cache=weft.Cache(shared_cache)).export(
        folder / "libdense.so"
    )
    np.save(folder / "x.npy", rows_of(5))
    return folder
