// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-unify-sizes | filecheck %s

// Sizes that an operator assumes to be equal are the first of them; callers see the inputs as they were.
// CHECK-LABEL: func.func @names
// CHECK-SAME: %x: !graph.tensor<[n, 3], f32>, %z: !graph.tensor<[n, 3], f32>
// CHECK-SAME: equal_sizes = [#loop.exprs<[m, n]>]
// CHECK-SAME: input_types = [!graph.tensor<[n, 3], f32>, !graph.tensor<[m, 3], f32>]
// CHECK: graph.relu %z : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n, 3], f32>
func.func @names(%x: !graph.tensor<[n, 3], f32>, %z: !graph.tensor<[m, 3], f32>) -> (!graph.tensor<[n, 3], f32>, !graph.tensor<[m, 3], f32>) {
  %y = graph.add %x, %z : (!graph.tensor<[n, 3], f32>, !graph.tensor<[m, 3], f32>) -> !graph.tensor<[n, 3], f32>
  %r = graph.relu %z : (!graph.tensor<[m, 3], f32>) -> !graph.tensor<[m, 3], f32>
  func.return %y, %r : !graph.tensor<[n, 3], f32>, !graph.tensor<[m, 3], f32>
}

// -----

// One that has to be a number is that number.
// CHECK-LABEL: func.func @numbers
// CHECK-SAME: %x: !graph.tensor<[1, 3], f32>
// CHECK: graph.assume %x {shape = #graph.shape<[1, 3]>} : (!graph.tensor<[1, 3], f32>) -> !graph.tensor<[1, 3], f32>
func.func @numbers(%x: !graph.tensor<[n, 3], f32>) -> !graph.tensor<[1, 3], f32> {
  %y = graph.assume %x {shape = #graph.shape<[1, 3]>} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[1, 3], f32>
  func.return %y : !graph.tensor<[1, 3], f32>
}

// -----

// What follows from other pairs, or from bounds, is not noted.
// CHECK-LABEL: func.func @implied
// CHECK-SAME: equal_sizes = [#loop.exprs<[n, 2 * (n floordiv 2)]>]}
func.func @implied(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[k], f32>) -> !graph.tensor<[k], f32> attributes {bounds = {k = #loop.exprs<[2, 8]>}} {
  %a = graph.assume %x {shape = #graph.shape<[2 * (n floordiv 2)]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[2 * (n floordiv 2)], f32>
  %b = graph.add %a, %x : (!graph.tensor<[2 * (n floordiv 2)], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %y = graph.assume %z {shape = #graph.shape<[max(1, k)]>} : (!graph.tensor<[k], f32>) -> !graph.tensor<[max(1, k)], f32>
  func.return %z : !graph.tensor<[k], f32>
}

// -----

// What a branch assumes holds in the calls that take it.
// CHECK-LABEL: func.func @branch
// CHECK-NOT: equal_sizes
// CHECK: graph.add %x, %z : (!graph.tensor<[n], f32>, !graph.tensor<[m], f32>)
func.func @branch(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>, %b: !graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
  %y = graph.if %b : (!graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
    %s = graph.add %x, %z : (!graph.tensor<[n], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32>
    graph.yield %s : !graph.tensor<[n], f32>
  } else {
    graph.yield %x: !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Both bounds hold for the one size.
// CHECK-LABEL: func.func @bounds
// CHECK-SAME: bounds = {n = #loop.exprs<[4, 8]>, m = #loop.exprs<[4, 16]>}
func.func @bounds(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32> attributes {bounds = {n = #loop.exprs<[1, 8]>, m = #loop.exprs<[4, 16]>}} {
  %y = graph.add %x, %z : (!graph.tensor<[n], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// An output in the memory of an input keeps the type of that.
// CHECK-LABEL: func.func @donated
// CHECK-SAME: %z: !graph.tensor<[m], f32>) -> (!graph.tensor<[m], f32>, !graph.tensor<[n], f32>)
// CHECK-SAME: equal_sizes = [#loop.exprs<[m, n]>]
func.func @donated(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>) -> (!graph.tensor<[m], f32>, !graph.tensor<[n], f32>) attributes {donated = [[#builtin.int<1>, #builtin.int<0>]]} {
  %y = graph.add %x, %z : (!graph.tensor<[n], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32>
  %r = graph.relu %z : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  func.return %r, %y : !graph.tensor<[m], f32>, !graph.tensor<[n], f32>
}

// -----

// CHECK: graph function requires sizes m = n, got m from 4 to 16 and n from 1 to 3
func.func @contradicted(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32> attributes {bounds = {n = #loop.exprs<[1, 3]>, m = #loop.exprs<[4, 16]>}} {
  %y = graph.add %x, %z : (!graph.tensor<[n], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Two numbers for one size.
// CHECK: graph function requires sizes n = 5, got n = 4
func.func @numbers_differ(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[4], f32> {
  %y = graph.assume %x {shape = #graph.shape<[4]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[4], f32>
  %z = graph.assume %x {shape = #graph.shape<[5]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[5], f32>
  func.return %y : !graph.tensor<[4], f32>
}
