// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Elimination: the row of the greatest element of each column comes up, and is taken from those below.
// CHECK-LABEL: loop.kernel @det_
// CHECK: loop.for %i = 0 to n0 {
// CHECK: loop.for %k = 0 to 4 {
// CHECK: loop.for %{{.*}} = 0 to -%k + 4 {
// CHECK: math.absf
// CHECK: %[[ROW:[a-z_0-9]+]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: loop.store %{{.*}}, %matrix[%i, %[[ROW]], %{{.*}}]
// CHECK: loop.for %{{.*}} = 0 to -%k + 3 {
// CHECK: arith.divf
// CHECK: loop.load %product[%i]
func.func @main(%x: !graph.tensor<[n, 4, 4], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.det %x : (!graph.tensor<[n, 4, 4], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}
