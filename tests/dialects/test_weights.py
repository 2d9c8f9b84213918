"""The weight store's arrays, and the memory that they take."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from weft.dialects.weights import release_pages

SIZE = 64 << 20


def mapped_bytes() -> int:
    """Memory of this process that files are mapped to."""
    (line,) = (
        each for each in Path("/proc/self/status").read_text().splitlines() if "RssFile" in each
    )
    return int(line.split()[1]) << 10


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights"
    np.arange(SIZE // 4, dtype=np.uint32).tofile(path)
    return path


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_pages_that_were_read_are_given_back(file, transposed):
    with file.open("rb") as opened:
        mapping = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(memoryview(mapping), np.uint32, offset=0).reshape(4096, -1)[7:]
    array = array.T if transposed else array
    expected = array.sum()
    before = mapped_bytes()
    release_pages(array)
    assert before - mapped_bytes() > SIZE // 2
    assert array.sum() == expected


def test_what_was_written_to_a_copy_of_a_file_stays(file):
    array = np.memmap(file, np.uint32, "c")
    array[:] = 7
    release_pages(array)
    assert (array == 7).all()


def test_other_arrays_stay():
    array = np.full(SIZE // 4, 7, np.uint32)
    release_pages(array[100:])
    release_pages(np.zeros((0, 3)))
    assert (array == 7).all()
