// RUN: weft-opt %s --split-input-file | filecheck %s
// RUN: weft-opt %s --split-input-file | weft-opt --split-input-file | filecheck %s

// The pretty form is read, and printed as the generic one.
// CHECK-LABEL: func.func @elementwise
// CHECK: "stablehlo.add"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK: "stablehlo.compare"(%x, %y) <{comparison_direction = #stablehlo.comparison_direction<LT>, compare_type = #stablehlo.comparison_type<FLOAT>}>
// CHECK: "stablehlo.select"(%p, %x, %y) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @elementwise(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %sum = stablehlo.add %x, %y : tensor<2x3xf32>
  %p = stablehlo.compare LT, %x, %y, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %z = stablehlo.select %p, %x, %y : tensor<2x3xi1>, tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}

// -----

// Hexadecimal digits of floats are their bits: infinity and one.
// CHECK-LABEL: func.func @bits
// CHECK: dense<[0x7f800000, 1.000000e+00]> : tensor<2xf32>
func.func @bits() -> tensor<2xf32> {
  %c = stablehlo.constant dense<[0x7F800000, 0x3F800000]> : tensor<2xf32>
  func.return %c : tensor<2xf32>
}

// -----

// Words, lists and windows become attributes.
// CHECK-LABEL: func.func @attributes
// CHECK: "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 4, 4>, strides = array<i64: 1, 2>}>
// CHECK: "stablehlo.dot_general"(%x, %x) <{lhs_contracting_dimensions = array<i64: 1>, rhs_contracting_dimensions = array<i64: 0>, precision_config = [#stablehlo.precision<DEFAULT>, #stablehlo.precision<HIGHEST>]}>
func.func @attributes(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = stablehlo.slice %x [0:4, 1:4:2] : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], precision = [DEFAULT, HIGHEST] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %d : tensor<4x4xf32>
}

// -----

// A reduction by one operator has a region that applies it.
// CHECK-LABEL: func.func @reduction
// CHECK: "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 1>}> ({
// CHECK-NEXT: ^{{.*}}(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
// CHECK-NEXT: %[[C:.*]] = "stablehlo.add"(%[[A]], %[[B]])
// CHECK-NEXT: "stablehlo.return"(%[[C]]) : (tensor<f32>) -> ()
func.func @reduction(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %s : tensor<4xf32>
}

// -----

// A loop has a condition and a body of the same arguments; CHLO's operators name both types.
// CHECK-LABEL: func.func @loop
// CHECK: "stablehlo.while"(%i) ({
// CHECK: "chlo.erf"(%x) : (tensor<f32>) -> tensor<f32>
func.func @loop(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.while(%k = %i) : tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %p = stablehlo.compare LT, %k, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %n = stablehlo.add %k, %k : tensor<i32>
      stablehlo.return %n : tensor<i32>
    }
  %e = chlo.erf %x : tensor<f32> -> tensor<f32>
  func.return %e : tensor<f32>
}

// -----

// A tensor that is quantised as a whole.
// CHECK-LABEL: func.func @quantized
// CHECK: "stablehlo.uniform_quantize"(%x) : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:-3>>
func.func @quantized(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:-3>> {
  %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:-3>>
  func.return %q : tensor<4x!quant.uniform<i8:f32, 0.5:-3>>
}

// Scales by axis, and the limits of what is stored.
// CHECK: tensor<2x!quant.uniform<i8<-127:127>:f32:0, {0.5:-3, 0.25:0}>>
func.func @quantized_by_axis(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<i8<-127:127>:f32:0, {0.5:-3, 0.25}>> {
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8<-127:127>:f32:0, {0.5:-3, 0.25}>>
  func.return %q : tensor<2x!quant.uniform<i8<-127:127>:f32:0, {0.5:-3, 0.25}>>
}

// -----

// A tuple's type lists those of its values; records and words are of either dialect.
// CHECK-LABEL: func.func @tuples_and_ragged_rows
// CHECK: "stablehlo.tuple"(%x, %n) : (tensor<7x5xf32>, tensor<3xi32>) -> tuple<tensor<7x5xf32>, tensor<3xi32>>
// CHECK: "stablehlo.get_tuple_element"(%p) <{index = 1 : i32}>
// CHECK: "chlo.ragged_dot"
// CHECK-SAME: ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>, precision_config = [#chlo.precision<DEFAULT>]
func.func @tuples_and_ragged_rows(%x: tensor<7x5xf32>, %y: tensor<3x5x4xf32>, %n: tensor<3xi32>) -> tensor<7x4xf32> {
  %p = stablehlo.tuple %x, %n : tuple<tensor<7x5xf32>, tensor<3xi32>>
  %m = stablehlo.get_tuple_element %p[1] : (tuple<tensor<7x5xf32>, tensor<3xi32>>) -> tensor<3xi32>
  %r = "chlo.ragged_dot"(%x, %y, %m) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>, precision_config = [#chlo<precision DEFAULT>]} : (tensor<7x5xf32>, tensor<3x5x4xf32>, tensor<3xi32>) -> tensor<7x4xf32>
  func.return %r : tensor<7x4xf32>
}
