"""Digests of machine code do not depend on names, and whatever else differs is listed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.models import find_cases
from benchmarks.same_code import Code, code_of, differences, main, record_case
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.object_file import read_object

ROOT = Path(__file__).parents[2]


def _code(kernel: str, called: str, constant: float = 3.0) -> Code:
    """The code of a kernel that calls a function of that name, and multiplies by a constant."""
    text = f"""
    declare void @{called}(ptr)
    define double @{kernel}(ptr %data, double %value) {{
      call void @{called}(ptr %data)
      %result = fmul double %value, {constant}
      ret double %result
    }}"""
    return code_of(read_object(compile_object(text, host_target()), kernel))


def _row(code: str = "a", **kernels: str) -> dict[str, Any]:
    objects = {name: Code(code, "", 64, ["parallel_for"]) for name, code in kernels.items()}
    objects["program"] = Code(code, "", 32, list(kernels))
    return {"case": "m", "objects": {name: vars(each) for name, each in objects.items()}}


def _what(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["object"], each["what"]) for each in differences(old, new)]


def test_names_of_the_model_do_not_count_and_those_of_libc_do():
    code = _code("model.kernel", "model.run")
    assert code.symbols == ["run"]
    renamed = _code("model.other", "model.start")
    assert (renamed.code, renamed.constants) == (code.code, code.constants)
    assert _code("model.kernel", "free").code != _code("model.kernel", "exit").code != code.code


def test_constants_count_beside_the_code():
    code, other = (_code("model.kernel", "model.run", value) for value in (3.0, 5.0))
    assert code.code == other.code
    assert code.constants != other.constants


def test_renamed_kernels_are_compared_where_the_program_calls_them():
    old = _row(conv_1="b", conv_2="c")
    assert not _what(old, _row(conv_3="b", conv_4="c"))
    assert _what(old, _row(conv_3="b", conv_4="d")) == [
        ("conv_4", "other code, 64 -> 64 bytes of code")
    ]
    swapped = [name for name, _ in _what(old, _row(conv_2="c", conv_1="b"))]
    assert sorted(swapped) == ["conv_1", "conv_2"]


def test_kernels_of_other_programs_are_found_by_name_or_code():
    other = _row("z", conv_1="b", moved="c", added="d")
    assert _what(_row(conv_1="b", conv_2="c", gone="e"), other) == [
        ("program", "other code, 32 -> 32 bytes of code"),
        ("gone", "only in the old recording"),
        ("added", "only in the new recording"),
    ]


def test_a_recording_goes_on_and_tells_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["same_code", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code

    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    assert run("record", old, "--only", "add_8,add_1M", "--first", 1) == 0
    row = json.loads(old.read_text())
    (kernel,) = row["objects"].keys() - {"runtime", "levels", "program"}
    row["objects"][kernel]["code"] = "another"
    new.write_text(json.dumps(row))
    assert run("compare", old, old) == 0
    assert capsys.readouterr().out == "1 models of 4 objects: the same\n"
    assert run("compare", old, new) == 1
    assert "1 differences in 1 models" in capsys.readouterr().out
    assert run("compare", old, new, "--json", "--ignore", kernel) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


def test_a_folder_without_a_compiler_is_an_error_of_the_row(tmp_path: Path):
    (case,) = find_cases(["add_8"])
    assert "weft" in record_case(case, tmp_path, "native")["error"]
