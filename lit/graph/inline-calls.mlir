// RUN: weft-opt %s --split-input-file -p weft-inline-calls | filecheck %s
// RUN: weft-opt %s --split-input-file -p weft-inline-calls{most_operators=1} | filecheck %s --check-prefix=LARGE

// Sizes of the function are those of each call; functions that nobody calls any more go.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[P:[a-z]+]] = graph.relu %x : (!graph.tensor<[n], f32>)
// CHECK-NEXT: %[[Q:[a-z]+]] = graph.exp %[[P]] : (!graph.tensor<[n], f32>)
// CHECK-NEXT: %[[R:[a-z0-9_]+]] = graph.relu %y : (!graph.tensor<[3 * n], f32>)
// CHECK-NEXT: %[[S:[a-z]+]] = graph.exp %[[R]] : (!graph.tensor<[3 * n], f32>)
// CHECK-NEXT: func.return %[[Q]], %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: }

// A larger function that is called twice may stay.
// LARGE-LABEL: func.func @main
// LARGE-NEXT: %[[A:[a-z]+]] = graph.call @both(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
// LARGE-NEXT: %[[B:[a-z]+]] = graph.call @both(%y) : (!graph.tensor<[3 * n], f32>) -> !graph.tensor<[3 * n], f32>
// LARGE-NEXT: func.return %[[A]], %[[B]]
// LARGE: func.func @both
// LARGE-NEXT: %{{.*}} = graph.relu
// LARGE-NEXT: %{{.*}} = graph.exp
// LARGE-NEXT: func.return
// LARGE-NEXT: }
// LARGE-NEXT: }
func.func @main(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[3 * n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[3 * n], f32>) {
  %a = graph.call @both(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %b = graph.call @both(%y) : (!graph.tensor<[3 * n], f32>) -> !graph.tensor<[3 * n], f32>
  func.return %a, %b : !graph.tensor<[n], f32>, !graph.tensor<[3 * n], f32>
}
func.func @both(%v: !graph.tensor<[m], f32>) -> !graph.tensor<[m], f32> {
  %r = graph.call @rectified(%v) : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  %e = graph.exp %r : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  func.return %e : !graph.tensor<[m], f32>
}
func.func @rectified(%v: !graph.tensor<[k], f32>) -> !graph.tensor<[k], f32> {
  %r = graph.relu %v : (!graph.tensor<[k], f32>) -> !graph.tensor<[k], f32>
  func.return %r : !graph.tensor<[k], f32>
}

// -----

// Sizes that a function finds are others in every call.
// CHECK-LABEL: func.func @main
// CHECK: graph.bind_sizes %{{.*}} {sizes = ["main_count_0_c"]}
// CHECK: graph.bind_sizes %{{.*}} {sizes = ["main_count_1_c"]}
// CHECK: graph.slice %{{.*}} sizes = #graph.shape<[main_count_1_c]>
func.func @main(%x: !graph.tensor<[9], f32>, %n: !graph.tensor<[], i64>) -> (!graph.tensor<[], f32>, !graph.tensor<[], f32>) {
  %a = graph.call @count(%x, %n) : (!graph.tensor<[9], f32>, !graph.tensor<[], i64>) -> !graph.tensor<[], f32>
  %b = graph.call @count(%x, %n) : (!graph.tensor<[9], f32>, !graph.tensor<[], i64>) -> !graph.tensor<[], f32>
  func.return %a, %b : !graph.tensor<[], f32>, !graph.tensor<[], f32>
}
func.func @count(%x: !graph.tensor<[9], f32>, %n: !graph.tensor<[], i64>) -> !graph.tensor<[], f32> {
  graph.bind_sizes %n {sizes = ["c"]} : !graph.tensor<[], i64>
  %s = graph.slice %x {starts = #graph.shape<[0]>, sizes = #graph.shape<[c]>, steps = array<i64: 1>} : (!graph.tensor<[9], f32>) -> !graph.tensor<[c], f32>
  %y = graph.reduce_sum %s {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[c], f32>) -> !graph.tensor<[], f32>
  func.return %y : !graph.tensor<[], f32>
}
