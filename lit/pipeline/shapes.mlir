// RUN: weft-opt %s -p weft-fold-constants,weft-cse-dce,weft-fuse,weft-graph-to-loop,weft-plan-memory | filecheck %s

// Sizes that are computed from shapes, as exporters write them, leave nothing to compute: the reshape is a view.
// CHECK: loop.program @main[n](
// CHECK-NEXT: %[[V:[a-z_0-9]+]] = loop.view %y : !loop.buffer<[n, 12], f32> to !loop.buffer<[n, 3, 4], f32>
// CHECK-NEXT: loop.call @relu_{{[0-9a-f]+}}[n](%x, %[[V]])
// CHECK-NEXT: }
func.func @main(%x: !graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[n, 12], f32> {
  %s = graph.shape %x {start = 0 : i64, end = 1 : i64} : (!graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[1], i64>
  %one = graph.constant {literal = #graph.literal<[1]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %t = graph.mul %s, %one : (!graph.tensor<[1], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[1], i64>
  %r = graph.relu %x : (!graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[n, 3, 4], f32>
  %y = graph.reshape %r {shape = #graph.shape<[n, 12]>} : (!graph.tensor<[n, 3, 4], f32>) -> !graph.tensor<[n, 12], f32>
  func.return %y : !graph.tensor<[n, 12], f32>
}
