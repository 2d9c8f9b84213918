"""Files that are written anew only where they would change."""

import io
import os
from itertools import accumulate
from pathlib import Path

import pytest

from weft.compiler.machine.artifact.replace_file import LARGE_PAGE, replacing, rewriting
from weft.dialects.errors import ArtifactError

PIECES = (bytes(1 << 20), b"", b"middle", bytes(range(256)) * 5000)
WHOLE = b"".join(PIECES)


def write(path: Path) -> int:
    """Writes all pieces; returns which file is there now."""
    with rewriting(path, 0o755) as out:
        for piece in PIECES:
            out.write(piece)
        assert out.tell() == len(WHOLE)
    return path.stat().st_ino


@pytest.mark.parametrize(
    "before",
    [
        None, b"", b"other", WHOLE[:-1], WHOLE + b"1", WHOLE[:100], b"1" + WHOLE[1:],
        WHOLE[: 1 << 20] + b"else" + WHOLE[(1 << 20) + 4 :],
    ],
    ids=["none", "empty", "other", "shorter", "longer", "start", "first byte", "middle"],
)  # fmt: skip
def test_what_differs_is_replaced(tmp_path: Path, before: bytes | None):
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    write(path)
    assert path.read_bytes() == WHOLE
    assert path.stat().st_mode & 0o777 == 0o755
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_is_the_same_stays_and_is_as_new(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    os.utime(path, (0, 0))
    number = path.stat().st_ino
    assert write(path) == number
    assert path.stat().st_mtime > 0
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_link_is_replaced_not_what_it_leads_to(tmp_path: Path):
    target, path = tmp_path / "target", tmp_path / "file"
    target.write_bytes(WHOLE)
    path.symlink_to(target)
    write(path)
    assert not path.is_symlink()
    assert path.read_bytes() == WHOLE


def fail_behind(path: Path, written: bytes) -> None:
    with rewriting(path) as out:
        out.write(written)
        raise ZeroDivisionError


def cut_off_while_writing(path: Path) -> None:
    with rewriting(path) as out:
        out.write(WHOLE[:1000])
        os.truncate(path, 10)
        out.write(b"other")


@pytest.mark.parametrize("written", [WHOLE[:50], b"other"], ids=["the same", "other"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, written: bytes):
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    with pytest.raises(ZeroDivisionError):
        fail_behind(path, written)
    assert path.read_bytes() == WHOLE
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_file_that_somebody_cuts_off_meanwhile_is_refused(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    with pytest.raises(ArtifactError, match="requires that nobody else writes the file"):
        cut_off_while_writing(path)


def test_large_pages_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written: list[int] = []

    class Recording(io.FileIO):
        def write(self, data, /):
            written.append(len(data))
            return super().write(data)

    monkeypatch.setattr(io, "FileIO", Recording)
    sizes = (100, 3 * LARGE_PAGE, 5, LARGE_PAGE - 200, LARGE_PAGE + 1)
    pieces = [bytes([n]) * size for n, size in enumerate(sizes)]
    with replacing(tmp_path / "file") as out:
        for piece in pieces:
            assert out.write(piece) == len(piece)
        out.seek(10, os.SEEK_CUR)  # a hole
        out.write(b"end")
    assert (tmp_path / "file").read_bytes() == b"".join(pieces) + bytes(10) + b"end"
    ends = [*accumulate(written)][:3]
    assert ends == [LARGE_PAGE * n for n in (1, 3, 4)]  # several at once without a copy


def test_what_is_no_file_is_not_replaced(tmp_path: Path):
    """As root, `weft compile net.onnx -o /dev/null` would leave a file in the device's place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        refused = pytest.raises(ArtifactError, match="requires a regular file or a free name")
        with refused, replacing(path):
            raise AssertionError("nothing is written")
    assert os.listdir(tmp_path) == ["pipe"]
    assert pipe.is_fifo()
