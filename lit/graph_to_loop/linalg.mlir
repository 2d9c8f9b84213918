// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Three points at once, by their pairs; each result is multiplied by its factor.
// CHECK-LABEL: loop.kernel @fourier_pass_
// CHECK: loop.for %l = 0 to n0 {
// CHECK-NEXT: loop.for %p = 0 to n1 {
// CHECK-NEXT: loop.for %q = 0 to 8 {
// CHECK: %[[B:[0-9]+]] = loop.load %a0[%l, 1, %p, %q]
// CHECK: %[[C:[0-9]+]] = loop.load %a0[%l, 2, %p, %q]
// CHECK: %[[SUM:[0-9]+]] = arith.addf %[[B]], %[[C]]
// CHECK: arith.constant -5.000000e-01
// CHECK-NEXT: arith.mulf %[[SUM]]
// CHECK: loop.load %a2[1, 0, %p, 0]
// CHECK: loop.store %{{.*}}, %a4[%l, %p, 2, %q]
func.func @main(%x: !graph.tensor<[l, 3, c, 8], f32>, %y: !graph.tensor<[l, 3, c, 8], f32>, %f: !graph.tensor<[2, 3, c, 1], f32>) -> (!graph.tensor<[l, c, 3, 8], f32>, !graph.tensor<[l, c, 3, 8], f32>) {
  %u, %v = graph.fourier_pass %x, %y, %f {inverse = false} : (!graph.tensor<[l, 3, c, 8], f32>, !graph.tensor<[l, 3, c, 8], f32>, !graph.tensor<[2, 3, c, 1], f32>) -> (!graph.tensor<[l, c, 3, 8], f32>, !graph.tensor<[l, c, 3, 8], f32>)
  func.return %u, %v : !graph.tensor<[l, c, 3, 8], f32>, !graph.tensor<[l, c, 3, 8], f32>
}

// -----

// Rows of the transposed factor in even blocks: the triangle on the diagonal, the rows right of it
// by the inverses of the diagonal, and what is left of four rows at once. Ten rows are two blocks of
// six, of which the last two rows are those of the identity.
// CHECK-LABEL: loop.kernel @cholesky_
// CHECK: %upper = loop.alloc workspace : !loop.buffer<[n0, 12, 12], f32>
// CHECK: loop.load %a0[%i, %j, %{{.*}}]
// CHECK: loop.store %{{.*}}, %upper[%i, %r, %c + 10]
// CHECK: loop.for %o = 0 to 2 {
// CHECK-COUNT-6: math.sqrt
// CHECK: loop.for %{{.*}} = 0 to -6 * %o + 6 {
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to -3 * %o + 3 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to -6 * %o - 2 * %[[R]] + 6 {
// CHECK: loop.load %upper[%i, %{{.*}}, %{{.*}}] :
// CHECK: loop.store %{{.*}}, %a1[%i, %{{.*}}, %{{.*}}]
func.func @main(%x: !graph.tensor<[n, 10, 10], f32>) -> !graph.tensor<[n, 10, 10], f32> {
  %y = graph.cholesky %x : (!graph.tensor<[n, 10, 10], f32>) -> !graph.tensor<[n, 10, 10], f32>
  func.return %y : !graph.tensor<[n, 10, 10], f32>
}

// -----

// A block of all rows has none behind it.
// CHECK-LABEL: loop.kernel @cholesky_
// CHECK-COUNT-4: math.sqrt
// CHECK-NOT: subf
func.func @main(%x: !graph.tensor<[n, 4, 4], f32>) -> !graph.tensor<[n, 4, 4], f32> {
  %y = graph.cholesky %x : (!graph.tensor<[n, 4, 4], f32>) -> !graph.tensor<[n, 4, 4], f32>
  func.return %y : !graph.tensor<[n, 4, 4], f32>
}

// -----

// Rows from the last on: those that are known are a reduction.
// CHECK-LABEL: loop.kernel @triangular_solve_
// CHECK: loop.for %k = 0 to n0 {
// CHECK-NEXT: loop.for %r = 0 to %k reduction(add) {
// CHECK: loop.load %a0[-%k + n0 - 1, -%k + %r + n0]
// CHECK: arith.subf
// CHECK: arith.divf
func.func @main(%a: !graph.tensor<[n, n], f32>, %x: !graph.tensor<[n, 5], f32>) -> !graph.tensor<[n, 5], f32> {
  %y = graph.triangular_solve %a, %x {lower = false, unit = false} : (!graph.tensor<[n, n], f32>, !graph.tensor<[n, 5], f32>) -> !graph.tensor<[n, 5], f32>
  func.return %y : !graph.tensor<[n, 5], f32>
}

// -----

// A system is solved by blocks of columns: rows are exchanged and taken from those below in the
// columns of the block, then eight at once in tiles of the columns behind it.
// CHECK-LABEL: loop.kernel @solve_
// CHECK: %shares = loop.alloc workspace : !loop.buffer<[n0, min(32, n0)], f32>
// CHECK: loop.for %o = 0 to ((n0 + 31) floordiv 32) {
// CHECK-NEXT: loop.for %k = 0 to min(-32 * %o + n0, 32) {
// CHECK: arith.cmpf ogt
// CHECK: %[[ROW:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: loop.store %{{.*}}, %whole[%[[ROW]], 32 * %o + %{{.*}}]
// CHECK: arith.divf
// CHECK: loop.store %{{.*}}, %shares
// CHECK: loop.for %t = 0 to
// CHECK-COUNT-8: arith.mulf
// CHECK: loop.for %r_1 = 0 to %{{.*}} reduction(add) {
// CHECK: arith.divf
func.func @main(%a: !graph.tensor<[n, n], f32>, %x: !graph.tensor<[n, 5], f32>) -> !graph.tensor<[n, 5], f32> {
  %y = graph.solve %a, %x : (!graph.tensor<[n, n], f32>, !graph.tensor<[n, 5], f32>) -> !graph.tensor<[n, 5], f32>
  func.return %y : !graph.tensor<[n, 5], f32>
}

// -----

// Of one block nothing is below: there are no tiles.
// CHECK-LABEL: loop.kernel @solve_
// CHECK-NOT: loop.for %t
func.func @main(%a: !graph.tensor<[n, 3, 3], f64>, %x: !graph.tensor<[n, 3, 1], f64>) -> !graph.tensor<[n, 3, 1], f64> {
  %y = graph.solve %a, %x : (!graph.tensor<[n, 3, 3], f64>, !graph.tensor<[n, 3, 1], f64>) -> !graph.tensor<[n, 3, 1], f64>
  func.return %y : !graph.tensor<[n, 3, 1], f64>
}

// -----

// Long lines are distributed by four digits of 8 bits: all are counted at once, and each round
// keeps the order of the one before.
// CHECK-LABEL: loop.kernel @argsort_
// CHECK: arith.bitcast
// CHECK: loop.store %{{.*}}, %keys[%i, 0, %k]
// CHECK: %[[AT:[0-9]+]] = loop.load %counts[3,
// CHECK: loop.for %d = 0 to 256 {
// CHECK: %[[FIRST:[0-9]+]] = loop.load %counts[0, %{{.*}}]
// CHECK: %[[PLACE:[0-9]+]] = arith.index_cast
// CHECK: loop.store %{{.*}}, %keys_1[%i, 0, %
// CHECK: loop.store %{{.*}}, %places_1[%i, 0, %
// CHECK: loop.store %{{.*}}, %keys[%i, 0, %
// CHECK: loop.store %{{.*}}, %a1[%i, %
func.func @main(%x: !graph.tensor<[n, 100], f32>) -> !graph.tensor<[n, 100], i64> {
  %y = graph.argsort %x {axis = 1 : i64, descending = false, count = #graph.shape<[100]>} : (!graph.tensor<[n, 100], f32>) -> !graph.tensor<[n, 100], i64>
  func.return %y : !graph.tensor<[n, 100], i64>
}
