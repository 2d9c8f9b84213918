// RUN: weft-opt %s -p 'weft-split-at{kernel=k loop=i point=3}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 3 {
// CHECK: loop.store %{{.*}}, %y[%i]
// CHECK: loop.for %ir = 0 to 5 {
// CHECK: loop.store %{{.*}}, %y[%ir + 3]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %v, %y[%i] : !loop.buffer<[8], f32>
  }
}
