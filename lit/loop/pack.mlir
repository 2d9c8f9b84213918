// RUN: weft-opt %s -p 'weft-pack{kernel=k buffer=b layout="[(d1 floordiv 16), d0, (d1 mod 16)] in [3, 8, 16]"}' | filecheck %s

// Subscripts stay logical; a dim that the width does not divide is padded.
// CHECK-LABEL: loop.kernel @k
// CHECK-SAME: (%b: !loop.buffer<[8, 40], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [3, 8, 16]>
// CHECK: loop.load %b[%i, %j]
loop.kernel @k(%b: !loop.buffer<[8, 40], f32>, %y: !loop.buffer<[8, 40], f32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 40 {
      %v = loop.load %b[%i, %j] : !loop.buffer<[8, 40], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[8, 40], f32>
    }
  }
}
