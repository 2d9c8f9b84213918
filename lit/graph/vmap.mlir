// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-vmap{size=b} | filecheck %s
// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-vmap{size=b batched=1}' | filecheck %s --check-prefix=SECOND

// A product of a matrix and a vector each is one of matrices; what is the same for all samples is computed once, and a product with it is one of two matrices.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%w: !graph.tensor<[b, 4, 3], f32>, %x: !graph.tensor<[b, 3], f32>)
// CHECK: %[[COLUMNS:.*]] = graph.reshape %x {shape = #graph.shape<[b, 3, 1]>}
// CHECK-NEXT: graph.matmul %w, %[[COLUMNS]]
// SECOND-LABEL: func.func @main
// SECOND-SAME: (%w: !graph.tensor<[4, 3], f32>, %x: !graph.tensor<[b, 3], f32>)
// SECOND: %[[COLUMNS:.*]] = graph.transpose %w
// SECOND-NEXT: graph.matmul %x, %[[COLUMNS]]
// SECOND-NEXT: %s = graph.reduce_sum %w {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 3], f32>)
// SECOND: %[[ALIKE:.*]] = graph.expand %s {shape = #graph.shape<[b, 4]>}
// SECOND: func.return %{{.*}}, %[[ALIKE]]
func.func @main(%w: !graph.tensor<[4, 3], f32>, %x: !graph.tensor<[3], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %y = graph.matmul %w, %x : (!graph.tensor<[4, 3], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[4], f32>
  %s = graph.reduce_sum %w {axes = array<i64: 1>, keepdims = false} : (!graph.tensor<[4, 3], f32>) -> !graph.tensor<[4], f32>
  %z = graph.add %y, %s : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %z, %s : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// A condition that differs from sample to sample chooses between the results of both branches.
// CHECK-LABEL: func.func @main
// CHECK: %[[EXP:.*]] = graph.exp %x
// CHECK-NEXT: %[[HELD:.*]] = graph.reshape %c {shape = #graph.shape<[b, 1]>}
// CHECK-NEXT: graph.where %[[HELD]], %[[EXP]], %x
func.func @main(%x: !graph.tensor<[3], f32>, %c: !graph.tensor<[], i1>) -> !graph.tensor<[3], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[3], f32> {
    %e = graph.exp %x : (!graph.tensor<[3], f32>) -> !graph.tensor<[3], f32>
    graph.yield %e : !graph.tensor<[3], f32>
  } else {
    graph.yield %x : !graph.tensor<[3], f32>
  }
  func.return %y : !graph.tensor<[3], f32>
}

// -----

// A loop goes on until the condition holds of no sample; the state of one that has ended stays.
// CHECK-LABEL: func.func @main
// CHECK: %[[FIRST:.*]] = graph.less %x, %limit
// CHECK-NEXT: graph.while %[[FIRST]], %x
// CHECK-NEXT: (%[[ACTIVE:.*]]: !graph.tensor<[b], i1>,
// CHECK-NEXT: %[[ONES:.*]] = graph.cast %[[ACTIVE]] {to = i64}
// CHECK-NEXT: graph.reduce_sum %[[ONES]]
// CHECK: } do {
// CHECK-NEXT: (%[[GOES:.*]]: !graph.tensor<[b], i1>, %[[OLD:.*]]: !graph.tensor<[b], f32>):
// CHECK-NEXT: %[[NEW:.*]] = graph.add %[[OLD]], %[[OLD]]
// CHECK-NEXT: %[[STATE:.*]] = graph.where %[[GOES]], %[[NEW]], %[[OLD]]
// CHECK-NEXT: %[[HOLDS:.*]] = graph.less %[[STATE]], %limit
// CHECK-NEXT: %[[NEXT:.*]] = graph.logical_and %[[GOES]], %[[HOLDS]]
// CHECK-NEXT: graph.yield %[[NEXT]], %[[STATE]] :
func.func @main(%x: !graph.tensor<[], f32>, %limit: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  %y = graph.while %x {index = "i", count = "n"} : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  ^condition(%a: !graph.tensor<[], f32>):
    %less = graph.less %a, %limit : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], i1>
    graph.condition %less : !graph.tensor<[], i1>
  } do {
  ^body(%b: !graph.tensor<[], f32>):
    %next = graph.add %b, %b : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %next : !graph.tensor<[], f32>
  }
  func.return %y : !graph.tensor<[], f32>
}

// -----

// An operator without the facet is computed for one sample after the other.
// CHECK-LABEL: func.func @main
// CHECK: graph.for {count = #graph.shape<[b]>, index = "sample_0"}
// CHECK-NEXT: graph.slice %x {sizes = #graph.shape<[1, 2, 3]>, starts = #graph.shape<[sample_0, 0, 0]>
// CHECK: graph.reverse_sequence
func.func @main(%x: !graph.tensor<[2, 3], f32>, %l: !graph.tensor<[2], i64>) -> !graph.tensor<[2, 3], f32> {
  %y = graph.reverse_sequence %x, %l {batch_axis = 0, time_axis = 1} : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[2, 3], f32>
  func.return %y : !graph.tensor<[2, 3], f32>
}

// -----

// CHECK: vmap requires sizes that are the same for all samples, got graph.bind_sizes
func.func @main(%n: !graph.tensor<[], i64>) {
  graph.bind_sizes %n {sizes = ["k"]} : !graph.tensor<[], i64>
  func.return
}

// -----

// CHECK: vmap requires operators that compute, got graph.print
func.func @main(%x: !graph.tensor<[], f32>) {
  graph.print "{}" (%x) : !graph.tensor<[], f32>
  func.return
}

// -----

// CHECK: vmap requires loops that end apart to stack nothing and to keep their sizes (differentiate the function that vmap gave), got graph.while
func.func @main(%x: !graph.tensor<[], f32>, %limit: !graph.tensor<[], f32>) -> !graph.tensor<[n], f32> {
  %y, %all = graph.while %x {index = "i", count = "n"} : (!graph.tensor<[], f32>) -> (!graph.tensor<[], f32>, !graph.tensor<[n], f32>) {
  ^condition(%a: !graph.tensor<[], f32>):
    %less = graph.less %a, %limit : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], i1>
    graph.condition %less : !graph.tensor<[], i1>
  } do {
  ^body(%b: !graph.tensor<[], f32>):
    %next = graph.add %b, %b : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
    graph.yield %next, %b : !graph.tensor<[], f32>, !graph.tensor<[], f32>
  }
  func.return %all : !graph.tensor<[n], f32>
}
