"""Programs that are alike but for names and types have one code, with the names of each."""

import pytest

from weft.compiler.driver.program_code import likeness, program_object
from weft.compiler.loop_to_llvm.program.emit import emit_program
from weft.compiler.machine.codegen.code_generator import PROGRAM_LEVEL
from weft.compiler.machine.elf.link import undefined_symbols
from weft.compiler.machine.elf.object_file import read_object
from weft.compiler.target.x86 import X86_64_V2
from weft.dialects.context import parse_module
from weft.dialects.loop.program import ProgramOp

TWO_CALLS = """
loop.program @main(%x: !loop.buffer<[SIZE], f32>, %y: !loop.buffer<[SIZE], f32>) inputs 1 {
  %t = loop.alloc workspace at 64 : !loop.buffer<[SIZE], f32>
  loop.call @FIRST(%x, %t) : !loop.buffer<[SIZE], f32>, !loop.buffer<[SIZE], f32>
  loop.call @SECOND(%t, %y) : !loop.buffer<[SIZE], f32>, !loop.buffer<[SIZE], f32>
}
"""


def program(first: str, second: str, shape: str = "4", at: int = 64) -> ProgramOp:
    text = TWO_CALLS.replace("SIZE", shape).replace("at 64", f"at {at}")
    module = parse_module(text.replace("FIRST", first).replace("SECOND", second), "<test>")
    return next(op for op in module.ops if isinstance(op, ProgramOp))


def code(given: ProgramOp, emitted: list[str]) -> bytes:
    def emit() -> str:
        emitted.append(emit_program(given, X86_64_V2, prefix="net"))
        return emitted[-1]

    return program_object(given, emit, "net", X86_64_V2, PROGRAM_LEVEL)


def text_section(data: bytes) -> bytes:
    return next(each.content for each in read_object(data, "it").sections if each.name == ".text")


def test_programs_that_are_alike_are_emitted_once():
    emitted: list[str] = []
    given = program("exp", "log"), program("add", "exp", shape="2, 2")
    one, other = (code(each, emitted) for each in given)
    assert len(emitted) == 1
    assert text_section(one) == text_section(other)
    assert {"net.exp", "net.log"} <= undefined_symbols([one])
    assert {"net.add", "net.exp"} <= undefined_symbols([other])


@pytest.mark.parametrize(
    "other", [program("exp", "exp"), program("exp", "log", at=128)], ids=["kernels", "offsets"]
)
def test_others_are_not_alike(other: ProgramOp):
    one = likeness(program("exp", "log"))
    differs = likeness(other)
    assert one is not None
    assert differs is not None
    assert one[0] != differs[0]


def test_a_program_of_named_sizes_is_like_no_other():
    text = """
    loop.program @main[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) inputs 1 {
      loop.call @exp[n](%x, %y) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
    }"""
    (named,) = parse_module(text, "<test>").ops
    assert isinstance(named, ProgramOp)
    assert likeness(named) is None
