"""Objects whose symbols get another name behind the compiler."""

import io
import shutil
import subprocess

import pytest
from msgspec.structs import replace

from tests.compiler.machine.elf.objects import AARCH64, X86_64, emit, load
from weft.compiler.machine.elf.link import link_shared, read_objects
from weft.compiler.machine.elf.rename_symbols import rename_symbols

SOURCE = """
@"<p>.table" = external hidden constant i32
declare hidden i32 @"<p>.step"(i32)
declare i32 @"other<p>"(i32)
define internal i32 @"<p>.own"(i32 %x) noinline {
  %y = call i32 @"<p>.step"(i32 %x)
  ret i32 %y
}
define i32 @"<p>_run"(i32 %x) {
  %y = call i32 @"<p>.own"(i32 %x)
  %t = load i32, ptr @"<p>.table"
  %z = add i32 %y, %t
  ret i32 %z
}
define hidden i32 @stays(i32 %x) {
  %y = call i32 @"other<p>"(i32 %x)
  ret i32 %y
}
"""
MODEL = """
@"NAME.table" = hidden constant i32 TABLE
define hidden i32 @"NAME.step"(i32 %x) { %y = mul i32 %x, 2 ret i32 %y }
"""
OTHER = 'define hidden i32 @"other<p>"(i32 %x) { ret i32 %x }'


@pytest.mark.parametrize("triple", [X86_64, AARCH64, "riscv64-unknown-linux-gnu"])
def test_symbols_have_the_other_start_and_nothing_else_changes(triple: str):
    before = emit(SOURCE, triple)
    (old,) = read_objects([before])
    (new,) = read_objects([rename_symbols(before, "<p>", "a_longer_one")])
    names = [each.name for each in new.symbols]
    assert {"a_longer_one_run", "a_longer_one.step", "a_longer_one.table"} < set(names)
    assert {"other<p>", "stays"} < set(names)
    back = [
        replace(each, name="<p>" + each.name.removeprefix("a_longer_one"))
        if each.name.startswith("a_longer_one")
        else each
        for each in new.symbols
    ]
    assert back == list(old.symbols)
    for now, then in zip(new.sections, old.sections, strict=True):
        if then.name not in (".strtab", ".symtab"):
            assert now == then


def test_one_object_serves_two_models_of_a_program(tmp_path):
    source = emit(SOURCE)
    objects = [emit(OTHER)]
    for name, table in (("a", 1), ("bcd", 5)):
        renamed = rename_symbols(source, "<p>", name)
        objects += [rename_symbols(renamed, "stays", f"{name}.stays")]
        objects += [emit(MODEL.replace("NAME", name).replace("TABLE", str(table)))]
    out = io.BytesIO()
    link_shared(objects, soname="two.so", exports=["a_run", "bcd_run"], out=out)
    (tmp_path / "two.so").write_bytes(out.getvalue())
    library = load(tmp_path / "two.so")
    assert (library.a_run(10), library.bcd_run(10)) == (21, 25)


def test_other_tools_read_the_names(tmp_path):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    (tmp_path / "one.o").write_bytes(rename_symbols(emit(SOURCE), "<p>", "m"))
    shown = subprocess.run([nm, tmp_path / "one.o"], capture_output=True, text=True, check=True)
    lines = {line.split()[-1]: line.split()[-2] for line in shown.stdout.splitlines()}
    assert lines == {
        "m.own": "t", "m.step": "U", "m.table": "U", "m_run": "T", "other<p>": "U", "stays": "T",
    }  # fmt: skip
    assert shown.stderr == ""
