// RUN: weft-opt %s -p 'weft-normalize-loop{kernel=k loop=i}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 2 {
// CHECK-NEXT: loop.load %x[8 * %i + 4]
loop.kernel @k(%x: !loop.buffer<[20], f32>, %y: !loop.buffer<[20], f32>) {
  loop.for %i = 4 to 20 step 8 {
    %v = loop.load %x[%i] : !loop.buffer<[20], f32>
    loop.store %v, %y[%i] : !loop.buffer<[20], f32>
  }
}
