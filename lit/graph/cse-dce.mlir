// RUN: weft-opt %s --split-input-file -p weft-cse-dce | filecheck %s

// What is computed twice is computed once, and so is what follows from it.
// CHECK-LABEL: func.func @equal
// CHECK-NEXT: %[[A:[a-z]+]] = graph.exp %x
// CHECK-NEXT: %[[B:[a-z]+]] = graph.neg %[[A]]
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.add %[[B]], %[[B]]
// CHECK-NEXT: func.return %[[Y]]
func.func @equal(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.neg %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %c = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %d = graph.neg %c : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %y = graph.add %b, %d : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// Equal constants are one; 0.0 and -0.0 are not equal.
// CHECK-LABEL: func.func @constants
// CHECK-NEXT: %[[A:[a-z]+]] = graph.constant {literal = #graph.literal<[0.0]>
// CHECK-NEXT: %[[C:[a-z]+]] = graph.constant {literal = #graph.literal<[-0.0]>
// CHECK-NEXT: func.return %[[A]], %[[A]], %[[C]]
func.func @constants() -> (!graph.tensor<[], f32>, !graph.tensor<[], f32>, !graph.tensor<[], f32>) {
  %a = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %b = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %c = graph.constant {literal = #graph.literal<[-0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  func.return %a, %b, %c : !graph.tensor<[], f32>, !graph.tensor<[], f32>, !graph.tensor<[], f32>
}

// -----

// Another operand, another order of those of a difference or another attribute is another operator.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-2: graph.sub
// CHECK-COUNT-2: graph.softmax
func.func @different(%x: !graph.tensor<[4, 4], f32>, %y: !graph.tensor<[4, 4], f32>) -> (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) {
  %a = graph.sub %x, %y : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %b = graph.sub %y, %x : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %c = graph.mul %a, %b : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %s = graph.softmax %c {axis = 0 : i64} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %t = graph.softmax %c {axis = 1 : i64} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %s, %t : !graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>
}

// -----

// What nobody needs goes, with what only it needed.
// CHECK-LABEL: func.func @unused
// CHECK-NEXT: %[[Y:[a-z]+]] = graph.log %x
// CHECK-NEXT: func.return %[[Y]]
func.func @unused(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %a = graph.exp %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.neg %a : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %y = graph.log %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %y : !graph.tensor<[4], f32>
}

// -----

// Operands that commute may stand in another order; sides of a matrix product do not.
// CHECK-LABEL: func.func @commuted
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.mul %x, %y
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.max %x, %y
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.matmul %x, %y
// CHECK-NEXT: %[[D:[a-z_0-9]+]] = graph.matmul %y, %x
// CHECK-NEXT: func.return %[[A]], %[[A]], %[[B]], %[[B]], %[[C]], %[[D]]
func.func @commuted(%x: !graph.tensor<[2, 2], f32>, %y: !graph.tensor<[2, 2], f32>) -> (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) {
  %a = graph.mul %x, %y : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %p = graph.mul %y, %x : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %b = graph.max %x, %y : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %q = graph.max %y, %x : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %c = graph.matmul %x, %y : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %d = graph.matmul %y, %x : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  func.return %a, %p, %b, %q, %c, %d : !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>
}

// -----

// Sizes that are the same elements of one value are one size.
// CHECK-LABEL: func.func @main
// CHECK: graph.bind_sizes %k {sizes = ["m"]}
// CHECK-NOT: graph.bind_sizes
// CHECK: graph.expand %x {shape = #graph.shape<[m]>}
// CHECK-NOT: graph.expand
func.func @main(%k: !graph.tensor<[], i64>, %x: !graph.tensor<[], f32>) -> (!graph.tensor<[m], f32>, !graph.tensor<[n], f32>) {
  graph.bind_sizes %k {sizes = ["m"]} : !graph.tensor<[], i64>
  %y = graph.expand %x {shape = #graph.shape<[m]>} : (!graph.tensor<[], f32>) -> !graph.tensor<[m], f32>
  graph.bind_sizes %k {sizes = ["n"]} : !graph.tensor<[], i64>
  %z = graph.expand %x {shape = #graph.shape<[n]>} : (!graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %y, %z : !graph.tensor<[m], f32>, !graph.tensor<[n], f32>
}
