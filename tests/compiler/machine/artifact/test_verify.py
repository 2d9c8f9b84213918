"""Artifacts that are damaged, foreign or too new: refused with one line, by whom it concerns."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.support.small_models import dense_model
from tests.weft.cli.command import Command
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.loop_to_llvm.runtime import EXPORTS, LIBC_NAMES
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.verify import Finding, verify
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.system_linker import find_tool, link_with_tool

WHOLE = ["metadata", "machine", "image", "file", "segments", "imports", "exports", "weights"]


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    model = dense_model("rows")
    return compile_model(model, options_of(model, prefix="dense"))


@pytest.fixture(scope="module")
def artifact(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "libdense.so"
    compiled.export(path)
    return path


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "dense.wasm"
    model = dense_model("rows")
    compile_model(model, options_of(model, target="wasm32", prefix="dense")).export_wasm(path)
    return path


def findings_of(path: Path) -> list[Finding]:
    return verify(path, host_target(), exports=EXPORTS, libc=LIBC_NAMES)


def failure(path: Path) -> str:
    """The one line of the check that fails."""
    *passed, last = findings_of(path)
    assert all(each.ok for each in passed)
    assert not last.ok
    assert "\n" not in last.text
    return last.text


def test_a_whole_artifact_passes(artifact: Path, module: Path):
    assert [(each.check, each.ok) for each in findings_of(artifact)] == [(n, True) for n in WHOLE]
    assert [each.check for each in findings_of(module) if each.ok] == ["metadata", "module"]


@pytest.mark.skipif(shutil.which("strip") is None, reason="needs strip")
def test_a_stripped_artifact_passes_and_its_weights_are_checked(artifact: Path, tmp_path: Path):
    path = shutil.copy(artifact, tmp_path / "libdense.so")
    subprocess.run(["strip", path], check=True)
    found = findings_of(path)
    assert [(each.check, each.ok) for each in found] == [(name, True) for name in WHOLE]
    assert found[3].text == "whole; was stripped"
    assert found[7].text.startswith("intact")
    weft.load(path)


def test_an_artifact_of_another_linker_passes(compiled: Compiled, tmp_path: Path):
    path = tmp_path / "libdense.so"
    objects = list(compiled.objects.values())
    try:
        find_tool(elf.EM_X86_64 if host_target().arch == "x86_64" else elf.EM_AARCH64)
    except weft.UnsupportedError as missing:
        pytest.skip(str(missing))
    with path.open("w+b") as out:
        link_with_tool(
            objects,
            soname=path.name,
            exports=compiled.exports,
            note=compiled.note,
            weights=compiled.blobs(),
            out=out,
        )
    assert [each.check for each in findings_of(path) if each.ok] == WHOLE


def test_a_foreign_artifact_is_whole_all_the_same(tmp_path: Path):
    model = dense_model()
    other = "riscv64" if host_target().arch != "riscv64" else "aarch64"
    compile_model(model, options_of(model, target=other)).export(tmp_path / "libdense.so")
    found = findings_of(tmp_path / "libdense.so")
    assert [each.check for each in found if each.ok] == WHOLE
    assert "not for this machine" in found[1].text
    with pytest.raises(weft.ArtifactError, match="requires a .* machine"):
        weft.load(tmp_path / "libdense.so")


def test_a_longer_file_is_refused(artifact: Path, tmp_path: Path):
    path = tmp_path / "longer.so"
    path.write_bytes(artifact.read_bytes() + bytes(8))
    assert "requires a whole file" in failure(path)


def test_weights_that_were_changed_are_refused(artifact: Path, tmp_path: Path):
    sections = elf_sections(artifact.read_bytes())
    content = bytearray(artifact.read_bytes())
    content[sections[".weights"].offset + 100] ^= 1
    path = tmp_path / "libdense.so"
    path.write_bytes(content)
    assert "requires the weights that were linked" in failure(path)
    weft.load(path)  # the weights are not read there


def elf_sections(content: bytes) -> dict[str, elf.SectionHeader]:
    header = elf.FileHeader(*elf.FILE_HEADER.unpack_from(content))
    size = header.section_count * elf.SECTION_HEADER.size
    table = content[header.section_offset : header.section_offset + size]
    sections = [elf.SectionHeader(*each) for each in elf.SECTION_HEADER.iter_unpack(table)]
    names = content[sections[header.section_names].offset :]
    return {names[each.name : names.index(b"\0", each.name)].decode(): each for each in sections}


def test_an_import_beyond_libc_is_refused(artifact: Path):
    found = verify(artifact, host_target(), exports=EXPORTS, libc=LIBC_NAMES - {"aligned_alloc"})
    assert (found[-1].check, found[-1].ok) == ("imports", False)
    assert found[-1].text.endswith("libc.so.6, aligned_alloc")


def test_a_missing_function_is_refused(artifact: Path):
    found = verify(artifact, host_target(), exports=["train"], libc=LIBC_NAMES)
    assert "requires the functions dense_train" in found[-1].text


def test_the_command_shows_findings(
    artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = Command(capsys)
    shown = command.succeeds("verify", artifact)
    assert [line.split()[0] for line in shown.splitlines()] == WHOLE
    path = tmp_path / "cut.so"
    path.write_bytes(artifact.read_bytes()[:-1])
    assert "requires a whole file" in command.fails("verify", path)
    outcome = command("verify", path, "--json")
    facts = json.loads(outcome.output)
    assert (outcome.status, facts["ok"], facts["checks"][-1]["check"]) == (1, False, "file")


def test_verifying_does_not_load(artifact: Path):
    code = f"from weft.cli.main import main; main(['verify', {str(artifact)!r}])"
    code += "; print(open('/proc/self/maps').read())"
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert "libdense" not in shown.split("weights", 1)[1]
