// RUN: weft-opt %s -p weft-deduplicate-constants | filecheck %s

// Without a weight store the bytes of two keys are unknown, and both stay.
// CHECK-LABEL: func.func @main
// CHECK: key = "a"
// CHECK: key = "b"
func.func @main() -> (!graph.tensor<[32], f32>, !graph.tensor<[32], f32>) {
  %a = graph.constant {key = "a", shape = #graph.shape<[32]>, element = f32} : () -> !graph.tensor<[32], f32>
  %b = graph.constant {key = "b", shape = #graph.shape<[32]>, element = f32} : () -> !graph.tensor<[32], f32>
  func.return %a, %b : !graph.tensor<[32], f32>, !graph.tensor<[32], f32>
}
