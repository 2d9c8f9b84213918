// RUN: weft-opt %s -p weft-hoist-workspace | filecheck %s

// A temporary in the workspace becomes an argument, and each call gets one of its own size; registers stay where they are.
// CHECK-LABEL: loop.kernel @k[m]
// CHECK-SAME: %y: !loop.buffer<[m], f32>, %t: !loop.buffer<[m], f32>)
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.alloc registers
// CHECK-NOT: loop.alloc workspace
loop.kernel @k[m](%x: !loop.buffer<[m], f32>, %y: !loop.buffer<[m], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[m], f32>
  loop.for %i = 0 to m {
    %r = loop.alloc registers : !loop.buffer<[1], f32>
    %v = loop.load %x[%i] : !loop.buffer<[m], f32>
    loop.store %v, %r[0] : !loop.buffer<[1], f32>
    %u = loop.load %r[0] : !loop.buffer<[1], f32>
    loop.store %u, %t[%i] : !loop.buffer<[m], f32>
  }
  loop.for %i = 0 to m {
    %v = loop.load %t[%i] : !loop.buffer<[m], f32>
    loop.store %v, %y[%i] : !loop.buffer<[m], f32>
  }
}
// CHECK-LABEL: loop.program @main[n]
// CHECK-NEXT: %a = loop.alloc workspace
// CHECK-NEXT: %[[FIRST:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[2 * n], f32>
// CHECK-NEXT: loop.call @k[2 * n](%x, %a, %[[FIRST]])
// CHECK-NEXT: %[[SECOND:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[2 * n], f32>
// CHECK-NEXT: loop.call @k[2 * n](%a, %y, %[[SECOND]])
loop.program @main[n](%x: !loop.buffer<[2 * n], f32>, %y: !loop.buffer<[2 * n], f32>) inputs 1 {
  %a = loop.alloc workspace : !loop.buffer<[2 * n], f32>
  loop.call @k[2 * n](%x, %a) : !loop.buffer<[2 * n], f32>, !loop.buffer<[2 * n], f32>
  loop.call @k[2 * n](%a, %y) : !loop.buffer<[2 * n], f32>, !loop.buffer<[2 * n], f32>
}
