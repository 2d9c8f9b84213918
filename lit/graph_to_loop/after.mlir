// RUN: weft-opt %s --split-input-file -p weft-fold-constants,weft-rewrite,weft-cse-dce,weft-fuse,weft-schedule-memory,weft-graph-to-loop | filecheck %s

// What a value waits for is computed before what reads the value, although nothing reads it itself; no kernel has both.
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @[[EXP:exp[a-z0-9_]*]](%x, %[[Z:.*]])
// CHECK-NEXT: {{.*}}loop.alloc
// CHECK-NEXT: loop.call @after_{{[0-9a-f]*}}(%x, %[[Z]], %[[X:.*]])
// CHECK-NEXT: loop.call @relu{{[a-z0-9_]*}}(%[[X]], %
func.func @main(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> {
  %z = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %a = graph.after %x, %z : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %y = graph.relu %a : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  func.return %y : !graph.tensor<[8], f32>
}

// -----

// What waits for nothing is the value itself, and what nobody reads waits for nothing.
// CHECK-LABEL: loop.program @main
// CHECK-NOT: @after
// CHECK-NOT: @exp
// CHECK: loop.call @relu{{[a-z0-9_]*}}(%x, %
func.func @main(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> {
  %z = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %unread = graph.after %x, %z : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %a = graph.after %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %y = graph.relu %a : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  func.return %y : !graph.tensor<[8], f32>
}
