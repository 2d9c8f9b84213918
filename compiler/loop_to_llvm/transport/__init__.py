"""Collectives between ranks that share memory, as LLVM IR."""

from __future__ import annotations

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.platform import Platform
from weft.compiler.loop_to_llvm.transport.arrive import Arrival
from weft.compiler.loop_to_llvm.transport.collectives import Collectives
from weft.compiler.target.target import Target

EXPORTS = ("weft_start", "weft_wait", "weft_abort")
"""What the module defines: the functions of a `weft_communication`, whose user is an endpoint."""


def emit_transport(target: Target) -> str:
    """The module as text. Raises UnsupportedError for a target without futexes."""
    module = ir.Module("weft.transport")
    module.triple = target.triple
    arrival = Arrival(module, Platform(target))
    arrival.define()
    Collectives(module, arrival).define()
    return str(module)
