// RUN: weft-opt %s --verify-diagnostics -p 'weft-split-reduction{kernel=k loop=i parts=6 rest=4}' | filecheck %s

// Six partial sums are never four.
// CHECK: split_reduction requires powers of two as parts, and a smaller one as rest, got 6 and 4
loop.kernel @k(%x: !loop.buffer<[10], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 10 reduction(add) {
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[10], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}
