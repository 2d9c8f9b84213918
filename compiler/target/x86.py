"""The x86-64 micro-architecture levels of the psABI, on Linux."""

from __future__ import annotations

from weft.compiler.target.target import Target

TRIPLE = "x86_64-unknown-linux-gnu"

WHOLE_VECTORS = "-prefer-256-bit"
"""LLVM splits 512-bit vectors of some CPUs unless it is told not to."""

_V2 = ("+cx16", "+popcnt", "+sahf", "+sse3", "+sse4.1", "+sse4.2", "+ssse3")
_V3 = ("+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe", "+xsave")
_V4 = ("+avx512bw", "+avx512cd", "+avx512dq", "+avx512f", "+avx512vl")

X86_64 = Target(
    name="x86-64",
    triple=TRIPLE,
    cpu="x86-64",
    features=(),
    vector_bytes=16,
    vector_registers=16,
    has_fma=False,
)

X86_64_V2 = Target(
    name="x86-64-v2",
    triple=TRIPLE,
    cpu="x86-64-v2",
    features=_V2,
    vector_bytes=16,
    vector_registers=16,
    has_fma=False,
)

X86_64_V3 = Target(
    name="x86-64-v3",
    triple=TRIPLE,
    cpu="x86-64-v3",
    features=(*_V2, *_V3),
    vector_bytes=32,
    vector_registers=16,
    has_fma=True,
    factor_registers=1,
)

X86_64_V4 = Target(
    name="x86-64-v4",
    triple=TRIPLE,
    cpu="x86-64-v4",
    features=(*_V2, *_V3, *_V4, WHOLE_VECTORS),
    vector_bytes=64,
    vector_registers=32,
    has_fma=True,
    factor_registers=1,
)

X86_TARGETS = (X86_64, X86_64_V2, X86_64_V3, X86_64_V4)

FEATURE_LEVELS = (_V2, _V3, _V4)
"""What each level adds to the one before."""
