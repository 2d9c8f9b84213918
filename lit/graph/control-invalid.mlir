// RUN: weft-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: graph.if requires a bool of rank 0 as condition, got [1] i1
func.func @main(%c: !graph.tensor<[1], i1>, %x: !graph.tensor<[n], f32>) {
  %y = graph.if %c : (!graph.tensor<[1], i1>) -> !graph.tensor<[n], f32> {
    graph.yield %x : !graph.tensor<[n], f32>
  } else {
    graph.yield %x : !graph.tensor<[n], f32>
  }
  func.return
}

// -----

// CHECK: graph.if requires a name in sizes for each dim that differs, got None
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>) {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
    graph.yield %x : !graph.tensor<[n], f32>
  } else {
    graph.yield %z : !graph.tensor<[m], f32>
  }
  func.return
}

// -----

// CHECK: control flow requires a value of type [n] f32, got [2 * n] f32
func.func @main(%x: !graph.tensor<[n], f32>) {
  %y = graph.for %x {count = #graph.shape<[3]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.concat %p, %p {axis = 0 : i64} : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[2 * n], f32>
    graph.yield %q : !graph.tensor<[2 * n], f32>
  }
  func.return
}

// -----

// What is stacked has one shape in all iterations.
// CHECK: graph.for requires stacked values of one shape in all iterations, got ['i']
func.func @main(%x: !graph.tensor<[1], f32>) {
  %y = graph.for {count = #graph.shape<[3]>, index = "i"} : () -> !graph.tensor<[3, i], f32> {
    %q = graph.expand %x {shape = #graph.shape<[i]>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[i], f32>
    graph.yield %q : !graph.tensor<[i], f32>
  }
  func.return
}

// -----

// CHECK: graph.bind_sizes requires 2 names, got 1
func.func @main(%x: !graph.tensor<[2], i64>) {
  graph.bind_sizes %x {sizes = ["n"]} : !graph.tensor<[2], i64>
  func.return
}

// -----

// CHECK: graph.checkpoint requires results of sizes that are known around it
func.func @main(%k: !graph.tensor<[], i64>, %x: !graph.tensor<[], f32>) {
  %y = graph.checkpoint : () -> !graph.tensor<[m], f32> {
    graph.bind_sizes %k {sizes = ["m"]} : !graph.tensor<[], i64>
    %e = graph.expand %x {shape = #graph.shape<[m]>} : (!graph.tensor<[], f32>) -> !graph.tensor<[m], f32>
    graph.yield %e : !graph.tensor<[m], f32>
  }
  func.return
}

// -----

// CHECK: graph.custom_vjp requires a derivative of ([n] f32), got ([] f32)
func.func @main(%x: !graph.tensor<[n], f32>) {
  %y = graph.custom_vjp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%a: !graph.tensor<[n], f32>):
    graph.yield %a : !graph.tensor<[n], f32>
  } vjp {
  ^derivative(%d: !graph.tensor<[], f32>):
    graph.yield %x : !graph.tensor<[n], f32>
  }
  func.return
}
