// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// The next words of MT19937 lie behind its state, and take its place; the last block has fewer.
// CHECK-LABEL: loop.kernel @mersenne_twister_
// CHECK: %t = loop.alloc workspace : !loop.buffer<[1248], ui32>
// CHECK: loop.store %{{.*}}, %t[0]
// CHECK: loop.for %[[S:[a-z_0-9]+]] = 0 to 623 {
// CHECK: arith.constant 1812433253
// CHECK: loop.store %{{.*}}, %t[%[[S]] + 1]
// CHECK: loop.for %[[B:[a-z_0-9]+]] = 0 to (n0 floordiv 624) {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 208 {
// CHECK-NEXT: loop.load %t[208 * %[[I]] + %[[J]]]
// CHECK: loop.load %t[208 * %[[I]] + %[[J]] + 1]
// CHECK: loop.load %t[208 * %[[I]] + %[[J]] + 397]
// CHECK: loop.store %{{.*}}, %t[208 * %[[I]] + %[[J]] + 624]
// CHECK: loop.store %{{.*}}, %a0[624 * %[[B]] + 208 * %[[I]] + %[[J]]]
// CHECK: loop.load %t[%[[K:[a-z_0-9]+]] + 624]
// CHECK-NEXT: loop.store %{{.*}}, %t[%[[K]]]
// CHECK: loop.for %[[L:[a-z_0-9]+]] = 0 to (n0 mod 624) {
// CHECK: loop.store %{{.*}}, %a0[%[[L]] + 624 * (n0 floordiv 624)]
func.func @main(%x: !graph.tensor<[n], ui32>) -> !graph.tensor<[n], ui32> {
  %y = graph.mersenne_twister {count = #graph.shape<[n]>, seed = 5 : i64} : () -> !graph.tensor<[n], ui32>
  func.return %y : !graph.tensor<[n], ui32>
}

// -----

// Twenty rounds of Threefry are one operation, for any key of all counts.
// CHECK-LABEL: loop.kernel @threefry_
// CHECK: %[[KEY:[a-z_0-9]+]] = loop.load %a0[]
// CHECK-NEXT: %[[COUNT:[a-z_0-9]+]] = loop.load %a1[%[[I:[a-z_0-9]+]]]
// CHECK-NEXT: %[[BITS:[a-z_0-9]+]] = loop.threefry %[[KEY]], %[[COUNT]] : i64
// CHECK-NEXT: loop.store %[[BITS]], %a2[%[[I]]]
func.func @main(%key: !graph.tensor<[], ui64>, %count: !graph.tensor<[n], ui64>) -> !graph.tensor<[n], ui64> {
  %bits = graph.threefry %key, %count : (!graph.tensor<[], ui64>, !graph.tensor<[n], ui64>) -> !graph.tensor<[n], ui64>
  func.return %bits : !graph.tensor<[n], ui64>
}
