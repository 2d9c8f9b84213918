// RUN: weft-opt %s -p weft-fuse,weft-graph-to-loop | filecheck %s

// At most a hundred rounds for each row, of which those behind the last that is needed do nothing.
// CHECK-LABEL: loop.kernel @couple_probabilities
// CHECK: loop.for %[[ROW:[a-z_0-9]+]] = 0 to n
// CHECK: loop.load %a0[%[[ROW]], %{{.*}}, %{{.*}}]
// CHECK: loop.for %{{.*}} = 0 to 100 {
// CHECK: loop.if
// CHECK: math.absf
// CHECK: arith.ori
// CHECK: loop.if
// CHECK: arith.divf
// CHECK: loop.store %{{.*}}, %a1[%[[ROW]], %{{.*}}]
func.func @main(%x: !graph.tensor<[n, 3, 3], f32>) -> !graph.tensor<[n, 3], f32> {
  %y = graph.couple_probabilities %x {classes = #graph.shape<[3]>} : (!graph.tensor<[n, 3, 3], f32>) -> !graph.tensor<[n, 3], f32>
  func.return %y : !graph.tensor<[n, 3], f32>
}
