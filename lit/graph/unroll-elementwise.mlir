// RUN: weft-opt %s --split-input-file -p weft-unroll-elementwise | filecheck %s

// Of 131 iterations of one operator three run ahead, and the rest as two of 64.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: graph.mul
// CHECK: graph.for %{{.*}} {count = #graph.shape<[2]>, index = "i"}
// CHECK-COUNT-64: graph.mul
// CHECK-NEXT: graph.yield
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.for %x {count = #graph.shape<[131]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.mul %p, %p : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Rows of what stays the same are taken by the numbers that iterations had: 21 become one.
// CHECK-LABEL: func.func @main
// CHECK: graph.slice %r {starts = #graph.shape<[0, 0]>
// CHECK: graph.for %{{.*}} {count = #graph.shape<[2]>, index = "i"}
// CHECK: graph.slice %r {starts = #graph.shape<[21 * i + 1, 0]>
// CHECK: graph.slice %r {starts = #graph.shape<[21 * i + 21, 0]>
// CHECK-NOT: graph.slice
func.func @main(%x: !graph.tensor<[1, n], f32>, %r: !graph.tensor<[43, n], f32>) -> !graph.tensor<[1, n], f32> {
  %y = graph.for %x {count = #graph.shape<[43]>, index = "i"} : (!graph.tensor<[1, n], f32>) -> !graph.tensor<[1, n], f32> {
  ^body(%p: !graph.tensor<[1, n], f32>):
    %s = graph.slice %r {starts = #graph.shape<[i, 0]>, sizes = #graph.shape<[1, n]>, steps = array<i64: 1, 1>} : (!graph.tensor<[43, n], f32>) -> !graph.tensor<[1, n], f32>
    %e = graph.exp %p : (!graph.tensor<[1, n], f32>) -> !graph.tensor<[1, n], f32>
    %q = graph.add %e, %s : (!graph.tensor<[1, n], f32>, !graph.tensor<[1, n], f32>) -> !graph.tensor<[1, n], f32>
    graph.yield %q : !graph.tensor<[1, n], f32>
  }
  func.return %y : !graph.tensor<[1, n], f32>
}

// -----

// What the iteration before gave is moved, or iterations are stacked, or only a call knows how many there are: the loop stays.
// CHECK-LABEL: func.func @main
// CHECK: graph.for %{{.*}} {count = #graph.shape<[40]>
// CHECK: graph.for %{{.*}} {count = #graph.shape<[41]>
// CHECK: graph.for %{{.*}} {count = #graph.shape<[n]>
func.func @main(%x: !graph.tensor<[4, 4], f32>, %h: !graph.tensor<[n], f32>) -> (!graph.tensor<[4, 4], f32>, !graph.tensor<[41, 4, 4], f32>, !graph.tensor<[4, 4], f32>) {
  %y = graph.for %x {count = #graph.shape<[40]>, index = "i"} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  ^body(%p: !graph.tensor<[4, 4], f32>):
    %t = graph.transpose %p {permutation = array<i64: 1, 0>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
    %q = graph.add %p, %t : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
    graph.yield %q : !graph.tensor<[4, 4], f32>
  }
  %z, %all = graph.for %x {count = #graph.shape<[41]>, index = "i"} : (!graph.tensor<[4, 4], f32>) -> (!graph.tensor<[4, 4], f32>, !graph.tensor<[41, 4, 4], f32>) {
  ^body(%p: !graph.tensor<[4, 4], f32>):
    %q = graph.mul %p, %p : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
    graph.yield %q, %p : !graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>
  }
  %w = graph.for %x {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  ^body(%p: !graph.tensor<[4, 4], f32>):
    %q = graph.mul %p, %p : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
    graph.yield %q : !graph.tensor<[4, 4], f32>
  }
  func.return %y, %all, %w : !graph.tensor<[4, 4], f32>, !graph.tensor<[41, 4, 4], f32>, !graph.tensor<[4, 4], f32>
}
