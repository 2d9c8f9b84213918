// RUN: weft-opt %s -p 'weft-pack{kernel=k buffer=t layout=""}' | filecheck %s

// Without a layout a local buffer lies row by row again.
// CHECK-LABEL: loop.kernel @k
// CHECK: %t = loop.alloc scratch : !loop.buffer<[8, 16], f32>
// CHECK: loop.store %{{.*}}, %t[%i, %j] : !loop.buffer<[8, 16], f32>
loop.kernel @k(%x: !loop.buffer<[8, 16], f32>, %y: !loop.buffer<[8, 16], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[8, 16], f32, [(d1 floordiv 8), d0, (d1 mod 8)] in [2, 8, 8]>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[8, 16], f32>
      loop.store %v, %t[%i, %j] : !loop.buffer<[8, 16], f32, [(d1 floordiv 8), d0, (d1 mod 8)] in [2, 8, 8]>
    }
  }
  loop.for %i2 = 0 to 8 {
    loop.for %j2 = 0 to 16 {
      %w = loop.load %t[%i2, %j2] : !loop.buffer<[8, 16], f32, [(d1 floordiv 8), d0, (d1 mod 8)] in [2, 8, 8]>
      loop.store %w, %y[%i2, %j2] : !loop.buffer<[8, 16], f32>
    }
  }
}
