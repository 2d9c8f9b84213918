"""Fields of words as floats: exact in vectors and one by one, of every width."""

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import CompiledKernel, assembly
from tests.compiler.loop_to_llvm.test_emit_dot_product import BY_NAME

SIZE = 32
FIELDS = [
    (low, bits, centred)
    for bits in (1, 2, 4, 8, 11, 23, 24)
    for low in (0, 3, 32 - bits)
    for centred in (False, True)
    if low + bits <= 32
]


def kernel(fields: list[tuple[int, int, bool]], lanes: int) -> str:
    """`y[n, i]` is the n-th field of `x[i]`."""
    x, y = f"!loop.buffer<[{SIZE}], i32>", f"!loop.buffer<[{len(fields)}, {SIZE}], f32>"
    body = "".join(
        f"    %f{n} = loop.field %w {{low = #builtin.int<{low}>, "
        f"bits = #builtin.int<{bits}>, "
        f"centred = {str(centred).lower()}}} : f32\n"
        f"    loop.store %f{n}, %y[{n}, %i] : {y}\n"
        for n, (low, bits, centred) in enumerate(fields)
    )
    return f"""
loop.kernel @k(%x: {x}, %y: {y}) {{
  loop.for %i = 0 to {SIZE} vector({lanes}) {{
    %w = loop.load %x[%i] : {x}
{body}  }}
}}"""


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_fields_are_exact(lanes: int):
    x = np.random.default_rng(0).integers(0, 2**32, SIZE, np.uint32)
    x[:4] = 0, 2**32 - 1, 0x80808080, 0x7F7F7F7F
    y = np.full((len(FIELDS), SIZE), np.nan, np.float32)
    CompiledKernel(kernel(FIELDS, lanes))(x.view(np.int32), y)
    expected = [
        ((x >> low) & (2**bits - 1)).astype(np.int64) - (2 ** (bits - 1) if centred else 0)
        for low, bits, centred in FIELDS
    ]
    np.testing.assert_array_equal(y, np.array(expected, np.float32))
    assert not np.signbit(y[y == 0]).any()


def test_bytes_of_wide_vectors_are_converted_by_sums():
    fields = [(low, 8, True) for low in range(0, 32, 8)]
    assert "vcvtdq2ps" not in assembly(kernel(fields, 16), BY_NAME["x86-64-v4"])
    assert "vcvtdq2ps" in assembly(kernel(fields, 8), BY_NAME["x86-64-v3"])
