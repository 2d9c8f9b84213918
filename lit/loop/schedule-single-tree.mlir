// RUN: weft-opt %s -p weft-schedule | filecheck %s

// How deep a single tree is may be no load: what lanes keep says that they walk.
// CHECK-LABEL: loop.kernel @single_tree
// CHECK: loop.for %{{.*}} = 0 to 2 parallel {
// CHECK: loop.for %{{.*}} = 0 to 3 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 64 unroll vector(8) {
loop.kernel @single_tree(%lead: !loop.buffer<[7], i32>, %weight: !loop.buffer<[7], f32>, %y: !loop.buffer<[128], f32>) {
  loop.for %i = 0 to 2 {
    %node = loop.alloc scratch : !loop.buffer<[64], i32>
    loop.for %l = 0 to 64 {
      %root = arith.constant 0 : i32
      loop.store %root, %node[%l] : !loop.buffer<[64], i32>
    }
    loop.for %d = 0 to 3 {
      loop.for %l = 0 to 64 {
        %at = loop.load %node[%l] : !loop.buffer<[64], i32>
        %last = arith.constant 6 : i32
        %bounded = arith.minui %at, %last : i32
        %wide = arith.extsi %bounded : i32 to i64
        %index = arith.index_cast %wide : i64 to index
        %next = loop.load %lead[%index] : !loop.buffer<[7], i32>
        loop.store %next, %node[%l] : !loop.buffer<[64], i32>
      }
    }
    loop.for %l = 0 to 64 {
      %at = loop.load %node[%l] : !loop.buffer<[64], i32>
      %last = arith.constant 6 : i32
      %bounded = arith.minui %at, %last : i32
      %wide = arith.extsi %bounded : i32 to i64
      %index = arith.index_cast %wide : i64 to index
      %found = loop.load %weight[%index] : !loop.buffer<[7], f32>
      loop.store %found, %y[64 * %i + %l] : !loop.buffer<[128], f32>
    }
  }
}
