"""What a module says of its compilation reads back as it was written."""

import pytest
from msgspec.structs import replace
from xdsl.dialects.builtin import ModuleOp

from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target import TARGETS
from weft.compiler.target.module_target import GENERIC, set_target, target_of
from weft.compiler.target.target import Target
from weft.dialects.context import parse_module
from weft.dialects.module_attributes import CodeOptions, code_options, set_code_options


@pytest.mark.parametrize(
    "target",
    [*TARGETS, host_target(), host_target(threads=7), replace(TARGETS[0], l2_bytes=1 << 20)],
    ids=lambda target: f"{target.name}-{target.cores}",
)
def test_a_target_reads_back(target: Target):
    module = ModuleOp([])
    set_target(module, target)
    assert target_of(parse_module(str(module), "text")) == target


@pytest.mark.parametrize(
    "options",
    [
        CodeOptions(),
        CodeOptions("net.v3", strict_fp=True, max_iterations=1 << 62, guarded="before"),
        CodeOptions(schedules={"mm_1f": ('tile{loop="i" size=6}', "fuse"), "n.a-m$e": ()}),
    ],
    ids=["defaults", "values", "schedules"],
)
def test_options_read_back(options: CodeOptions):
    module = ModuleOp([])
    set_code_options(module, options)
    assert code_options(parse_module(str(module), "text")) == options


def test_a_module_without_attributes_is_for_the_generic_target():
    module = ModuleOp([])
    assert (target_of(module), code_options(module)) == (GENERIC, CodeOptions())
