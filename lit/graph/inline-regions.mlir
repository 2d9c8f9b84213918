// RUN: weft-opt %s --split-input-file -p weft-inline-regions | filecheck %s

// Regions that run once join the graph, inner ones too; rules of derivatives go.
// CHECK-LABEL: func.func @regions
// CHECK-NEXT: %e = graph.exp %x
// CHECK-NEXT: %t = graph.tanh %e
// CHECK-NEXT: %n = graph.neg %t
// CHECK-NEXT: func.return %n
func.func @regions(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.checkpoint : () -> !graph.tensor<[n], f32> {
    %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    %z = graph.custom_vjp %e : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
    ^body(%a: !graph.tensor<[n], f32>):
      %t = graph.tanh %a : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
      graph.yield %t : !graph.tensor<[n], f32>
    } vjp {
    ^derivative(%dy: !graph.tensor<[n], f32>):
      graph.yield %dy : !graph.tensor<[n], f32>
    }
    graph.yield %z : !graph.tensor<[n], f32>
  }
  %n = graph.neg %y : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %n : !graph.tensor<[n], f32>
}

// -----

// Branches and loops stay.
// CHECK-LABEL: func.func @others
// CHECK: graph.if
func.func @others(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
    graph.yield %x : !graph.tensor<[n], f32>
  } else {
    graph.yield %x : !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}
