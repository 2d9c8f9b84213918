// RUN: weft-opt %s -p weft-graph-to-loop | filecheck %s

// The words of MT19937 lie behind those of its seed; each is stored before it is tempered.
// CHECK-LABEL: loop.kernel @mersenne_twister_
// CHECK: %t = loop.alloc workspace : !loop.buffer<[n0 + 624], ui32>
// CHECK: loop.store %{{.*}}, %t[0]
// CHECK: loop.for %[[S:[a-z_0-9]+]] = 0 to 623 {
// CHECK: arith.constant 1812433253
// CHECK: loop.store %{{.*}}, %t[%[[S]] + 1]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 {
// CHECK-NEXT: loop.load %t[%[[I]]]
// CHECK: loop.load %t[%[[I]] + 1]
// CHECK: loop.load %t[%[[I]] + 397]
// CHECK: loop.store %{{.*}}, %t[%[[I]] + 624]
// CHECK: loop.store %{{.*}}, %a0[%[[I]]]
func.func @main(%x: !graph.tensor<[n], ui32>) -> !graph.tensor<[n], ui32> {
  %y = graph.mersenne_twister {count = #graph.shape<[n]>, seed = 5 : i64} : () -> !graph.tensor<[n], ui32>
  func.return %y : !graph.tensor<[n], ui32>
}
