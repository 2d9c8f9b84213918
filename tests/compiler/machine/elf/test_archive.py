import io
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.compiler.machine.elf.objects import ADD, emit
from weft.compiler.machine.elf.archive import write_archive
from weft.dialects.errors import ArtifactError

TWICE = """
declare i32 @add(i32, i32)
define i32 @twice(i32 %x) {
  %y = call i32 @add(i32 %x, i32 %x)
  ret i32 %y
}
"""
LONG_NAME = "a_member_with_a_rather_long_name.o"


def archive(given: Sequence[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    write_archive(given, out)
    return out.getvalue()


def members() -> list[tuple[str, bytes]]:
    return [("twice.o", emit(TWICE)), (LONG_NAME, emit(ADD))]


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None or not sys.platform.startswith("linux"):
        pytest.skip(f"{name} is not installed")
    return found


def test_c_program_links_against_the_archive(tmp_path):
    cc = tool("cc")
    (tmp_path / "libtest.a").write_bytes(archive(members()))
    program = """
    #include <stdio.h>
    int twice(int);
    int main(void) { printf("%d\\n", twice(21)); return 0; }
    """
    (tmp_path / "main.c").write_text(program)
    arguments = [cc, "main.c", "-L.", "-ltest", "-o", "main"]
    subprocess.run(arguments, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_ar_lists_and_extracts_the_members(tmp_path):
    ar = tool("ar")
    (tmp_path / "libtest.a").write_bytes(archive(members()))
    listed = subprocess.run([ar, "t", "libtest.a"], cwd=tmp_path, capture_output=True, check=True)
    assert listed.stdout.decode().split() == ["twice.o", LONG_NAME]
    subprocess.run([ar, "x", "libtest.a"], cwd=tmp_path, check=True)
    assert (tmp_path / LONG_NAME).read_bytes() == emit(ADD)


def test_symbol_index_names_the_defining_members(tmp_path):
    nm = tool("nm")
    (tmp_path / "libtest.a").write_bytes(archive(members()))
    arguments = [nm, "--print-armap", "libtest.a"]
    text = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"twice in twice.o\nadd in {LONG_NAME}\n" in text.stdout


def test_member_of_odd_size_is_padded():
    odd = emit(ADD) + bytes(1 - len(emit(ADD)) % 2)
    assert len(odd) % 2 == 1
    library = archive([("first.o", odd), ("second.o", emit(TWICE))])
    assert len(library) % 2 == 0
    at = library.index(b"second.o/")
    assert at % 2 == 0
    assert library[at - 1 : at] == b"\n"


def test_same_members_give_identical_bytes():
    assert archive(members()) == archive(members())


def test_empty_archive_is_a_whole_one(tmp_path):
    ar = tool("ar")
    (tmp_path / "libempty.a").write_bytes(archive([]))
    done = subprocess.run([ar, "t", tmp_path / "libempty.a"], capture_output=True, check=True)
    assert done.stdout == b""


@pytest.mark.parametrize("name", ["", "folder/a.o", "a\nb.o"])
def test_names_that_an_archive_cannot_hold_are_refused(name):
    with pytest.raises(ArtifactError, match="archive requires plain file names"):
        archive([(name, emit(ADD))])


def test_foreign_member_is_refused():
    with pytest.raises(ArtifactError, match=r"notes\.txt: linker requires a 64-bit"):
        archive([("notes.txt", b"not an object")])
