// RUN: weft-opt %s --split-input-file -p weft-fold-constants,weft-rewrite,weft-cse-dce | filecheck %s

// Neutral elements are dropped.
// CHECK-LABEL: func.func @neutral
// CHECK-SAME: (%x: !graph.tensor<[n], f32>)
// CHECK-NEXT: func.return %x
func.func @neutral(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[1]>, element = f32} : () -> !graph.tensor<[1], f32>
  %a = graph.mul %one, %x : (!graph.tensor<[], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %b = graph.sub %a, %zero : (!graph.tensor<[n], f32>, !graph.tensor<[1], f32>) -> !graph.tensor<[n], f32>
  %c = graph.div %b, %one : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %c : !graph.tensor<[n], f32>
}

// -----

// But 0 is not neutral for a sum of floats: -0 + 0 is 0.
// CHECK-LABEL: func.func @zero_sum
// CHECK: graph.add
func.func @zero_sum(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %y = graph.add %x, %zero : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Nor is a neutral element that broadcasts the other operand.
// CHECK-LABEL: func.func @broadcast
// CHECK: graph.mul
func.func @broadcast(%x: !graph.tensor<[1], f32>) -> !graph.tensor<[4], f32> {
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[4]>, element = f32} : () -> !graph.tensor<[4], f32>
  %y = graph.mul %x, %one : (!graph.tensor<[1], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// What undoes or repeats itself is gone, as is what keeps everything.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT: %[[R:[a-z_0-9]+]] = graph.relu %x
// CHECK-NEXT: func.return %[[R]]
func.func @twice(%x: !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32> {
  %a = graph.neg %x : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %b = graph.neg %a : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %c = graph.relu %b : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %d = graph.relu %c : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %e = graph.clip %d : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %f = graph.cast %e {to = f32} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %g = graph.transpose %f {permutation = array<i64: 1, 0>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[3, 2], f32>
  %h = graph.transpose %g {permutation = array<i64: 1, 0>} : (!graph.tensor<[3, 2], f32>) -> !graph.tensor<[2, 3], f32>
  %i = graph.slice %h {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[2, 3]>, steps = array<i64: 1, 1>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %j = graph.pad %i {pads = #graph.shape<[0, 0, 0, 0]>, mode = "edge"} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %k = graph.tile %j {repeats = #graph.shape<[1, 1]>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %l = graph.concat %k {axis = 0 : i64} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %m = graph.split %l {axis = 0 : i64, sizes = #graph.shape<[2]>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  %n = graph.insert_slice %x, %m {starts = #graph.shape<[0, 0]>, steps = array<i64: 1, 1>} : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %n : !graph.tensor<[2, 3], f32>
}

// -----

// A transpose that only moves dims of 1 is a reshape, and a reshape of a reshape one of them.
// CHECK-LABEL: func.func @views
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.reshape %x {shape = #graph.shape<[n, 1]>}
// CHECK-NEXT: func.return %[[Y]]
func.func @views(%x: !graph.tensor<[1, 1, n], f32>) -> !graph.tensor<[n, 1], f32> {
  %a = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[1, 1, n], f32>) -> !graph.tensor<[1, n, 1], f32>
  %b = graph.reshape %a {shape = #graph.shape<[n, 1]>} : (!graph.tensor<[1, n, 1], f32>) -> !graph.tensor<[n, 1], f32>
  func.return %b : !graph.tensor<[n, 1], f32>
}

// -----

// A choice by a constant.
// CHECK-LABEL: func.func @choice
// CHECK-NEXT: func.return %y
func.func @choice(%x: !graph.tensor<[2], f32>, %y: !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
  %no = graph.constant {literal = #graph.literal<[false]>, shape = #graph.shape<[]>, element = i1} : () -> !graph.tensor<[], i1>
  %z = graph.where %no, %x, %y : (!graph.tensor<[], i1>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return %z : !graph.tensor<[2], f32>
}

// -----

// Sizes are computed as expressions: [2 * n, m floordiv 4] out of the operand's shape.
// CHECK-LABEL: func.func @sizes
// CHECK-NEXT: graph.dims {values = #graph.shape<[2 * n, (m floordiv 4)]>}
// CHECK-NEXT: func.return
func.func @sizes(%x: !graph.tensor<[n, m], f32>) -> !graph.tensor<[2], i64> {
  %shape = graph.shape %x {start = 0 : i64} : (!graph.tensor<[n, m], f32>) -> !graph.tensor<[2], i64>
  %two = graph.constant {literal = #graph.literal<[2]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %four = graph.constant {literal = #graph.literal<[4]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %last = graph.constant {literal = #graph.literal<[-1]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %rows = graph.slice %shape {starts = #graph.shape<[0]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[2], i64>) -> !graph.tensor<[1], i64>
  %columns = graph.gather %shape, %last {axis = 0 : i64} : (!graph.tensor<[2], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[1], i64>
  %twice = graph.mul %rows, %two : (!graph.tensor<[1], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[1], i64>
  %quarter = graph.div %columns, %four : (!graph.tensor<[1], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[1], i64>
  %narrow = graph.cast %quarter {to = i32} : (!graph.tensor<[1], i64>) -> !graph.tensor<[1], i32>
  %wide = graph.cast %narrow {to = i64} : (!graph.tensor<[1], i32>) -> !graph.tensor<[1], i64>
  %y = graph.concat %twice, %wide {axis = 0 : i64} : (!graph.tensor<[1], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[2], i64>
  func.return %y : !graph.tensor<[2], i64>
}

// -----

// The idiom that keeps dims of -1: no size is -1, so the shape itself is chosen.
// CHECK-LABEL: func.func @kept_dims
// CHECK-NEXT: graph.dims {values = #graph.shape<[n, 1]>}
// CHECK-NEXT: func.return
func.func @kept_dims(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[2], i64> {
  %size = graph.size %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[], i64>
  %first = graph.reshape %size {shape = #graph.shape<[1]>} : (!graph.tensor<[], i64>) -> !graph.tensor<[1], i64>
  %minus = graph.constant {literal = #graph.literal<[-1]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %wanted = graph.concat %first, %minus {axis = 0 : i64} : (!graph.tensor<[1], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[2], i64>
  %ones = graph.constant {literal = #graph.literal<[1]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %free = graph.equal %wanted, %minus : (!graph.tensor<[2], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[2], i1>
  %y = graph.where %free, %ones, %wanted : (!graph.tensor<[2], i1>, !graph.tensor<[2], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], i64>
  func.return %y : !graph.tensor<[2], i64>
}

// -----

// A quotient that may be negative is not a floor quotient, and stays.
// CHECK-LABEL: func.func @negative
// CHECK: graph.div
func.func @negative(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[], i64> {
  %size = graph.size %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[], i64>
  %two = graph.constant {literal = #graph.literal<[2]>, shape = #graph.shape<[]>, element = i64} : () -> !graph.tensor<[], i64>
  %less = graph.sub %size, %two : (!graph.tensor<[], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[], i64>
  %y = graph.div %less, %two : (!graph.tensor<[], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[], i64>
  func.return %y : !graph.tensor<[], i64>
}

// -----

// -0 is neutral for a sum of floats, and -0 taken away is not.
// CHECK-LABEL: func.func @negative_zero
// CHECK-NEXT: graph.constant
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.sub %x
// CHECK-NEXT: func.return %[[Y]]
func.func @negative_zero(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %zero = graph.constant {literal = #graph.literal<[-0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.add %x, %zero : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %y = graph.sub %a, %zero : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// A cast skips one that kept every value; one that rounds or cuts stays.
// CHECK-LABEL: func.func @casts
// CHECK-NEXT: %[[A:[a-z]+]] = graph.cast %x {to = i32}
// CHECK-NEXT: %[[B:[a-z]+]] = graph.cast %x {to = f16}
// CHECK-NEXT: %[[C:[a-z]+]] = graph.cast %[[B]] {to = f32}
// CHECK-NEXT: %[[D:[a-z]+]] = graph.cast %k {to = ui32}
// CHECK-NEXT: %[[E:[a-z]+]] = graph.cast %[[D]] {to = i64}
// CHECK-NEXT: func.return %x, %[[A]], %[[C]], %[[E]]
func.func @casts(%x: !graph.tensor<[n], f32>, %k: !graph.tensor<[n], i32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], i32>, !graph.tensor<[n], f32>, !graph.tensor<[n], i64>) {
  %w = graph.cast %x {to = f64} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f64>
  %back = graph.cast %w {to = f32} : (!graph.tensor<[n], f64>) -> !graph.tensor<[n], f32>
  %a = graph.cast %w {to = i32} : (!graph.tensor<[n], f64>) -> !graph.tensor<[n], i32>
  %b = graph.cast %x {to = f16} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f16>
  %c = graph.cast %b {to = f32} : (!graph.tensor<[n], f16>) -> !graph.tensor<[n], f32>
  %d = graph.cast %k {to = ui32} : (!graph.tensor<[n], i32>) -> !graph.tensor<[n], ui32>
  %e = graph.cast %d {to = i64} : (!graph.tensor<[n], ui32>) -> !graph.tensor<[n], i64>
  func.return %back, %a, %c, %e : !graph.tensor<[n], f32>, !graph.tensor<[n], i32>, !graph.tensor<[n], f32>, !graph.tensor<[n], i64>
}

// -----

// The chain by which exporters flatten the dims behind a batch that only a call knows: the reshape
// has its result's type, and nothing of the arithmetic is left.
// CHECK-LABEL: func.func @shape_chain
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.reshape %x {shape = #graph.shape<[batch, 12]>}
// CHECK-NEXT: func.return %[[Y]]
func.func @shape_chain(%x: !graph.tensor<[batch, 3, 4], f32>) -> !graph.tensor<[batch, 12], f32> {
  %zero = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %rest = graph.constant {literal = #graph.literal<[12]>, shape = #graph.shape<[1]>, element = i64} : () -> !graph.tensor<[1], i64>
  %s = graph.shape %x {start = 0 : i64} : (!graph.tensor<[batch, 3, 4], f32>) -> !graph.tensor<[3], i64>
  %b = graph.gather %s, %zero {axis = 0 : i64} : (!graph.tensor<[3], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[1], i64>
  %c = graph.concat %b, %rest {axis = 0 : i64} : (!graph.tensor<[1], i64>, !graph.tensor<[1], i64>) -> !graph.tensor<[2], i64>
  %y = graph.reshape %x {shape = #graph.shape<[batch, 12]>} : (!graph.tensor<[batch, 3, 4], f32>) -> !graph.tensor<[batch, 12], f32>
  func.return %y : !graph.tensor<[batch, 12], f32>
}
