// RUN: weft-opt %s -p weft-graph-to-loop | filecheck %s

// Each filter is nine numbers, of which sixteen are computed in f64.
// CHECK-LABEL: loop.kernel @winograd_filter_
// CHECK: loop.for %o = 0 to n0 {
// CHECK-NEXT: loop.for %c = 0 to 4 {
// CHECK-COUNT-9: arith.extf %{{.*}} : f32 to f64
// CHECK-COUNT-16: loop.store %{{.*}}, %a1[{{[0-9]+}}, %o, %c]
// CHECK-NOT: loop.store
func.func @main(%w: !graph.tensor<[o, 4, 3, 3], f32>) -> !graph.tensor<[16, o, 4], f32> {
  %y = graph.winograd_filter %w {size = 2 : i64} : (!graph.tensor<[o, 4, 3, 3], f32>) -> !graph.tensor<[16, o, 4], f32>
  func.return %y : !graph.tensor<[16, o, 4], f32>
}
