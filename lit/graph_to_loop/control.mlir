// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Both branches fill the buffer of the result; what is only handed on is copied.
// CHECK-LABEL: loop.program @main[n]
// CHECK-NEXT: %[[C:[0-9]+]] = loop.load %c[]
// CHECK-NEXT: loop.if %[[C]] {
// CHECK-NEXT: loop.call @exp_{{[0-9a-f]+}}[n](%x, %y)
// CHECK-NEXT: } else {
// CHECK-NEXT: loop.copy %x, %y
// CHECK-NEXT: }
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
    %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %e : !graph.tensor<[n], f32>
  } else {
    graph.yield %x : !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Carried values that change places go by way of others; what is stacked is written in its row.
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.copy %x, %a
// CHECK: loop.copy %z, %b
// CHECK: loop.for %[[I:[0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.bind_symbol "i" = %[[I]]
// CHECK-NEXT: %[[ROW:[0-9]+]] = loop.subview %all[i]
// CHECK-NEXT: loop.call @add_{{[0-9a-f]+}}[n](%a, %b, %[[ROW]])
// CHECK-NEXT: %[[ASIDE:[0-9]+]] = loop.alloc workspace
// CHECK-NEXT: loop.copy %b, %[[ASIDE]]
// CHECK-NEXT: loop.copy %[[ASIDE]], %a
// CHECK-NEXT: loop.copy %[[ROW]], %b
func.func @main(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[4, n], f32>) {
  %a, %b, %all = graph.for %x, %z {count = #graph.shape<[4]>, index = "i"} : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[4, n], f32>) {
  ^body(%p: !graph.tensor<[n], f32>, %q: !graph.tensor<[n], f32>):
    %s = graph.add %p, %q : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q, %s, %s : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
  }
  func.return %a, %b, %all : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[4, n], f32>
}

// -----

// An output whose size the program finds is the program's to make.
// CHECK-LABEL: loop.program @main[n]
// CHECK: %[[K:[0-9]+]] = loop.load %k[]
// CHECK: %[[SIZE:[0-9]+]] = arith.index_cast %[[K]]
// CHECK: loop.bind_symbol "m" = %[[SIZE]]
// CHECK: loop.call @expand_{{[0-9a-f]+}}[n, m](%x, %[[OWN:[a-z0-9_]+]])
// CHECK-NOT: loop.copy
// CHECK: loop.transfer_ownership %[[OWN]], %y : !loop.buffer<[m, n], f32>
func.func @main(%k: !graph.tensor<[], i64>, %x: !graph.tensor<[n], f32>) -> !graph.tensor<[m, n], f32> {
  graph.bind_sizes %k {sizes = ["m"]} : !graph.tensor<[], i64>
  %y = graph.expand %x {shape = #graph.shape<[m, n]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[m, n], f32>
  func.return %y : !graph.tensor<[m, n], f32>
}

// -----

// A loop that alone reads what one around it carries changes it where that one keeps it.
// CHECK-LABEL: loop.program @main[n]
// CHECK: loop.copy %x, %y
// CHECK-NEXT: loop.for
// CHECK-NEXT: loop.bind_symbol "i"
// CHECK-NEXT: loop.for
// CHECK-NEXT: loop.bind_symbol "j"
// CHECK-NEXT: %[[NEXT:[a-z0-9_]+]] = loop.alloc workspace
// CHECK-NEXT: loop.call @exp_{{[0-9a-f]+}}[n](%y, %[[NEXT]])
// CHECK-NEXT: loop.copy %[[NEXT]], %y
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: }
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.for %x {count = #graph.shape<[4]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^outer(%p: !graph.tensor<[n], f32>):
    %q = graph.for %p {count = #graph.shape<[5]>, index = "j"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
    ^inner(%r: !graph.tensor<[n], f32>):
      %e = graph.exp %r : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
      graph.yield %e : !graph.tensor<[n], f32>
    }
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// A loop in the condition leaves what the body reads as it is.
// CHECK-LABEL: loop.program @main
// CHECK: loop.while {
// CHECK: loop.copy %y, %[[OWN:[a-z0-9_]+]]
// CHECK: loop.for
// CHECK: loop.copy %{{[a-z0-9_]+}}, %[[OWN]]
func.func @main(%x: !graph.tensor<[400], f32>, %c: !graph.tensor<[], f32>) -> !graph.tensor<[400], f32> {
  %y = graph.while %x {index = "i", count = "rounds"} : (!graph.tensor<[400], f32>) -> !graph.tensor<[400], f32> {
  ^condition(%p: !graph.tensor<[400], f32>):
    %q = graph.for %p {count = #graph.shape<[5]>, index = "j"} : (!graph.tensor<[400], f32>) -> !graph.tensor<[400], f32> {
    ^inner(%r: !graph.tensor<[400], f32>):
      %e = graph.exp %r : (!graph.tensor<[400], f32>) -> !graph.tensor<[400], f32>
      graph.yield %e : !graph.tensor<[400], f32>
    }
    %m = graph.reduce_max %q {axes = array<i64: 0>, keepdims = false} : (!graph.tensor<[400], f32>) -> !graph.tensor<[], f32>
    %h = graph.less %m, %c : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], i1>
    graph.condition %h : !graph.tensor<[], i1>
  } do {
  ^body(%p: !graph.tensor<[400], f32>):
    %n = graph.add %p, %p : (!graph.tensor<[400], f32>, !graph.tensor<[400], f32>) -> !graph.tensor<[400], f32>
    graph.yield %n : !graph.tensor<[400], f32>
  }
  func.return %y : !graph.tensor<[400], f32>
}
