"""Register tiles, scratch and contraction: what the inner loops of a matrix product rely on."""

import re

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, assembly, parse_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.target import TARGETS

X86_TARGETS = [target for target in TARGETS if target.name in ("x86-64-v3", "x86-64-v4")]


def product_kernel(
    rows: int, lanes: int, columns: int, panels: int = 2, marks: str = "parallel"
) -> str:
    """C = A * B with B in panels of so many columns and tiles of C in registers; 8 times 64."""
    a, c = (
        f"!loop.buffer<[{8 * rows}, 64], f32>",
        f"!loop.buffer<[{8 * rows}, {panels * columns}], f32>",
    )
    b = (
        f"!loop.buffer<[64, {panels * columns}], f32, "
        f"[(d1 floordiv {columns}), d0, (d1 mod {columns})] in [{panels}, 64, {columns}]>"
    )
    tile = f"!loop.buffer<[{rows}, {columns}], f32>"
    row = f"loop.for %ii = 0 to {rows} unroll"
    nest = f"{row} {{ loop.for %ji = 0 to {columns} unroll vector({lanes})"
    return f"""
    loop.kernel @mm(%A: {a}, %B: {b}, %C: {c}) {{
      loop.for %jo = 0 to {panels} {marks} {{ loop.for %io = 0 to 8 {{
        %acc = loop.alloc registers : {tile}
        %zero = arith.constant 0.0 : f32
        {nest} {{ loop.store %zero, %acc[%ii, %ji] : {tile} }} }}
        loop.for %k = 0 to 64 reduction(add) {{ {nest} {{
          %a = loop.load %A[{rows} * %io + %ii, %k] : {a}
          %b = loop.load %B[%k, {columns} * %jo + %ji] : {b}
          %c = loop.load %acc[%ii, %ji] : {tile}
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %c, %p : f32
          loop.store %s, %acc[%ii, %ji] : {tile}
        }} }} }}
        {nest} {{
          %c = loop.load %acc[%ii, %ji] : {tile}
          loop.store %c, %C[{rows} * %io + %ii, {columns} * %jo + %ji] : {c}
        }} }}
      }} }}
    }}"""


def inner_loop(text: str) -> list[str]:
    """The instructions of the basic block with the most fused multiply-adds."""
    blocks = re.split(r"^\.?L\w+:", text, flags=re.MULTILINE)
    busiest = max(blocks, key=lambda block: block.count("fmadd") + block.count("fmla"))
    lines = [line.strip() for line in busiest.splitlines()]
    jump = next(
        number for number, line in enumerate(lines) if re.match(r"(j[a-z]+|b\.\w+)\s", line)
    )
    return [line for line in lines[: jump + 1] if line and not line.startswith(".")]


@pytest.mark.parametrize("target", X86_TARGETS, ids=lambda target: target.name)
def test_accumulators_stay_in_registers(target):
    columns = 2 * target.lanes(4)
    loop = inner_loop(assembly(product_kernel(6, target.lanes(4), columns), target))
    fused = [line for line in loop if line.startswith("vfmadd")]
    assert len(fused) == 12
    assert not [line for line in loop if "rsp" in line or "rbp" in line]
    loads = [line for line in loop if line.startswith("vmovups")]
    memory_operands = [line for line in fused if "(" in line]
    assert len(loads) + len(memory_operands) <= 2 + 6, "each vector of B is loaded once a term"
    assert not [line for line in loop if line.startswith("vmovups") and line.endswith(")")]


def test_accumulators_stay_in_registers_on_arm():
    (target,) = [target for target in TARGETS if target.name == "neoverse-v1"]
    loop = inner_loop(assembly(product_kernel(6, 4, 16), target))
    assert sum(line.startswith("fmla") for line in loop) == 24
    assert not [line for line in loop if "[sp" in line]


@pytest.mark.parametrize("columns", [32, 30, 17, 16, 5])
@pytest.mark.parametrize("rows", [6, 1])
def test_products_with_any_tile(rows: int, columns: int):
    random = np.random.default_rng(columns)
    a, b = random.random((8 * rows, 64), np.float32), random.random((64, 2 * columns), np.float32)
    packed = np.ascontiguousarray(b.reshape(64, 2, columns).transpose(1, 0, 2))
    c = np.zeros((8 * rows, 2 * columns), np.float32)
    CompiledKernel(product_kernel(rows, 16, columns))(a, packed, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("columns", [30, 17])
def test_masked_accumulators_stay_in_registers(columns: int):
    (target,) = [target for target in TARGETS if target.name == "x86-64-v4"]
    loop = inner_loop(assembly(product_kernel(6, 16, columns), target))
    assert sum(line.startswith("vfmadd") for line in loop) == 12
    assert not [line for line in loop if "rsp" in line or "rbp" in line]


def test_masked_stores_to_private_memory_keep_the_elements_behind():
    buffer, tile = "!loop.buffer<[2, 16], f32>", "!loop.buffer<[2, 16], f32>"
    for scope in ("registers", "scratch"):
        text = f"""
        loop.kernel @keep(%y: {buffer}) {{
          %t = loop.alloc {scope} : {tile}
          %one = arith.constant 1.0 : f32
          %two = arith.constant 2.0 : f32
          loop.for %r = 0 to 2 unroll {{
            loop.for %i = 0 to 16 unroll vector(8) {{ loop.store %one, %t[%r, %i] : {tile} }}
            loop.for %i = 0 to 5 unroll vector(8) {{ loop.store %two, %t[%r, %i] : {tile} }}
            loop.for %i = 0 to 16 unroll vector(8) {{
              %v = loop.load %t[%r, %i] : {tile}
              loop.store %v, %y[%r, %i] : {buffer}
            }}
          }}
        }}"""
        y = np.zeros((2, 16), np.float32)
        CompiledKernel(text)(y)
        assert (y[:, :5] == 2).all()
        assert (y[:, 5:] == 1).all()


MULTIPLY_ADD = """
loop.kernel @axpy(%a: !loop.buffer<[9], f64>, %b: !loop.buffer<[9], f64>,
                  %c: !loop.buffer<[9], f64>, %y: !loop.buffer<[4, 9], f64>) {
  loop.for %i = 0 to 9 vector(4) {
    %av = loop.load %a[%i] : !loop.buffer<[9], f64>
    %bv = loop.load %b[%i] : !loop.buffer<[9], f64>
    %cv = loop.load %c[%i] : !loop.buffer<[9], f64>
    %p = arith.mulf %av, %bv : f64
    %s = arith.addf %p, %cv : f64
    loop.store %s, %y[0, %i] : !loop.buffer<[4, 9], f64>
    %q = arith.mulf %av, %bv : f64
    %t = arith.subf %q, %cv : f64
    loop.store %t, %y[1, %i] : !loop.buffer<[4, 9], f64>
    %r = arith.mulf %av, %bv : f64
    %u = arith.subf %cv, %r : f64
    loop.store %u, %y[2, %i] : !loop.buffer<[4, 9], f64>
    %m = arith.mulf %av, %bv : f64
    %n = arith.mulf %cv, %cv : f64
    %v = arith.addf %m, %n : f64
    loop.store %v, %y[3, %i] : !loop.buffer<[4, 9], f64>
  }
}"""


def test_products_and_sums_contract():
    for target in X86_TARGETS:
        llvm = emit_kernel(parse_kernel(MULTIPLY_ADD), target)
        # Once in the loop over whole vectors, once for the remainder.
        assert llvm.count('call <4 x double> @"llvm.fma') == 2 * 4
        assert llvm.count("fmul") == 2


def test_products_and_sums_stay_apart_without_fused_instructions():
    (target,) = [target for target in TARGETS if target.name == "x86-64"]
    assert "llvm.fma" not in emit_kernel(parse_kernel(MULTIPLY_ADD), target)


def test_strict_products_and_sums_do_not_contract():
    assert "llvm.fma" not in CompiledKernel(MULTIPLY_ADD, strict_fp=True).llvm


def test_contracted_and_strict_values():
    random = np.random.default_rng(0)
    a, b, c = (random.random(9) for _ in range(3))
    for strict in (True, False):
        y = np.zeros((4, 9))
        CompiledKernel(MULTIPLY_ADD, strict_fp=strict)(a, b, c, y)
        expected = np.stack([a * b + c, a * b - c, c - a * b, a * b + c * c])
        np.testing.assert_allclose(y, expected, rtol=0, atol=0 if strict else 1e-15)


def test_the_host_has_vectors():
    assert HOST.vector_bytes >= 16
    assert HOST.cores >= 1
