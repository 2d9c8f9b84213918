// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// A slice is an index map, with a negative step too.
// CHECK-LABEL: loop.kernel @slice_
// CHECK: loop.for %i = 0 to n0 {
// CHECK-NEXT: loop.for %j = 0 to 3 {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%i, -2 * %j + 6]
// CHECK-NEXT: loop.store %[[X]], %a1[%i, %j]
func.func @main(%x: !graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 3], f32> {
  %y = graph.slice %x {starts = #graph.shape<[0, 6]>, sizes = #graph.shape<[n, 3]>, steps = array<i64: 1, -2>} : (!graph.tensor<[n, 8], f32>) -> !graph.tensor<[n, 3], f32>
  func.return %y : !graph.tensor<[n, 3], f32>
}

// -----

// A concatenation is a nest for each operand.
// CHECK-LABEL: loop.kernel @concat_
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[I]]]
// CHECK-NEXT: loop.store %[[X]], %a2[%[[I]]]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a1[%[[I]]]
// CHECK-NEXT: loop.store %[[X]], %a2[%[[I]] + n0]
func.func @main(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[3], f32>) -> !graph.tensor<[n + 3], f32> {
  %z = graph.concat %x, %y {axis = 0 : i64} : (!graph.tensor<[n], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[n + 3], f32>
  func.return %z : !graph.tensor<[n + 3], f32>
}

// -----

// Padding fills, then copies what is not cropped: no bounds are checked inside.
// CHECK-LABEL: loop.kernel @pad_
// CHECK: loop.for %{{.*}} = 0 to 5 {
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 3 {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%[[I]]]
// CHECK-NEXT: loop.store %[[X]], %a1[%[[I]] + 2]
// CHECK-NOT: loop.if
func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[5], f32> {
  %y = graph.pad %x {pads = #graph.shape<[2, -1]>, mode = "constant"} : (!graph.tensor<[4], f32>) -> !graph.tensor<[5], f32>
  func.return %y : !graph.tensor<[5], f32>
}

// -----

// Reflection is an index map.
// CHECK-LABEL: loop.kernel @pad_
// CHECK: loop.for %i = 0 to 6 {
// CHECK-NEXT: loop.load %a0[min(((%i + 5) mod 6), -((%i + 5) mod 6) + 6)]
func.func @main(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[6], f32> {
  %y = graph.pad %x {pads = #graph.shape<[1, 1]>, mode = "reflect"} : (!graph.tensor<[4], f32>) -> !graph.tensor<[6], f32>
  func.return %y : !graph.tensor<[6], f32>
}

// -----

// A running sum carries one total for each line.
// CHECK-LABEL: loop.kernel @cumsum_
// CHECK: %total = loop.alloc workspace : !loop.buffer<[1, 2], f32>
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = loop.load %total[0, %[[J]]]
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[-%[[I]] + n0 - 1, %[[J]]]
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = arith.addf %[[T]], %[[X]] : f32
// CHECK-NEXT: loop.store %[[S]], %total[0, %[[J]]]
// CHECK-NEXT: loop.store %[[S]], %a1[-%[[I]] + n0 - 1, %[[J]]]
func.func @main(%x: !graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 2], f32> {
  %y = graph.cumsum %x {axis = 0 : i64, exclusive = false, reverse = true} : (!graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 2], f32>
  func.return %y : !graph.tensor<[n, 2], f32>
}

// -----

// Dims that the program finds hold as many elements as the operand, which is checked where they are known.
// CHECK-LABEL: loop.kernel @dynamic_reshape_
// CHECK-LABEL: loop.program @main
// CHECK: loop.bind_symbol "a" = %{{[0-9]+}}
// CHECK: loop.bind_symbol "b" = %{{[0-9]+}}
// CHECK: loop.require_equal [6 * n, a * b]
func.func @main(%x: !graph.tensor<[n, 6], f32>, %s: !graph.tensor<[2], i64>) -> !graph.tensor<[a, b], f32> {
  graph.bind_sizes %s {sizes = ["a", "b"]} : !graph.tensor<[2], i64>
  %y = graph.dynamic_reshape %x {shape = #graph.shape<[a, b]>} : (!graph.tensor<[n, 6], f32>) -> !graph.tensor<[a, b], f32>
  func.return %y : !graph.tensor<[a, b], f32>
}

// -----

// What is assumed of the inputs' sizes is checked when a call starts, and costs nothing then: the plainest of dims is the result's.
// CHECK-LABEL: loop.kernel @concat_
// CHECK-LABEL: loop.program @main
// CHECK-SAME: equal_sizes = [#loop.exprs<[2 * (m floordiv 2), n]>]
// CHECK-NOT: loop.require_equal
func.func @main(%x: !graph.tensor<[m, 2], f32>, %z: !graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 4], f32> {
  %a = graph.slice %x {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[2 * (m floordiv 2), 2]>, steps = array<i64: 1, 1>} : (!graph.tensor<[m, 2], f32>) -> !graph.tensor<[2 * (m floordiv 2), 2], f32>
  %y = graph.concat %a, %z {axis = 1 : i64} : (!graph.tensor<[2 * (m floordiv 2), 2], f32>, !graph.tensor<[n, 2], f32>) -> !graph.tensor<[n, 4], f32>
  func.return %y : !graph.tensor<[n, 4], f32>
}

// -----

// Only what lies around the box is copied: the rows above and below, and the columns beside it.
// CHECK-LABEL: loop.kernel @insert_slice_
// CHECK: loop.load %a0[0, %{{[a-z_0-9]+}}]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to n0 - 3 {
// CHECK: loop.load %a0[%[[I]] + 3, %{{[a-z_0-9]+}}]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %{{[a-z_0-9]+}} = 0 to 3 {
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.load %a0[%[[I]] + 1, 7]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.load %a1[%[[I]], %[[J]]]
// CHECK-NEXT: loop.store %{{.*}}, %a2[%[[I]] + 1, %[[J]] + 3]
func.func @main(%x: !graph.tensor<[n, 8], f32>, %u: !graph.tensor<[2, 4], f32>) -> !graph.tensor<[n, 8], f32> {
  %y = graph.insert_slice %x, %u {starts = #graph.shape<[1, 3]>, steps = array<i64: 1, 1>} : (!graph.tensor<[n, 8], f32>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[n, 8], f32>
  func.return %y : !graph.tensor<[n, 8], f32>
}

// -----

// A reshape is indexed by the dims that become others together, whatever the sizes of the rest are.
// CHECK-LABEL: loop.kernel @expand_reshape
// CHECK: loop.load %t[(%{{[a-z_0-9]+}} floordiv 4), (%{{[a-z_0-9]+}} mod 4), %{{[a-z_0-9]+}}, %{{[a-z_0-9]+}}]
func.func @repeated(%x: !graph.tensor<[4, 1, n, 64], f32>) -> !graph.tensor<[16, n, 64], f32> {
  %y = graph.fused(%a = %x) : (!graph.tensor<[4, 1, n, 64], f32>) -> !graph.tensor<[16, n, 64], f32> {
    %b = graph.expand %a {shape = #graph.shape<[4, 4, n, 64]>} : (!graph.tensor<[4, 1, n, 64], f32>) -> !graph.tensor<[4, 4, n, 64], f32>
    %c = graph.reshape %b {shape = #graph.shape<[16, n, 64]>} : (!graph.tensor<[4, 4, n, 64], f32>) -> !graph.tensor<[16, n, 64], f32>
    graph.yield %c : !graph.tensor<[16, n, 64], f32>
  }
  func.return %y : !graph.tensor<[16, n, 64], f32>
}

// -----

// Copies of nothing have no index to divide along the axis without elements.
// CHECK-LABEL: loop.kernel @tile_
// CHECK: loop.load %a0[%i, (%j mod 4)]
func.func @none(%x: !graph.tensor<[0, 4], f32>) -> !graph.tensor<[0, 12], f32> {
  %y = graph.tile %x {repeats = #graph.shape<[2, 3]>} : (!graph.tensor<[0, 4], f32>) -> !graph.tensor<[0, 12], f32>
  func.return %y : !graph.tensor<[0, 12], f32>
}
