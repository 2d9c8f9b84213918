// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-tile-ragged{kernel=k loop=i size=4}' | filecheck %s

// One copy of the body; the last tile may be shorter.
// CHECK-LABEL: loop.kernel @k[n]
// CHECK-NEXT: loop.for %io = 0 to -(-n floordiv 4) {
// CHECK-NEXT: loop.for %ii = 0 to min(-4 * %io + n, 4) {
// CHECK-NEXT: %v = loop.load %x[4 * %io + %ii]
// CHECK-NEXT: loop.store %v, %y[4 * %io + %ii]
// CHECK-NOT: loop.for
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    loop.store %v, %y[%i] : !loop.buffer<[n], f32>
  }
}

// -----

// A size that divides: every tile is a whole one.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %io = 0 to 2 {
// CHECK-NEXT: loop.for %ii = 0 to 4 {
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %v, %y[%i] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: tile_ragged requires a loop without marks, got loop %i ['parallel']
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 parallel {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %v, %y[%i] : !loop.buffer<[8], f32>
  }
}
