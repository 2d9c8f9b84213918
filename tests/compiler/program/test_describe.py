"""What artifacts say of their kernels: floating-point operations by kind of loop."""

import pytest
from xdsl.parser import Parser

from weft.compiler.program.describe import kernel_flops
from weft.dialects.context import WeftContext
from weft.dialects.loop.program import KernelOp

SUM_OF_SQUARES = """
loop.kernel @squares[n](%x: !loop.buffer<[n, 4], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    loop.for %k = 0 to 4 reduction(add) {
      %element = loop.load %x[%i, %k] : !loop.buffer<[n, 4], f32>
      %square = arith.mulf %element, %element : f32
      %before = loop.load %y[%i] : !loop.buffer<[n], f32>
      %after = arith.addf %before, %square : f32
      loop.store %after, %y[%i] : !loop.buffer<[n], f32>
    }
  }
}
"""
TRIANGLE = """
loop.kernel @triangle(%x: !loop.buffer<[6], f32>) {
  loop.for %i = 0 to 6 {
    loop.for %k = 0 to %i {
      %element = loop.load %x[%k] : !loop.buffer<[6], f32>
      %root = math.sqrt %element : f32
      loop.store %root, %x[%k] : !loop.buffer<[6], f32>
    }
  }
}
"""
INTEGERS = """
loop.kernel @integers(%x: !loop.buffer<[6], i64>) {
  loop.for %i = 0 to 6 step 2 {
    %element = loop.load %x[%i] : !loop.buffer<[6], i64>
    %sum = arith.addi %element, %element : i64
    %float = arith.sitofp %sum : i64 to f32
    %negated = arith.negf %float : f32
    %back = arith.fptosi %negated : f32 to i64
    loop.store %back, %x[%i] : !loop.buffer<[6], i64>
  }
}
"""
ACTIVATION = """
loop.kernel @activation(%x: !loop.buffer<[6], f32>) {
  loop.for %i = 0 to 6 {
    %element = loop.load %x[%i] : !loop.buffer<[6], f32>
    %result = loop.gelu %element : f32
    loop.store %result, %x[%i] : !loop.buffer<[6], f32>
  }
}
"""


@pytest.mark.parametrize(
    ("text", "flops"),
    [(SUM_OF_SQUARES, "8 * n"), (TRIANGLE, "18"), (INTEGERS, "3"), (ACTIVATION, "30")],
    ids=["reduction", "half of a square", "integers do not count", "GELU is five"],
)
def test_counts_floating_point_operations(text: str, flops: str):
    (kernel,) = Parser(WeftContext(), text, "<test>").parse_module().ops
    assert isinstance(kernel, KernelOp)
    assert str(kernel_flops(kernel)) == flops
