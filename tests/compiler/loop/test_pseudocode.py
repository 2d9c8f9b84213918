"""The text of a kernel for people."""

from weft.compiler.driver.compile_kernels import parse_kernel
from weft.compiler.loop.pseudocode import pseudocode

KERNEL = """
loop.kernel @k[n](%a: !loop.buffer<[n, 4], f32>, %w: !loop.buffer<[4], f32>,
    %y: !loop.buffer<[n], f32>) attributes {weights = [#builtin.int<1>]} {
  %sums = loop.alloc workspace : !loop.buffer<[n], f32>
  loop.for %i = 0 to n parallel {
    loop.for %k = 0 to 4 reduction(add) {
      %0 = loop.load %sums[%i] : !loop.buffer<[n], f32>
      %1 = loop.load %a[%i, %k] : !loop.buffer<[n, 4], f32>
      %2 = loop.load %w[%k] : !loop.buffer<[4], f32>
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %0, %3 : f32
      loop.store %4, %sums[%i] : !loop.buffer<[n], f32>
    }
  }
  loop.for %i = 0 to n step 2 {
    %5 = loop.load %sums[%i] : !loop.buffer<[n], f32>
    %6 = arith.constant 0.0 : f32
    %7 = arith.cmpf ogt, %5, %6 : f32
    loop.if %7 {
      loop.store %5, %y[%i] : !loop.buffer<[n], f32>
    } else {
      %8 = math.exp %5 : f32
      loop.store %8, %y[%i + 1] : !loop.buffer<[n], f32>
    }
  }
}
"""

TEXT = """\
a: f32[n, 4]
w: f32[4] weight
y: f32[n]
sums: f32[n] workspace
for i in 0..n parallel:
  for k in 0..4 reduction(add):
    sums[i] = sums[i] + (a[i, k] * w[k])
for i in 0..n step 2:
  v = sums[i]
  if v > 0:
    y[i] = v
  else:
    y[i + 1] = exp(v)"""


def test_a_kernel_reads_as_a_person_would_write_it():
    assert pseudocode(parse_kernel(KERNEL)) == TEXT


def test_a_load_in_front_of_a_store_keeps_its_order():
    text = """
    loop.kernel @swap(%x: !loop.buffer<[2], f32>) {
      %a = loop.load %x[0] : !loop.buffer<[2], f32>
      %b = loop.load %x[1] : !loop.buffer<[2], f32>
      loop.store %b, %x[0] : !loop.buffer<[2], f32>
      loop.store %a, %x[1] : !loop.buffer<[2], f32>
    }
    """
    lines = pseudocode(parse_kernel(text)).splitlines()
    assert lines == ["x: f32[2]", "a = x[0]", "x[0] = x[1]", "x[1] = a"]
