// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// A choice between equals is none, and one by what is not is the other way round.
// CHECK-LABEL: func.func @choices
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.where %c, %y, %x
// CHECK-NEXT: func.return %x, %[[A]], %x, %y
func.func @choices(%c: !graph.tensor<[n], i1>, %x: !graph.tensor<[n], f32>, %y: !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) {
  %yes = graph.constant {literal = #graph.literal<[true]>, shape = #graph.shape<[]>, element = i1} : () -> !graph.tensor<[], i1>
  %no = graph.constant {literal = #graph.literal<[false]>, shape = #graph.shape<[]>, element = i1} : () -> !graph.tensor<[], i1>
  %not = graph.logical_not %c : (!graph.tensor<[n], i1>) -> !graph.tensor<[n], i1>
  %same = graph.where %c, %x, %x : (!graph.tensor<[n], i1>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %a = graph.where %not, %x, %y : (!graph.tensor<[n], i1>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %first = graph.where %yes, %x, %y : (!graph.tensor<[], i1>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %second = graph.where %no, %x, %y : (!graph.tensor<[], i1>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %same, %a, %first, %second : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
}

// -----

// A condition that has more dims than the values repeats them.
// CHECK-LABEL: func.func @repeated
// CHECK: graph.where
func.func @repeated(%c: !graph.tensor<[2, n], i1>, %x: !graph.tensor<[n], f32>) -> !graph.tensor<[2, n], f32> {
  %a = graph.where %c, %x, %x : (!graph.tensor<[2, n], i1>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[2, n], f32>
  func.return %a : !graph.tensor<[2, n], f32>
}

// -----

// Laws of bools, in either order of the operands.
// CHECK-LABEL: func.func @bools
// CHECK-DAG: %[[YES:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[true]>, shape = #graph.shape<[4]>
// CHECK-DAG: %[[NO:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[false]>, shape = #graph.shape<[4]>
// CHECK: %[[NOT:[a-z_0-9]+]] = graph.logical_not %x
// CHECK: func.return %x, %x, %[[NO]], %[[NO]], %x, %x, %[[YES]], %[[YES]], %[[NO]], %[[NOT]], %x
func.func @bools(%x: !graph.tensor<[4], i1>, %y: !graph.tensor<[4], i1>) -> (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>) {
  %yes = graph.constant {literal = #graph.literal<[true]>, shape = #graph.shape<[]>, element = i1} : () -> !graph.tensor<[], i1>
  %no = graph.constant {literal = #graph.literal<[false]>, shape = #graph.shape<[]>, element = i1} : () -> !graph.tensor<[], i1>
  %not = graph.logical_not %x : (!graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %either = graph.logical_or %y, %x : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %a = graph.logical_and %x, %x : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %b = graph.logical_and %yes, %x : (!graph.tensor<[], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %c = graph.logical_and %x, %no : (!graph.tensor<[4], i1>, !graph.tensor<[], i1>) -> !graph.tensor<[4], i1>
  %d = graph.logical_and %not, %x : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %e = graph.logical_and %x, %either : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %f = graph.logical_or %x, %no : (!graph.tensor<[4], i1>, !graph.tensor<[], i1>) -> !graph.tensor<[4], i1>
  %g = graph.logical_or %x, %yes : (!graph.tensor<[4], i1>, !graph.tensor<[], i1>) -> !graph.tensor<[4], i1>
  %h = graph.logical_or %x, %not : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %i = graph.logical_xor %x, %x : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %j = graph.logical_xor %x, %yes : (!graph.tensor<[4], i1>, !graph.tensor<[], i1>) -> !graph.tensor<[4], i1>
  %k = graph.logical_not %not : (!graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  func.return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k : !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>
}

// -----

// Other bools stay.
// CHECK-LABEL: func.func @other_bools
// CHECK: graph.logical_and %x, %y
// CHECK: graph.logical_or
// CHECK: graph.logical_xor
func.func @other_bools(%x: !graph.tensor<[4], i1>, %y: !graph.tensor<[4], i1>, %z: !graph.tensor<[4], i1>) -> (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>) {
  %a = graph.logical_and %x, %y : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %b = graph.logical_or %z, %a : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  %c = graph.logical_xor %x, %y : (!graph.tensor<[4], i1>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], i1>
  func.return %a, %b, %c : !graph.tensor<[4], i1>, !graph.tensor<[4], i1>, !graph.tensor<[4], i1>
}

// -----

// The same of bits; all bits are -1 where there is a sign.
// CHECK-LABEL: func.func @bits
// CHECK-NEXT: %[[ALL:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[255]>
// CHECK-NEXT: %[[ZERO:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[4]>
// CHECK-NEXT: %[[F:[a-z_0-9]+]] = graph.bitwise_and %u, %[[ALL]]
// CHECK-NEXT: func.return %x, %x, %[[ZERO]], %x, %[[ZERO]], %[[F]]
func.func @bits(%x: !graph.tensor<[4], i32>, %u: !graph.tensor<[4], ui8>) -> (!graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], ui8>) {
  %zero = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %ones = graph.constant {literal = #graph.literal<[-1]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %all = graph.constant {literal = #graph.literal<[255]>, shape = #graph.shape<[]>, element = ui8} : () -> !graph.tensor<[], ui8>
  %p = graph.bitwise_not %x : (!graph.tensor<[4], i32>) -> !graph.tensor<[4], i32>
  %a = graph.bitwise_not %p : (!graph.tensor<[4], i32>) -> !graph.tensor<[4], i32>
  %b = graph.bitwise_and %x, %ones : (!graph.tensor<[4], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[4], i32>
  %c = graph.bitwise_and %x, %zero : (!graph.tensor<[4], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[4], i32>
  %d = graph.bitwise_or %x, %zero : (!graph.tensor<[4], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[4], i32>
  %e = graph.bitwise_xor %x, %x : (!graph.tensor<[4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[4], i32>
  %f = graph.bitwise_and %u, %all : (!graph.tensor<[4], ui8>, !graph.tensor<[], ui8>) -> !graph.tensor<[4], ui8>
  func.return %a, %b, %c, %d, %e, %f : !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], ui8>
}
