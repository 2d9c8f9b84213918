// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop | filecheck %s

// Each string is read from where the one before ends; both ends are moved into the bytes.
// CHECK-LABEL: loop.kernel @hash_strings
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n
// CHECK: loop.load %a0[%[[I]]]
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: loop.load %a0[max(0, %[[I]] - 1)]
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to %{{.*}} {
// CHECK-NEXT: loop.load %a1[%{{.*}}]
// CHECK: arith.xori
// CHECK: arith.muli
// CHECK: loop.store %{{.*}}, %a2[%[[I]]]
func.func @main(%ends: !graph.tensor<[n], i64>, %data: !graph.tensor<[m], ui8>) -> !graph.tensor<[n], i64> {
  %y = graph.hash_strings %ends, %data {seed = 3 : i64} : (!graph.tensor<[n], i64>, !graph.tensor<[m], ui8>) -> !graph.tensor<[n], i64>
  func.return %y : !graph.tensor<[n], i64>
}

// -----

// Bytes are compared where two strings have the same number of them.
// CHECK-LABEL: loop.kernel @equal_strings
// CHECK: loop.load %a4[%[[I:[a-z_0-9]+]]]
// CHECK: loop.load %a2[
// CHECK: %[[SAME:[0-9]+]] = arith.cmpi eq
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK: arith.cmpi eq
// CHECK: arith.andi
// CHECK: loop.store %{{.*}}, %a5[%[[I]]]
func.func @main(%ends: !graph.tensor<[n], i64>, %data: !graph.tensor<[m], ui8>, %e: !graph.tensor<[3], i64>, %d: !graph.tensor<[9], ui8>, %i: !graph.tensor<[n], i64>) -> !graph.tensor<[n], i1> {
  %y = graph.equal_strings %ends, %data, %e, %d, %i : (!graph.tensor<[n], i64>, !graph.tensor<[m], ui8>, !graph.tensor<[3], i64>, !graph.tensor<[9], ui8>, !graph.tensor<[n], i64>) -> !graph.tensor<[n], i1>
  func.return %y : !graph.tensor<[n], i1>
}
