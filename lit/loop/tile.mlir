// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-tile{kernel=k loop=i size=4}' | filecheck %s

// A size that divides: two loops, no remainder.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %io = 0 to 2 {
// CHECK-NEXT: loop.for %ii = 0 to 4 {
// CHECK-NEXT: %v = loop.load %x[4 * %io + %ii]
// CHECK-NOT: loop.for
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %v, %y[%i] : !loop.buffer<[8], f32>
  }
}

// -----

// An extent known at run time: a main part and what is left.
// CHECK-LABEL: loop.kernel @k[n]
// CHECK-NEXT: loop.for %io = 0 to (n floordiv 4) {
// CHECK-NEXT: loop.for %ii = 0 to 4 {
// CHECK: loop.store %{{.*}}, %y[4 * %io + %ii]
// CHECK: loop.for %ir = 0 to (n mod 4) {
// CHECK: loop.store %{{.*}}, %y[%ir + 4 * (n floordiv 4)]
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    loop.store %v, %y[%i] : !loop.buffer<[n], f32>
  }
}

// -----

// CHECK: tile requires at least 4 iterations, got loop %i with 3
loop.kernel @k(%x: !loop.buffer<[3], f32>) {
  loop.for %i = 0 to 3 {
    %v = loop.load %x[%i] : !loop.buffer<[3], f32>
    loop.store %v, %x[%i] : !loop.buffer<[3], f32>
  }
}
