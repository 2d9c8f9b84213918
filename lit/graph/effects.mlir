// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-fold-constants,weft-cse-dce | filecheck %s

// What prints or requires something stays, each time and in its order, with the control flow around it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.print "start\0A"
// CHECK-NEXT: %e = graph.exp %x
// CHECK-NEXT: graph.print "{} and {float:.2f}\0A"(%e, %k) : !graph.tensor<[n], f32>, !graph.tensor<[], f64>
// CHECK-NEXT: graph.print "{} and {float:.2f}\0A"(%e, %k)
// CHECK-NEXT: graph.if %c
// CHECK-NEXT: graph.assert %c "assert requires c, got {}"(%k) : !graph.tensor<[], i1>, !graph.tensor<[], f64>
// CHECK: graph.for
// CHECK: graph.print "start\0A"
// CHECK: func.return %x
func.func @main(%x: !graph.tensor<[n], f32>, %k: !graph.tensor<[], f64>, %c: !graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
  graph.print "start\0A"
  %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  graph.print "{} and {float:.2f}\0A"(%e, %k) : !graph.tensor<[n], f32>, !graph.tensor<[], f64>
  %f = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  graph.print "{} and {float:.2f}\0A"(%f, %k) : !graph.tensor<[n], f32>, !graph.tensor<[], f64>
  graph.if %c : (!graph.tensor<[], i1>) -> () {
    graph.assert %c "assert requires c, got {}"(%k) : !graph.tensor<[], i1>, !graph.tensor<[], f64>
    graph.yield :
  } else {
    graph.yield :
  }
  graph.for {count = #graph.shape<[n]>, index = "i"} : () -> () {
    graph.print "start\0A"
    graph.yield :
  }
  func.return %x : !graph.tensor<[n], f32>
}

// -----

// Control flow that does neither and gives nothing goes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: func.return %x
func.func @main(%x: !graph.tensor<[n], f32>, %c: !graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
  graph.if %c : (!graph.tensor<[], i1>) -> () {
    graph.yield :
  } else {
    graph.yield :
  }
  func.return %x : !graph.tensor<[n], f32>
}

// -----

// CHECK: graph.print requires a value for each place, got 1 for 2
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  graph.print "{} {} {{}}"(%x) : !graph.tensor<[n], f32>
  func.return %x : !graph.tensor<[n], f32>
}

// -----

// CHECK: graph.assert requires one bool, got [n] i1
func.func @main(%c: !graph.tensor<[n], i1>) -> !graph.tensor<[n], i1> {
  graph.assert %c "all" : !graph.tensor<[n], i1>
  func.return %c : !graph.tensor<[n], i1>
}

// -----

// CHECK: graph.assert shows one i64 or f64, got [] f32
func.func @main(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  graph.assert %c "{}"(%x) : !graph.tensor<[], i1>, !graph.tensor<[], f32>
  func.return %x : !graph.tensor<[], f32>
}

// -----

// A function of the host is called each time, whether its result is used or not.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %y = graph.host_call "f"(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[2], i32>
// CHECK-NEXT: %z = graph.host_call "f"(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[2], i32>
// CHECK-NEXT: graph.host_call "g"() : () -> ()
// CHECK-NEXT: func.return %z
func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[2], i32> {
  %y = graph.host_call "f"(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[2], i32>
  %z = graph.host_call "f"(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[2], i32>
  graph.host_call "g"() : () -> ()
  func.return %z : !graph.tensor<[2], i32>
}

// -----

// A native function is pure: of what nobody reads, nothing is called.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %y, %{{[a-z0-9_]+}} = graph.native_call "f(float32[n, 2]) -> (float32[2 * n], int64[])"(%x) code "f0VM" : (!graph.tensor<[k, 2], f32>) -> (!graph.tensor<[2 * k], f32>, !graph.tensor<[], i64>)
// CHECK-NEXT: func.return %y
func.func @main(%x: !graph.tensor<[k, 2], f32>) -> !graph.tensor<[2 * k], f32> {
  %y:2 = graph.native_call "f(float32[n, 2]) -> (float32[2 * n], int64[])"(%x) code "f0VM" : (!graph.tensor<[k, 2], f32>) -> (!graph.tensor<[2 * k], f32>, !graph.tensor<[], i64>)
  %z = graph.native_call "g(float32[n, m]) -> float32[m]"(%x) code 4096 : i64 : (!graph.tensor<[k, 2], f32>) -> !graph.tensor<[2], f32>
  func.return %y#0 : !graph.tensor<[2 * k], f32>
}

// -----

// CHECK: graph.native_call requires operand 0 of f to be [n] f32, got [k] f64
func.func @main(%x: !graph.tensor<[k], f64>) -> !graph.tensor<[k], f32> {
  %y = graph.native_call "f(float32[n]) -> float32[n]"(%x) code "f0VM" : (!graph.tensor<[k], f64>) -> !graph.tensor<[k], f32>
  func.return %y : !graph.tensor<[k], f32>
}

// -----

// CHECK: graph.native_call requires f's sizes as declared, got k + 1 and k
func.func @main(%x: !graph.tensor<[k, k + 1], f32>) -> !graph.tensor<[k], f32> {
  %y = graph.native_call "f(float32[n, n]) -> float32[n]"(%x) code "f0VM" : (!graph.tensor<[k, k + 1], f32>) -> !graph.tensor<[k], f32>
  func.return %y : !graph.tensor<[k], f32>
}

// -----

// CHECK: graph.native_call requires results [2 * k] f32, got [k] f32
func.func @main(%x: !graph.tensor<[k], f32>) -> !graph.tensor<[k], f32> {
  %y = graph.native_call "f(float32[n]) -> float32[2 * n]"(%x) code "f0VM" : (!graph.tensor<[k], f32>) -> !graph.tensor<[k], f32>
  func.return %y : !graph.tensor<[k], f32>
}
