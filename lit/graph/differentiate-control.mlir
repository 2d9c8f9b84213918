// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-differentiate,weft-fold-constants,weft-rewrite,weft-cse-dce | filecheck %s

// The derivative of a branch is a branch. A product is kept, as a result that the other region fills with zeros; what is elementwise is computed again.
// CHECK-LABEL: func.func @main
// CHECK: %y, %[[KEPT:.*]] = graph.if %c
// CHECK-NEXT: %d = graph.einsum %x, %x
// CHECK-NEXT: %e = graph.exp %d
// CHECK-NEXT: graph.yield %e, %d :
// CHECK-NEXT: } else {
// CHECK: graph.yield %x, %{{.*}} :
// CHECK: %[[GRAD:.*]] = graph.if %c
// CHECK-NEXT: %[[EXP:.*]] = graph.exp %[[KEPT]]
// CHECK: graph.einsum %{{.*}}, %x
// CHECK: } else {
// CHECK: func.return %y, %[[GRAD]]
func.func @main(%x: !graph.tensor<[], f32>, %c: !graph.tensor<[], i1>) -> !graph.tensor<[], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[], f32> {
    %d = graph.einsum %x, %x {equation = ",->"} : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    %e = graph.exp %d : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %e : !graph.tensor<[], f32>
  } else {
    graph.yield %x : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// The derivative of a loop is a loop that goes from the last iteration to the first; the state is stacked. Cotangents of rows are stacked, and those of other values from outside added up.
// CHECK-LABEL: func.func @main
// CHECK: %y, %[[STATES:.*]] = graph.for %x {count = #graph.shape<[n]>, index = "i"}
// CHECK: graph.yield %q, %p :
// CHECK: graph.for %{{.*}}, %{{.*}} {count = #graph.shape<[n]>, index = "i_0"}
// CHECK-NEXT: ^{{.*}}(%[[DY:.*]]: !graph.tensor<[], f32>, %[[TOTAL:.*]]: !graph.tensor<[], f32>):
// CHECK-NEXT: graph.slice %[[STATES]] {starts = #graph.shape<[-i_0 + n - 1]>
// CHECK: graph.slice %r {starts = #graph.shape<[-i_0 + n - 1]>
// CHECK: %[[SUM:.*]] = graph.add %[[TOTAL]],
// CHECK: graph.yield %{{.*}}, %[[SUM]], %{{.*}} :
// CHECK: graph.scatter_slice %{{.*}} {shape = #graph.shape<[n]>, starts = #graph.shape<[n - 1]>, steps = array<i64: -1>}
func.func @main(%x: !graph.tensor<[], f32>, %w: !graph.tensor<[], f32>, %r: !graph.tensor<[n], f32>) -> !graph.tensor<[], f32> {
  %y = graph.for %x {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  ^body(%p: !graph.tensor<[], f32>):
    %s = graph.slice %r {starts = #graph.shape<[i]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[1], f32>
    %t = graph.reshape %s {shape = #graph.shape<[]>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[], f32>
    %m = graph.mul %p, %w : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    %q = graph.mul %m, %t : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %q : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// Slices whose size the index tells cannot be stacked: they are taken again from the state, which is.
// CHECK-LABEL: func.func @main
// CHECK: %y, %[[STATES:.*]], %{{.*}} = graph.for %x {{.*}} -> (!graph.tensor<[4], f32>, !graph.tensor<[n, 4], f32>, !graph.tensor<[n], f32>)
// CHECK: graph.for
// CHECK: %[[ROW:.*]] = graph.slice %[[STATES]]
// CHECK: %[[STATE:.*]] = graph.reshape %[[ROW]] {shape = #graph.shape<[4]>}
// CHECK: graph.slice %[[STATE]] {starts = #graph.shape<[0]>, sizes = #graph.shape<[-i_0 + n - 1]>
func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[], f32> {
  %y = graph.for %x {count = #graph.shape<[n]>, index = "i"} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  ^body(%p: !graph.tensor<[4], f32>):
    %s = graph.slice %p {starts = #graph.shape<[0]>, sizes = #graph.shape<[i]>, steps = array<i64: 1>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[i], f32>
    %d = graph.einsum %s, %s {equation = "a,a->"} : (!graph.tensor<[i], f32>, !graph.tensor<[i], f32>) -> !graph.tensor<[], f32>
    %q = graph.mul %p, %d : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
    graph.yield %q : !graph.tensor<[4], f32>
  }
  %z = graph.einsum %y {equation = "a->"} : (!graph.tensor<[4], f32>) -> !graph.tensor<[], f32>
  func.return %z : !graph.tensor<[], f32>
}

// -----

// As many iterations as a while loop ran; nothing passes through its condition.
// CHECK-LABEL: func.func @main
// CHECK: %y, %[[STATES:.*]] = graph.while %x {index = "i", count = "rounds"} {{.*}} -> (!graph.tensor<[], f32>, !graph.tensor<[rounds], f32>)
// CHECK: %[[GRAD:.*]] = graph.for %{{.*}} {count = #graph.shape<[rounds]>, index = "i_0"}
// CHECK: graph.slice %[[STATES]] {starts = #graph.shape<[-i_0 + rounds - 1]>
// CHECK: func.return %y, %[[GRAD]]
func.func @main(%x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y = graph.while %x {index = "i", count = "rounds"} : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  ^condition(%p: !graph.tensor<[], f32>):
    %l = graph.less %p, %p : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], i1>
    graph.condition %l : !graph.tensor<[], i1>
  } do {
  ^body(%s: !graph.tensor<[], f32>):
    %q = graph.mul %s, %s : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %q : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// Nothing of a checkpoint is kept: its derivative computes it again, apart from the first time.
// CHECK-LABEL: func.func @main
// CHECK: %y = graph.checkpoint
// CHECK: graph.exp %x
// CHECK: %[[GRAD:.*]] = graph.checkpoint
// CHECK: graph.exp %x
// CHECK: func.return %y, %[[GRAD]]
func.func @main(%x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y = graph.checkpoint : () -> !graph.tensor<[], f32> {
    %e = graph.exp %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    %s = graph.sin %e : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %s : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// A rule of one's own takes the place of the body's derivative.
// CHECK-LABEL: func.func @main
// CHECK: %y, %kept = graph.custom_vjp %x {residuals = #builtin.int<1>}
// CHECK: %[[GRAD:.*]] = graph.cos %kept
// CHECK: func.return %y, %[[GRAD]]
func.func @main(%x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y, %kept = graph.custom_vjp %x {residuals = #builtin.int<1>} : (!graph.tensor<[], f32>) -> (!graph.tensor<[], f32>, !graph.tensor<[], f32>) {
  ^body(%a: !graph.tensor<[], f32>):
    %e = graph.exp %a : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %e, %a : !graph.tensor<[], f32>, !graph.tensor<[], f32>
  } vjp {
  ^derivative(%saved: !graph.tensor<[], f32>, %dy: !graph.tensor<[], f32>):
    %c = graph.cos %saved : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    %m = graph.mul %c, %dy : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %m : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// Nothing passes a stopped gradient.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.cos
// CHECK: func.return %x, %{{.*}}
func.func @main(%x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %s = graph.stop_gradient %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  func.return %s : !graph.tensor<[], f32>
}

// -----

// CHECK: gradients require loops whose carried values keep their shapes, got graph.for where m vary
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[], f32> {
  %r = graph.for %x {count = #graph.shape<[2]>, index = "i", sizes = ["m"]} : (!graph.tensor<[n], f32>) -> !graph.tensor<[m], f32> {
  ^body(%p: !graph.tensor<[m], f32>):
    %q = graph.concat %p, %p {axis = 0 : i64} : (!graph.tensor<[m], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[2 * m], f32>
    graph.yield %q : !graph.tensor<[2 * m], f32>
  }
  %y = graph.reduce_sum %r {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[m], f32>) -> !graph.tensor<[], f32>
  func.return %y : !graph.tensor<[], f32>
}

// -----

// The cotangent of a matrix from outside that is larger than the rows of an iteration is one product of all rows: these are stacked. That of a smaller one is added up.
// CHECK-LABEL: func.func @main
// CHECK: index = "i_0"} : {{.*}} -> (!graph.tensor<[2, 8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[3, 2, 8], f32>, !graph.tensor<[3, 2, 8], f32>)
// CHECK: graph.yield
// CHECK: graph.reshape %{{.*}} {shape = #graph.shape<[6, 8]>}
// CHECK: graph.reshape %{{.*}} {shape = #graph.shape<[6, 8]>}
// CHECK: graph.matmul %{{.*}}, %{{.*}} : (!graph.tensor<[8, 6], f32>, !graph.tensor<[6, 8], f32>) -> !graph.tensor<[8, 8], f32>
func.func @main(%x: !graph.tensor<[2, 8], f32>, %w: !graph.tensor<[8, 8], f32>, %v: !graph.tensor<[8], f32>) -> !graph.tensor<[], f32> {
  %y = graph.for %x {count = #graph.shape<[3]>, index = "i"} : (!graph.tensor<[2, 8], f32>) -> !graph.tensor<[2, 8], f32> {
  ^body(%p: !graph.tensor<[2, 8], f32>):
    %m = graph.matmul %p, %w : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8, 8], f32>) -> !graph.tensor<[2, 8], f32>
    %q = graph.mul %m, %v : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[2, 8], f32>
    graph.yield %q : !graph.tensor<[2, 8], f32>
  }
  %s = graph.reduce_sum %y {axes = array<i64: 0, 1>, keepdims = false} : (!graph.tensor<[2, 8], f32>) -> !graph.tensor<[], f32>
  func.return %s : !graph.tensor<[], f32>
}
