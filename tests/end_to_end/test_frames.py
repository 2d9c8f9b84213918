"""How deep a compilation is: a traceback has few functions, each named for what it does."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import weft
from tests.support.small_models import dense_model
from weft.compiler.driver import compile_kernels

MOST = 9


def names_above(frame: FrameType | None) -> Iterator[str]:
    """Our functions from a frame on, the innermost first."""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(Path(weft.__file__).parent):
            yield f"{file.stem}.{frame.f_code.co_name}"
        frame = frame.f_back


@pytest.mark.parametrize("naive", [False, True])
def test_few_functions_stand_between_compile_and_machine_code(
    naive: bool, monkeypatch: pytest.MonkeyPatch
):
    stacks: list[list[str]] = []
    compile_object = compile_kernels.compile_object

    def noting(*arguments: Any) -> bytes:
        stacks.append(list(names_above(sys._getframe(1))))
        return compile_object(*arguments)

    monkeypatch.setattr(compile_kernels, "compile_object", noting)
    for starts_workers in ("can_fork", "can_start"):
        monkeypatch.setattr(compile_kernels, starts_workers, lambda: False)
    weft.compile(dense_model(), cache=False, naive=naive)
    assert stacks
    for stack in stacks:
        assert stack[-1] == "api.compile"
        assert len(stack) <= MOST, stack
