"""weft cache: what it shows, and that it removes entries alone."""

from pathlib import Path

import pytest

from tests.weft.cli.command import Command
from weft.compiler.machine.artifact.store import Store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_cache_that_is_not_there_is_empty(weft_command: Command, folder: Path):
    assert weft_command.succeeds("cache") == f"{folder}: 0 B of at most 4.29 GB\n"
    assert weft_command.succeeds("cache", "--empty") == f"{folder}: 0 entries removed, 0 B\n"
    assert not folder.exists()


def test_entries_are_counted_and_removed(weft_command: Command, folder: Path):
    store = Store(folder)
    store.keep_kernel("one", bytes(968))
    store.keep_kernel("two", bytes(968))
    (folder / "other.txt").write_text("not ours")
    first, header, models, kernels = weft_command.succeeds("cache").splitlines()
    assert first == f"{folder}: 2 kB of at most 4.29 GB"
    assert header.split() == ["entries", "bytes", "longest", "unused"]
    assert models.split()[-5:] == ["0", "0", "B", "0", "days"]
    assert kernels.split()[-5:] == ["2", "2", "kB", "0", "days"]
    assert weft_command.succeeds("cache", "--empty") == f"{folder}: 2 entries removed, 2 kB\n"
    assert [each.name for each in folder.iterdir()] == ["other.txt"]
    assert store.find_kernel("one") is None


def test_an_empty_store_has_a_limit_that_is_kept_by_kernels_too(folder: Path):
    store = Store(folder, 4000)
    for number in range(8):
        store.keep_kernel(f"kernel{number}", bytes(968))
    assert sum(each.size for each in store.entries()) <= 4000
    assert store.find_kernel("kernel7") is not None
