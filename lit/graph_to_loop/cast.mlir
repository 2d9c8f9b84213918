// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Floats of at most 8 bits go through f32, integers of 4 bits through 8.
// CHECK-LABEL: loop.kernel @cast_
// CHECK: %[[X:[a-z_0-9]+]] = loop.load %a0[%i] : !loop.buffer<[n0], f8E4M3FN>
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = arith.extf %[[X]] : f8E4M3FN to f32
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = arith.fptosi %[[W]] : f32 to i4
// CHECK-NEXT: loop.store %[[Y]], %a1[%i] : !loop.buffer<[n0], i4>
func.func @main(%x: !graph.tensor<[n], f8E4M3FN>) -> !graph.tensor<[n], i4> {
  %y = graph.cast %x {to = i4} : (!graph.tensor<[n], f8E4M3FN>) -> !graph.tensor<[n], i4>
  func.return %y : !graph.tensor<[n], i4>
}

// -----

// An unsigned integer of 4 bits keeps its value, which is no sign.
// CHECK-LABEL: loop.kernel @cast_
// CHECK: arith.extui %{{.*}} : i4 to i8
// CHECK-NEXT: arith.uitofp %{{.*}} : i8 to f32
func.func @main(%x: !graph.tensor<[n], ui4>) -> !graph.tensor<[n], f32> {
  %y = graph.cast %x {to = f32} : (!graph.tensor<[n], ui4>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// What is only moved is not rounded: its bits are stored as they were loaded.
// CHECK-LABEL: loop.kernel @transpose_
// CHECK: %[[X:[a-z_0-9]+]] = loop.load %a0[%{{[a-z]}}, %{{[a-z]}}]
// CHECK-NOT: arith.truncf
// CHECK: loop.store %[[X]], %a1
func.func @main(%x: !graph.tensor<[n, 4], f16>) -> !graph.tensor<[4, n], f16> {
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[n, 4], f16>) -> !graph.tensor<[4, n], f16>
  func.return %y : !graph.tensor<[4, n], f16>
}

// -----

// Bits are taken from the stored form, not from what they are computed in.
// CHECK-LABEL: loop.kernel @bitcast_
// CHECK: %[[X:[a-z_0-9]+]] = loop.load %a0[%i] : !loop.buffer<[n0], f16>
// CHECK: %[[Y:[a-z_0-9]+]] = arith.bitcast %[[X]] : f16 to i16
// CHECK-NEXT: loop.store %[[Y]], %a1[%i] : !loop.buffer<[n0], i16>
func.func @main(%x: !graph.tensor<[n], f16>) -> !graph.tensor<[n], i16> {
  %y = graph.bitcast %x {to = i16} : (!graph.tensor<[n], f16>) -> !graph.tensor<[n], i16>
  func.return %y : !graph.tensor<[n], i16>
}
