"""Passes that only `weft-opt` has: what a compilation notes on a module, put there by hand."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from weft.compiler.target.module_target import named_target, set_target
from weft.dialects.module_attributes import code_options, set_code_options


@dataclass(frozen=True)
class SetTargetPass(ModulePass):
    """Notes on a module that it is compiled for the CPU of this name."""

    name = "weft-set-target"
    cpu: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        set_target(op, named_target(self.cpu))


@dataclass(frozen=True)
class SetOptionsPass(ModulePass):
    """Notes options on a module: those that are given, beside what it has."""

    name = "weft-set-options"
    strict_fp: bool | None = None
    naive: bool | None = None
    max_iterations: int | None = None
    max_weights_bytes: str | None = None
    guarded: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        given = {key: value for key, value in vars(self).items() if value is not None}
        set_code_options(op, replace(code_options(op), **given))
