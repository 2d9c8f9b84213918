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
