// RUN: weft-opt %s --split-input-file -p weft-graph-to-loop | filecheck %s

// Operands are broadcast by reading dims of 1 at 0.
// CHECK-LABEL: loop.kernel @mul_
// CHECK: loop.for %i = 0 to n0 {
// CHECK-NEXT: loop.for %j = 0 to 4 {
// CHECK-NEXT: %[[X:[a-z_0-9]+]] = loop.load %a0[%i, 0]
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = loop.load %a1[%j]
// CHECK-NEXT: %[[Z:[a-z_0-9]+]] = arith.mulf %[[X]], %[[Y]] : f32
// CHECK-NEXT: loop.store %[[Z]], %a2[%i, %j]
func.func @main(%x: !graph.tensor<[n, 1], f32>, %y: !graph.tensor<[4], f32>) -> !graph.tensor<[n, 4], f32> {
  %z = graph.mul %x, %y : (!graph.tensor<[n, 1], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[n, 4], f32>
  func.return %z : !graph.tensor<[n, 4], f32>
}

// -----

// bf16 is computed in f32 and rounded once.
// CHECK-LABEL: loop.kernel @sigmoid_
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: math.exp %{{.*}} : f32
// CHECK: %[[Q:[a-z_0-9]+]] = arith.divf %{{.*}} : f32
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = arith.truncf %[[Q]] : f32 to bf16
// CHECK-NEXT: loop.store %[[Y]], %a1[%i]
func.func @main(%x: !graph.tensor<[n], bf16>) -> !graph.tensor<[n], bf16> {
  %y = graph.sigmoid %x : (!graph.tensor<[n], bf16>) -> !graph.tensor<[n], bf16>
  func.return %y : !graph.tensor<[n], bf16>
}

// -----

// GELU is one operation, of f16 computed in f32; its approximation is a formula.
// CHECK-LABEL: loop.kernel @gelu_
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: %[[Y:[a-z_0-9]+]] = loop.gelu %{{.*}} : f32
// CHECK-NEXT: arith.truncf %[[Y]] : f32 to f16
// CHECK-LABEL: loop.kernel @gelu_
// CHECK: math.tanh
func.func @main(%x: !graph.tensor<[n], f16>) -> !graph.tensor<[n], f16> {
  %y = graph.gelu %x {approximate = "none"} : (!graph.tensor<[n], f16>) -> !graph.tensor<[n], f16>
  %z = graph.gelu %y {approximate = "tanh"} : (!graph.tensor<[n], f16>) -> !graph.tensor<[n], f16>
  func.return %z : !graph.tensor<[n], f16>
}

// -----

// An integer is never divided by zero, over which it is zero.
// CHECK-LABEL: loop.kernel @div_
// CHECK: %[[Y:[a-z_0-9]+]] = loop.load %a1[%i]
// CHECK: %[[Z:[a-z_0-9]+]] = arith.cmpi eq, %[[Y]]
// CHECK: %[[D:[a-z_0-9]+]] = arith.select %[[Z]], %{{.*}}, %[[Y]] : i8
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = arith.divui %{{.*}}, %[[D]] : i8
// CHECK: arith.select %[[Z]], %{{.*}}, %[[Q]] : i8
func.func @main(%x: !graph.tensor<[n], ui8>, %y: !graph.tensor<[n], ui8>) -> !graph.tensor<[n], ui8> {
  %z = graph.div %x, %y : (!graph.tensor<[n], ui8>, !graph.tensor<[n], ui8>) -> !graph.tensor<[n], ui8>
  func.return %z : !graph.tensor<[n], ui8>
}

// -----

// Comparisons give bools, which choose.
// CHECK-LABEL: loop.kernel @less_
// CHECK: arith.cmpf olt
// CHECK-NEXT: loop.store %{{.*}}, %a2[%i] : !loop.buffer<[n0], i1>
// CHECK-LABEL: loop.kernel @where_
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
func.func @main(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[], f32>) -> !graph.tensor<[n], f32> {
  %c = graph.less %x, %y : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], i1>
  %z = graph.where %c, %x, %y : (!graph.tensor<[n], i1>, !graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %z : !graph.tensor<[n], f32>
}

// -----

// A remainder has the divisor's sign, an exact zero too.
// CHECK-LABEL: loop.kernel @mod_
// CHECK: %[[R:[a-z_0-9]+]] = arith.remf %[[X:[a-z_0-9]+]], %[[Y:[a-z_0-9]+]] : f32
// CHECK: %[[M:[a-z_0-9]+]] = arith.addf %[[R]], %[[Y]] : f32
// CHECK: %[[S:[a-z_0-9]+]] = arith.select %{{.*}}, %[[M]], %[[R]] : f32
// CHECK: %[[Z:[a-z_0-9]+]] = math.copysign %{{.*}}, %[[Y]] : f32
// CHECK: arith.select %{{.*}}, %[[Z]], %[[S]] : f32
func.func @main(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %z = graph.mod %x, %y {fmod = false} : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %z : !graph.tensor<[n], f32>
}
