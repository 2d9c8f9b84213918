"""Products of bytes by the plan with packed rows and K in parts: exact."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr

from tests.compiler.loop_to_llvm.compiled_kernel import CompiledKernel, parse_kernel
from tests.compiler.loop_to_llvm.test_emit_dot_product import BY_NAME, extremes
from weft.compiler.loop.schedules.planned import explain, schedule_by
from weft.dialects.loop.program import WEIGHTS, KernelOp

COLUMNS = 64
TARGET = BY_NAME["sapphirerapids"]


def product(depth: int, rows: int) -> KernelOp:
    x, w, y = (
        f"!loop.buffer<[{rows}, {depth}], ui8>",
        f"!loop.buffer<[{depth}, {COLUMNS}], i8>",
        f"!loop.buffer<[{rows}, {COLUMNS}], i32>",
    )
    kernel = parse_kernel(f"""
loop.kernel @k(%x: {x}, %w: {w}, %y: {y}) {{
  loop.for %i = 0 to {rows} {{
    loop.for %j = 0 to {COLUMNS} {{
      %z = arith.constant 0 : i32
      loop.store %z, %y[%i, %j] : {y}
    }}
  }}
  loop.for %i = 0 to {rows} {{
    loop.for %j = 0 to {COLUMNS} {{
      loop.for %k = 0 to {depth} reduction(add) {{
        %a = loop.load %x[%i, %k] : {x}
        %b = loop.load %w[%k, %j] : {w}
        %s = loop.load %y[%i, %j] : {y}
        %c = arith.extui %a : i8 to i32
        %d = arith.extsi %b : i8 to i32
        %p = arith.muli %c, %d : i32
        %u = arith.addi %s, %p : i32
        loop.store %u, %y[%i, %j] : {y}
      }}
    }}
  }}
}}""")
    kernel.attributes[WEIGHTS] = ArrayAttr([IntAttr(1)])
    return kernel


@pytest.mark.parametrize(
    ("rows", "depth", "parts"), [(512, 512, 1), (512, 2048, 2), (520, 3136, 3)]
)
def test_sums_of_parts_are_exact(rows: int, depth: int, parts: int):
    kernel = product(depth, rows)
    (found,) = explain(kernel, TARGET)
    (plan,) = [each.plan for each in found.rated if each.plan.matrix and each.plan.row_block]
    assert plan.row_block in (52, 64)
    assert -(-depth // 4 // (plan.k_block or depth)) == parts
    schedule_by(kernel, TARGET, plan)
    products = str(kernel).count("matrix reduction(add)")
    assert products == (parts + 1 if parts > 1 else 1), "the last of several is pipelined"
    x, w = extremes((rows, depth), np.uint8), extremes((depth, COLUMNS), np.int8)
    panels = w.reshape(depth // 4, 4, COLUMNS // 32, 32).transpose(2, 0, 3, 1)
    y = np.empty((rows, COLUMNS), np.int32)
    CompiledKernel(kernel)(x, np.ascontiguousarray(panels), y)
    np.testing.assert_array_equal(y, (x.astype(np.float64) @ w).astype(np.int32))


@pytest.mark.parametrize("rows", [256, 521])
def test_too_few_rows_for_threads_or_a_rest_of_them_are_not_packed(rows: int):
    (found,) = explain(product(2048, rows), TARGET)
    assert not any(each.plan.row_block for each in found.rated if each.plan.matrix)
