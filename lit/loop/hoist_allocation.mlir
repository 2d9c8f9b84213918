// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-hoist-allocation{kernel=k allocation=t per_iteration=true}' | filecheck %s

// Every iteration has a part of its own of what is allocated once.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %t = loop.alloc workspace : !loop.buffer<[4, 8, n], f32, [d0, d2, d1] in [4, n, 8]>
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK: loop.store %{{.*}}, %t[%i, 2, %j]
// CHECK: loop.load %t[%i, 2, 0]
loop.kernel @k[n](%x: !loop.buffer<[4, n], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %t = loop.alloc workspace : !loop.buffer<[8, n], f32, [d1, d0] in [n, 8]>
    loop.for %j = 0 to n {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, n], f32>
      loop.store %v, %t[2, %j] : !loop.buffer<[8, n], f32, [d1, d0] in [n, 8]>
    }
    %w = loop.load %t[2, 0] : !loop.buffer<[8, n], f32, [d1, d0] in [n, 8]>
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}

// -----

// What the kernel itself allocates is in no loop.
// CHECK: hoist_allocation requires a loop over sizes around it, got %t
loop.kernel @k(%y: !loop.buffer<[4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.for %i = 0 to 4 {
    %w = loop.load %t[%i] : !loop.buffer<[4], f32>
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}

// -----

// Iterations at the same time cannot be brought to use one buffer after the other any more.
// CHECK: hoist_allocation requires a loop over sizes around it, got %t
loop.kernel @k(%y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 parallel {
    %t = loop.alloc scratch : !loop.buffer<[4], f32>
    %w = loop.load %t[%i] : !loop.buffer<[4], f32>
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}
