"""LLVM's parser, optimiser and code generator for one target."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from llvmlite import binding

from weft.compiler.target.target import Target
from weft.dialects.errors import OptionError


class Level(NamedTuple):
    """How much LLVM does for code: the level of its generator, and whether IR is cleaned up before.
    Results are the same at any: IR says where a product and a sum become one operation.
    """

    generator: int
    cleans: bool


CODEGEN_LEVEL: Final = Level(2, cleans=True)

PROGRAM_LEVEL: Final = Level(0, cleans=True)
"""Takes a quarter of the time: for code that runs once a call and only calls kernels."""

BRIEF_LEVEL: Final = Level(0, cleans=False)
"""For code that computes for less time than its call takes."""

_DEFINITION = re.compile(r"^(define .*?)( prologue .*| \{.*)?$", re.MULTILINE)
_NO_TABLES = r'\1 "no-jump-tables"="true"\2'
"""Of every function. How long a switch has to be for a table is a global of LLVM's, which some
targets set to a number of their own as soon as they are used: what was compiled before in a process
would decide what comes out.
"""


@cache
def _initialise() -> None:
    """Makes every target that LLVM was built with available."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@cache
def target_machine(target: Target, level: Level = CODEGEN_LEVEL) -> binding.TargetMachine:
    """LLVM's code generator for the target: small code model, position-independent where several
    objects can share an address space.
    """
    return create_target_machine(target, level)


def create_target_machine(target: Target, level: Level = CODEGEN_LEVEL) -> binding.TargetMachine:
    """A code generator of the caller's own, to hand over to an execution engine."""
    _initialise()
    try:
        found = binding.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise OptionError(
            f"a target requires a triple that LLVM knows, got {target.triple}"
        ) from error
    abi = "lp64d" if target.arch == "riscv64" else ""
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.feature_string,
        opt=level.generator,
        reloc="static" if target.arch == "wasm32" else "pic",
        codemodel="small",
        abiname=abi,
    )


def parse(ir_text: str, target: Target) -> binding.ModuleRef:
    """The verified module, with the target's triple and data layout."""
    machine = target_machine(target)
    module = binding.parse_assembly(_DEFINITION.sub(_NO_TABLES, ir_text))
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return module
