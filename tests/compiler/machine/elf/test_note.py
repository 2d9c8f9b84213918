import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.machine.elf.objects import AARCH64, ADD, X86_64, emit, link_file
from weft.compiler.machine.elf.note import check_image, read_machine, read_note
from weft.dialects.errors import ArtifactError

NOTE = b'{"abi": 1, "inputs": ["x"]}'


@pytest.fixture
def artifact(tmp_path):
    return link_file(tmp_path / "lib.so", ADD, exports=["add"], note=NOTE, isa_level=2)


@pytest.mark.parametrize(("triple", "name"), [(X86_64, "x86_64"), (AARCH64, "aarch64")])
def test_note_and_machine_are_read_without_loading(tmp_path, triple, name):
    path = link_file(tmp_path / "lib.so", ADD, triple=triple, exports=["add"], note=NOTE)
    assert (read_note(path), read_machine(str(path))) == (NOTE, name)
    check_image(path)


@given(st.binary(max_size=2000))
def test_any_bytes_come_back(tmp_path_factory, note):
    path = tmp_path_factory.mktemp("note") / "lib.so"
    assert read_note(link_file(path, ADD, exports=["add"], note=note)) == note


def test_shared_object_without_note_is_foreign(tmp_path):
    path = link_file(tmp_path / "lib.so", ADD, exports=["add"])
    with pytest.raises(ArtifactError, match=r"lib\.so: loader requires an artifact of weft"):
        read_note(path)


def test_foreign_files_are_refused(tmp_path):
    contents = [b"", b"\x7fELF", b"PK\3\4" + bytes(100), emit(ADD), b"text " * 100]
    for number, content in enumerate(contents):
        path = tmp_path / f"file{number}"
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=f"file{number}: loader requires"):
            read_note(path)


def test_missing_file_and_folder_are_refused(tmp_path):
    with pytest.raises(ArtifactError, match="a readable file, got No such file or directory"):
        read_note(tmp_path / "nowhere.so")
    with pytest.raises(ArtifactError, match="a readable file, got Is a directory"):
        read_note(tmp_path)


def test_every_truncation_of_the_loaded_part_is_refused(artifact):
    whole = artifact.read_bytes()
    random = np.random.default_rng(1)
    end = whole.index(b".shstrtab") - 300
    for size in (0, 1, 63, 64, *random.integers(0, end, 200)):
        artifact.write_bytes(whole[:size])
        with pytest.raises(ArtifactError, match="loader requires") as caught:
            read_note(artifact)
        assert "\n" not in str(caught.value)


def test_bit_flips_never_give_another_note(artifact):
    whole = artifact.read_bytes()
    random = np.random.default_rng(2)
    refused = 0
    for position in [*range(64 + 56 * 12), *random.integers(0, len(whole), 300)]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << random.integers(8)
        artifact.write_bytes(damaged)
        try:
            assert read_note(artifact) == NOTE
        except ArtifactError:
            refused += 1
    assert refused > 50


def test_damaged_note_is_refused(artifact):
    damaged = artifact.read_bytes().replace(b'"abi": 1', b'"abi": 2')
    artifact.write_bytes(damaged)
    with pytest.raises(ArtifactError, match=r"an intact \.note\.weft, got a damaged one"):
        read_note(artifact)


def test_image_check_notices_a_flipped_instruction(artifact):
    code = emit(ADD)
    at = artifact.read_bytes().index(code[code.index(b"\x8d") : code.index(b"\x8d") + 4])
    damaged = bytearray(artifact.read_bytes())
    damaged[at] ^= 1
    artifact.write_bytes(damaged)
    assert read_note(artifact) == NOTE
    with pytest.raises(ArtifactError, match="the code and data that were linked"):
        check_image(artifact)
