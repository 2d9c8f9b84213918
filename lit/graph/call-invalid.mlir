// RUN: weft-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: graph.call requires a function of its module, got @other
func.func @main(%x: !graph.tensor<[n], f32>) {
  %y = graph.call @other(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return
}

// -----

// CHECK: graph.call requires operands [k] f32, [k] f32 for @other, got [n] f32, [m] f32
func.func @main(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[m], f32>) {
  %z = graph.call @other(%x, %y) : (!graph.tensor<[n], f32>, !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32>
  func.return
}
func.func @other(%x: !graph.tensor<[k], f32>, %y: !graph.tensor<[k], f32>) -> !graph.tensor<[k], f32> {
  func.return %x : !graph.tensor<[k], f32>
}

// -----

// CHECK: graph.call requires results [n] f32, got [3] f32
func.func @main(%x: !graph.tensor<[n], f32>) {
  %z = graph.call @other(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[3], f32>
  func.return
}
func.func @other(%x: !graph.tensor<[k], f32>) -> !graph.tensor<[k], f32> {
  func.return %x : !graph.tensor<[k], f32>
}

// -----

// CHECK: graph.call requires results whose sizes the operands decide, got c of @count
func.func @main(%x: !graph.tensor<[9], f32>, %n: !graph.tensor<[], i64>) {
  %a = graph.call @count(%x, %n) : (!graph.tensor<[9], f32>, !graph.tensor<[], i64>) -> !graph.tensor<[c], f32>
  func.return
}
func.func @count(%x: !graph.tensor<[9], f32>, %n: !graph.tensor<[], i64>) -> !graph.tensor<[c], f32> {
  graph.bind_sizes %n {sizes = ["c"]} : !graph.tensor<[], i64>
  %s = graph.slice %x {starts = #graph.shape<[0]>, sizes = #graph.shape<[c]>, steps = array<i64: 1>} : (!graph.tensor<[9], f32>) -> !graph.tensor<[c], f32>
  func.return %s : !graph.tensor<[c], f32>
}
