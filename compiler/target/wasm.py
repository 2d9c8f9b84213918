"""WebAssembly, 32 bits wide, with the vectors of simd128; one thread, and no system beneath it."""

from __future__ import annotations

from weft.compiler.target.cost import CostModel
from weft.compiler.target.target import Target

WASM32 = Target(
    name="wasm32",
    triple="wasm32-unknown-unknown",
    cpu="generic",
    features=("+simd128", "+bulk-memory", "+sign-ext", "+nontrapping-fptoint", "+mutable-globals"),
    vector_bytes=16,
    vector_registers=16,
    has_fma=False,
    cost=CostModel(fma_ports=1, load_ports=1.0),
)
"""Engines map its vectors to 16 registers of x86-64, the smaller of what they run on."""
