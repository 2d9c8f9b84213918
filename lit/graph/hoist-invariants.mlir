// RUN: weft-opt %s --split-input-file -p weft-hoist-invariants | filecheck %s

// What reads only values from outside moves in front of a loop that runs; what reads the state or the iteration's number stays.
// CHECK-LABEL: func.func @invariant
// CHECK: %w = graph.mul %x, %b
// CHECK: %z = graph.exp %w
// CHECK: graph.for
// CHECK-NOT: graph.exp
// CHECK: %s = graph.slice %b
// CHECK: %q = graph.add %p, %z
func.func @invariant(%x: !graph.tensor<[n], f32>, %b: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %r, %all = graph.for %x {count = #graph.shape<[4]>, index = "i"} : (!graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[4, 1], f32>) {
  ^body(%p: !graph.tensor<[n], f32>):
    %w = graph.mul %x, %b : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    %z = graph.exp %w : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    %s = graph.slice %b {starts = #graph.shape<[i]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[1], f32>
    %q = graph.add %p, %z : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q, %s : !graph.tensor<[n], f32>, !graph.tensor<[1], f32>
  }
  func.return %r : !graph.tensor<[n], f32>
}

// -----

// A loop that may run no iteration keeps what could fail: subscripts from data, integers that are divided.
// CHECK-LABEL: func.func @speculated
// CHECK: %e = graph.exp %x
// CHECK-NEXT: graph.for
// CHECK: %g = graph.gather
// CHECK: %d = graph.div
func.func @speculated(%x: !graph.tensor<[n], f32>, %k: !graph.tensor<[], i64>, %l: !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32> {
  %r = graph.for %x {count = #graph.shape<[m]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    %g = graph.gather %x, %k {axis = 0 : i64} : (!graph.tensor<[n], f32>, !graph.tensor<[], i64>) -> !graph.tensor<[], f32>
    %d = graph.div %k, %k : (!graph.tensor<[], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[], i64>
    %h = graph.gather %x, %d {axis = 0 : i64} : (!graph.tensor<[n], f32>, !graph.tensor<[], i64>) -> !graph.tensor<[], f32>
    %s = graph.add %e, %g : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
    %q = graph.mul %s, %h : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %r : !graph.tensor<[n], f32>
}

// -----

// A transposed matrix that a product reads as rows costs nothing where it is read.
// CHECK-LABEL: func.func @turned
// CHECK-NEXT: graph.for
// CHECK: graph.transpose %x
// CHECK: graph.matmul
func.func @turned(%x: !graph.tensor<[8, 4], f32>, %w: !graph.tensor<[8, 4], f32>) -> !graph.tensor<[8, 4], f32> {
  %r = graph.for %w {count = #graph.shape<[3]>, index = "i"} : (!graph.tensor<[8, 4], f32>) -> !graph.tensor<[8, 4], f32> {
  ^body(%p: !graph.tensor<[8, 4], f32>):
    %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[8, 4], f32>) -> !graph.tensor<[4, 8], f32>
    %g = graph.matmul %t, %p : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8, 4], f32>) -> !graph.tensor<[4, 4], f32>
    %q = graph.matmul %p, %g : (!graph.tensor<[8, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[8, 4], f32>
    graph.yield %q : !graph.tensor<[8, 4], f32>
  }
  func.return %r : !graph.tensor<[8, 4], f32>
}
