// RUN: weft-opt %s -p weft-graph-to-loop | filecheck %s

// What is said of derivatives, and names of values, copy elements where no pass has removed them.
// CHECK-LABEL: loop.kernel @watch
// CHECK: loop.for %[[I:.*]] = 0 to n0 {
// CHECK: loop.load %{{.*}}[%[[I]]]
// CHECK: loop.store
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @watch
// CHECK-NEXT: loop.call @watch
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %h = graph.watch %x {label = "h"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %s = graph.stop_gradient %h : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %s : !graph.tensor<[n], f32>
}
