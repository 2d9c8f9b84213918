// RUN: weft-opt %s --split-input-file -p weft-fuse,weft-graph-to-loop | filecheck %s

// Both ends of each string are moved into the bytes.
// CHECK-LABEL: loop.kernel @hash_strings
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n
// CHECK: loop.load %a0[%[[I]]]
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: loop.load %a1[%[[I]]]
// CHECK: loop.for %[[J:[a-z_0-9]+]] = 0 to %{{.*}} {
// CHECK-NEXT: loop.load %a2[%{{.*}}]
// CHECK: arith.xori
// CHECK: arith.muli
// CHECK: loop.store %{{.*}}, %a3[%[[I]]]
func.func @main(%starts: !graph.tensor<[n], i64>, %ends: !graph.tensor<[n], i64>, %data: !graph.tensor<[m], ui8>) -> !graph.tensor<[n], i64> {
  %y = graph.hash_strings %starts, %ends, %data {seed = 3 : i64} : (!graph.tensor<[n], i64>, !graph.tensor<[n], i64>, !graph.tensor<[m], ui8>) -> !graph.tensor<[n], i64>
  func.return %y : !graph.tensor<[n], i64>
}

// -----

// Bytes are compared where two strings have the same number of them.
// CHECK-LABEL: loop.kernel @equal_strings
// CHECK: loop.load %a0[%[[I:[a-z_0-9]+]]]
// CHECK: loop.load %a3[%[[I]]]
// CHECK: %[[SAME:[0-9]+]] = arith.cmpi eq
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK: arith.cmpi eq
// CHECK: arith.andi
// CHECK: loop.store %{{.*}}, %a6[%[[I]]]
func.func @main(%s: !graph.tensor<[n], i64>, %e: !graph.tensor<[n], i64>, %d: !graph.tensor<[m], ui8>, %s2: !graph.tensor<[n], i64>, %e2: !graph.tensor<[n], i64>, %d2: !graph.tensor<[9], ui8>) -> !graph.tensor<[n], i1> {
  %y = graph.equal_strings %s, %e, %d, %s2, %e2, %d2 : (!graph.tensor<[n], i64>, !graph.tensor<[n], i64>, !graph.tensor<[m], ui8>, !graph.tensor<[n], i64>, !graph.tensor<[n], i64>, !graph.tensor<[9], ui8>) -> !graph.tensor<[n], i1>
  func.return %y : !graph.tensor<[n], i1>
}

// -----

// All bytes are cleared, and no string is longer than the room up to its target.
// CHECK-LABEL: loop.kernel @copy_strings
// CHECK: loop.for %[[K:[a-z_0-9]+]] = 0 to n2
// CHECK-NEXT: arith.constant 0
// CHECK-NEXT: loop.store %{{.*}}, %a4[%[[K]]]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0
// CHECK: loop.load %a3[%[[I]]]
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK-NEXT: %[[BYTE:[0-9]+]] = loop.load %a2[
// CHECK: loop.store %[[BYTE]], %a4[
func.func @main(%s: !graph.tensor<[n], i64>, %e: !graph.tensor<[n], i64>, %d: !graph.tensor<[m], ui8>, %t: !graph.tensor<[n], i64>, %z: !graph.tensor<[k], ui8>) -> !graph.tensor<[k], ui8> {
  %y = graph.copy_strings %s, %e, %d, %t {size = #graph.shape<[k]>} : (!graph.tensor<[n], i64>, !graph.tensor<[n], i64>, !graph.tensor<[m], ui8>, !graph.tensor<[n], i64>) -> !graph.tensor<[k], ui8>
  func.return %y : !graph.tensor<[k], ui8>
}

// -----

// A state that is none stays one.
// CHECK-LABEL: loop.kernel @match_strings
// CHECK: loop.for %{{.*}} = 0 to %{{.*}} {
// CHECK: loop.load %a3[
// CHECK: arith.select
// CHECK: loop.load %a4[
func.func @main(%s: !graph.tensor<[n], i64>, %e: !graph.tensor<[n], i64>, %d: !graph.tensor<[m], ui8>, %t: !graph.tensor<[3, 256], i32>, %a: !graph.tensor<[3], i1>) -> !graph.tensor<[n], i1> {
  %y = graph.match_strings %s, %e, %d, %t, %a : (!graph.tensor<[n], i64>, !graph.tensor<[n], i64>, !graph.tensor<[m], ui8>, !graph.tensor<[3, 256], i32>, !graph.tensor<[3], i1>) -> !graph.tensor<[n], i1>
  func.return %y : !graph.tensor<[n], i1>
}
