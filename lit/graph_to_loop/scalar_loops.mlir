// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// A nest over elements is one kernel: the table is changed in the result's buffer, numbers are values.
// CHECK-LABEL: loop.kernel @for_slice
// CHECK-SAME: (%a0: !loop.buffer<[100, 9], f64>, %a1: !loop.buffer<[100, 9], f64>)
// CHECK: loop.for %i = 0 to 100 {
// CHECK: loop.store %{{.*}}, %a1[%i, %j]
// CHECK: loop.for %[[I:i_1]] = 0 to 99 {
// CHECK-NEXT: loop.for %[[J:j_1]] = 0 to 9 {
// CHECK-NEXT: %[[X:[0-9]+]] = loop.load %a1[%[[I]], %[[J]]]
// CHECK-NEXT: %[[Y:[0-9]+]] = arith.addf %[[X]], %[[X]]
// CHECK-NEXT: loop.store %[[Y]], %a1[%[[I]] + 1, %[[J]]]
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK: loop.program @main
// CHECK-NEXT: loop.call @for_slice{{.*}}(%x, %y)
// CHECK-NEXT: }
func.func @main(%x: !graph.tensor<[100, 9], f64>) -> !graph.tensor<[100, 9], f64> {
  %y = graph.for %x {count = #graph.shape<[99]>, index = "r"} : (!graph.tensor<[100, 9], f64>) -> !graph.tensor<[100, 9], f64> {
  ^body(%p: !graph.tensor<[100, 9], f64>):
    %q = graph.for %p {count = #graph.shape<[9]>, index = "c"} : (!graph.tensor<[100, 9], f64>) -> !graph.tensor<[100, 9], f64> {
    ^inner(%t: !graph.tensor<[100, 9], f64>):
      %a = graph.slice %t {starts = #graph.shape<[r, c]>, sizes = #graph.shape<[1, 1]>, steps = array<i64: 1, 1>} : (!graph.tensor<[100, 9], f64>) -> !graph.tensor<[1, 1], f64>
      %b = graph.add %a, %a : (!graph.tensor<[1, 1], f64>, !graph.tensor<[1, 1], f64>) -> !graph.tensor<[1, 1], f64>
      %u = graph.insert_slice %t, %b {starts = #graph.shape<[r + 1, c]>, steps = array<i64: 1, 1>} : (!graph.tensor<[100, 9], f64>, !graph.tensor<[1, 1], f64>) -> !graph.tensor<[100, 9], f64>
      graph.yield %u : !graph.tensor<[100, 9], f64>
    }
    graph.yield %q : !graph.tensor<[100, 9], f64>
  }
  func.return %y : !graph.tensor<[100, 9], f64>
}

// -----

// Carried numbers are on the stack, and change places at once; rows are stacked; a branch over elements stays one.
// CHECK-LABEL: loop.kernel @for_
// CHECK: loop.for %i = 0 to 100 {
// CHECK: loop.if %{{[0-9]+}} {
// CHECK: loop.load %a{{[0-9]}}[%i]
// CHECK: loop.store %{{[0-9]+}}, %a{{[0-9]}}[%i] : !loop.buffer<[100], f64>
// CHECK: loop.program @main
// CHECK-NOT: loop.for
func.func @main(%x: !graph.tensor<[100], f64>, %s: !graph.tensor<[], f64>) -> (!graph.tensor<[], f64>, !graph.tensor<[], f64>, !graph.tensor<[100], f64>) {
  %a, %b, %all = graph.for %s, %s {count = #graph.shape<[100]>, index = "k"} : (!graph.tensor<[], f64>, !graph.tensor<[], f64>) -> (!graph.tensor<[], f64>, !graph.tensor<[], f64>, !graph.tensor<[100], f64>) {
  ^body(%p: !graph.tensor<[], f64>, %q: !graph.tensor<[], f64>):
    %c = graph.less %p, %q : (!graph.tensor<[], f64>, !graph.tensor<[], f64>) -> !graph.tensor<[], i1>
    %n = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[], f64> {
      %e = graph.slice %x {starts = #graph.shape<[k]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[100], f64>) -> !graph.tensor<[1], f64>
      %f = graph.reshape %e {shape = #graph.shape<[]>} : (!graph.tensor<[1], f64>) -> !graph.tensor<[], f64>
      graph.yield %f : !graph.tensor<[], f64>
    } else {
      graph.yield %p : !graph.tensor<[], f64>
    }
    graph.yield %q, %n, %n : !graph.tensor<[], f64>, !graph.tensor<[], f64>, !graph.tensor<[], f64>
  }
  func.return %a, %b, %all : !graph.tensor<[], f64>, !graph.tensor<[], f64>, !graph.tensor<[100], f64>
}

// -----

// A column is no buffer: what reads an element of it reads the matrix.
// CHECK-LABEL: loop.kernel @for_
// CHECK-NOT: loop.alloc
// CHECK: %[[N:[0-9]+]] = loop.load %a{{[0-9]}}[%i] : !loop.buffer<[100], i64>
// CHECK: loop.load %a{{[0-9]}}[%{{[0-9]+}}, 3] : !loop.buffer<[100, 9], f64>
// CHECK-LABEL: loop.program @main
func.func @main(%x: !graph.tensor<[100, 9], f64>, %n: !graph.tensor<[100], i64>) -> !graph.tensor<[100], f64> {
  %all = graph.for {count = #graph.shape<[100]>, index = "k"} : () -> !graph.tensor<[100], f64> {
    %c = graph.slice %x {starts = #graph.shape<[0, 3]>, sizes = #graph.shape<[100, 1]>, steps = array<i64: 1, 1>} : (!graph.tensor<[100, 9], f64>) -> !graph.tensor<[100, 1], f64>
    %d = graph.reshape %c {shape = #graph.shape<[100]>} : (!graph.tensor<[100, 1], f64>) -> !graph.tensor<[100], f64>
    %e = graph.slice %n {starts = #graph.shape<[k]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[100], i64>) -> !graph.tensor<[1], i64>
    %f = graph.reshape %e {shape = #graph.shape<[]>} : (!graph.tensor<[1], i64>) -> !graph.tensor<[], i64>
    %g = graph.gather %d, %f {axis = 0 : i64} : (!graph.tensor<[100], f64>, !graph.tensor<[], i64>) -> !graph.tensor<[], f64>
    graph.yield %g : !graph.tensor<[], f64>
  }
  func.return %all : !graph.tensor<[100], f64>
}

// -----

// Tensors that change places, and operators on whole ones, are no numbers: the program has the loop.
// CHECK-LABEL: loop.program @main
// CHECK: loop.for
func.func @main(%x: !graph.tensor<[100], f64>, %y: !graph.tensor<[100], f64>) -> (!graph.tensor<[100], f64>, !graph.tensor<[100], f64>) {
  %a, %b = graph.for %x, %y {count = #graph.shape<[100]>, index = "k"} : (!graph.tensor<[100], f64>, !graph.tensor<[100], f64>) -> (!graph.tensor<[100], f64>, !graph.tensor<[100], f64>) {
  ^body(%p: !graph.tensor<[100], f64>, %q: !graph.tensor<[100], f64>):
    graph.yield %q, %p : !graph.tensor<[100], f64>, !graph.tensor<[100], f64>
  }
  func.return %a, %b : !graph.tensor<[100], f64>, !graph.tensor<[100], f64>
}

// -----

// CHECK-LABEL: loop.program @main
// CHECK: loop.for
func.func @main(%x: !graph.tensor<[100], f64>) -> !graph.tensor<[100], f64> {
  %a = graph.for %x {count = #graph.shape<[99]>, index = "k"} : (!graph.tensor<[100], f64>) -> !graph.tensor<[100], f64> {
  ^body(%p: !graph.tensor<[100], f64>):
    %e = graph.slice %p {starts = #graph.shape<[k]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[100], f64>) -> !graph.tensor<[1], f64>
    %q = graph.insert_slice %p, %e {starts = #graph.shape<[k + 1]>, steps = array<i64: 1>} : (!graph.tensor<[100], f64>, !graph.tensor<[1], f64>) -> !graph.tensor<[100], f64>
    %r = graph.insert_slice %p, %e {starts = #graph.shape<[0]>, steps = array<i64: 1>} : (!graph.tensor<[100], f64>, !graph.tensor<[1], f64>) -> !graph.tensor<[100], f64>
    %s = graph.add %q, %r : (!graph.tensor<[100], f64>, !graph.tensor<[100], f64>) -> !graph.tensor<[100], f64>
    graph.yield %s : !graph.tensor<[100], f64>
  }
  func.return %a : !graph.tensor<[100], f64>
}
