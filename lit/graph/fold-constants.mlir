// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-fold-constants | filecheck %s

// An operator on constants becomes their result; what it read is left for weft-cse-dce.
// CHECK-LABEL: func.func @constants
// CHECK: %[[Y:[a-z]+]] = graph.constant {literal = #graph.literal<[4.0, 6.0]>
// CHECK-NEXT: func.return %[[Y]]
// CHECK-NOT: graph.add
func.func @constants() -> !graph.tensor<[2], f32> {
  %a = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %b = graph.constant {literal = #graph.literal<[3.0, 4.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %y = graph.add %a, %b : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}

// -----

// Operators on constants are followed to the end of their chain in the one sweep.
// CHECK-LABEL: func.func @chain
// CHECK: %[[Y:[a-z]+]] = graph.constant {literal = #graph.literal<[9.0]>
// CHECK-NEXT: func.return %[[Y]]
func.func @chain() -> !graph.tensor<[], f32> {
  %a = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %b = graph.neg %a : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  %y = graph.mul %b, %b : (!graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  func.return %y : !graph.tensor<[], f32>
}

// -----

// The sizes of a static shape are numbers, whatever the elements are.
// CHECK-LABEL: func.func @static_shape
// CHECK-NEXT: graph.constant {literal = #graph.literal<[2, 3]>
// CHECK-NOT: graph.shape %x
func.func @static_shape(%x: !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2], i64> {
  %s = graph.shape %x {start = 0 : i64, end = 2 : i64} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2], i64>
  func.return %s : !graph.tensor<[2], i64>
}

// -----

// Arithmetic on sizes that vary becomes expressions over their names.
// CHECK-LABEL: func.func @sizes
// CHECK: %[[Y:[a-z]+]] = graph.dims {values = #graph.shape<[batch * batch, 9]>}
// CHECK-NEXT: func.return %[[Y]]
func.func @sizes(%x: !graph.tensor<[batch, 3], f32>) -> !graph.tensor<[2], i64> {
  %s = graph.shape %x {start = 0 : i64, end = 2 : i64} : (!graph.tensor<[batch, 3], f32>) -> !graph.tensor<[2], i64>
  %y = graph.mul %s, %s : (!graph.tensor<[2], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], i64>
  func.return %y : !graph.tensor<[2], i64>
}

// -----

// One operator's own rewrites: a reshape to the same shape and a transpose that moves nothing are x.
// CHECK-LABEL: func.func @own_folds
// CHECK: func.return %x
func.func @own_folds(%x: !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32> {
  %p = graph.reshape %x {shape = #graph.shape<[2, 2]>} : (!graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  %t = graph.transpose %p {permutation = array<i64: 0, 1>} : (!graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 2], f32>
  func.return %t : !graph.tensor<[2, 2], f32>
}

// -----

// An input is no constant.
// CHECK-LABEL: func.func @input
// CHECK: graph.mul %x, %two
func.func @input(%x: !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
  %two = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %y = graph.mul %x, %two : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  func.return %y : !graph.tensor<[2], f32>
}

// -----

// A result far larger than what it is made of stays an operator: 4 MB from one number.
// CHECK-LABEL: func.func @large
// CHECK: graph.expand
func.func @large() -> !graph.tensor<[1024, 1024], f32> {
  %a = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %y = graph.expand %a {shape = #graph.shape<[1024, 1024]>} : (!graph.tensor<[], f32>) -> !graph.tensor<[1024, 1024], f32>
  func.return %y : !graph.tensor<[1024, 1024], f32>
}

// -----

// What a stored constant holds lies in the weight store, and text has none.
// CHECK: graph.constant requires weight w in the weight store, got none of that key
func.func @stored() -> !graph.tensor<[100], f32> {
  %w = graph.constant {key = "w", shape = #graph.shape<[100]>, element = f32} : () -> !graph.tensor<[100], f32>
  %y = graph.neg %w : (!graph.tensor<[100], f32>) -> !graph.tensor<[100], f32>
  func.return %y : !graph.tensor<[100], f32>
}

// -----

// A branch with a known condition leaves no trace: its operators stand where it stood, and a dim that it had named is known.
// CHECK-LABEL: func.func @branch(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[4], f32>) -> !graph.tensor<[n], f32> {
// CHECK-NOT: graph.if
// CHECK: %e = graph.exp %x
// CHECK-NOT: graph.sqrt
// CHECK: %r = graph.neg %e : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
// CHECK-NEXT: func.return %r : !graph.tensor<[n], f32>
func.func @branch(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[4], f32>) -> !graph.tensor<[m], f32> {
  %c = graph.constant {literal = #graph.literal<[true]>, shape = #graph.shape<[]>, element = i1} : () -> !graph.tensor<[], i1>
  %y = graph.if %c {sizes = ["m"]} : (!graph.tensor<[], i1>) -> !graph.tensor<[m], f32> {
    %e = graph.exp %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %e : !graph.tensor<[n], f32>
  } else {
    %s = graph.sqrt %z : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
    graph.yield %s : !graph.tensor<[4], f32>
  }
  %r = graph.neg %y : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  func.return %r : !graph.tensor<[m], f32>
}

// -----

// One whose condition is not known stays, and folds inside.
// CHECK-LABEL: func.func @unknown
// CHECK: graph.if %c
// CHECK-NEXT: graph.yield %x
func.func @unknown(%c: !graph.tensor<[], i1>, %x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.if %c : (!graph.tensor<[], i1>) -> !graph.tensor<[n], f32> {
    %r = graph.reshape %x {shape = #graph.shape<[n]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %r : !graph.tensor<[n], f32>
  } else {
    graph.yield %x : !graph.tensor<[n], f32>
  }
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// A few iterations take the place of their loop: the iteration's number is known in each, and rows are put together.
// CHECK-LABEL: func.func @unrolled
// CHECK-NOT: graph.for
// CHECK: graph.slice %x {starts = #graph.shape<[0]>
// CHECK: graph.neg
// CHECK: graph.slice %x {starts = #graph.shape<[1]>
// CHECK: graph.neg
// CHECK: %all = graph.concat
// CHECK: func.return %{{.*}}, %all
func.func @unrolled(%x: !graph.tensor<[2], f32>, %z: !graph.tensor<[1], f32>) -> (!graph.tensor<[1], f32>, !graph.tensor<[2, 1], f32>) {
  %r, %all = graph.for %z {count = #graph.shape<[2]>, index = "i"} : (!graph.tensor<[1], f32>) -> (!graph.tensor<[1], f32>, !graph.tensor<[2, 1], f32>) {
  ^body(%p: !graph.tensor<[1], f32>):
    %s = graph.slice %x {starts = #graph.shape<[i]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[2], f32>) -> !graph.tensor<[1], f32>
    %a = graph.add %p, %s : (!graph.tensor<[1], f32>, !graph.tensor<[1], f32>) -> !graph.tensor<[1], f32>
    %q = graph.neg %a : (!graph.tensor<[1], f32>) -> !graph.tensor<[1], f32>
    graph.yield %q, %s : !graph.tensor<[1], f32>, !graph.tensor<[1], f32>
  }
  func.return %r, %all : !graph.tensor<[1], f32>, !graph.tensor<[2, 1], f32>
}

// -----

// No iteration gives what the loop starts from.
// CHECK-LABEL: func.func @none
// CHECK-NEXT: func.return %x
func.func @none(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %r = graph.for %x {count = #graph.shape<[0]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.neg %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %r : !graph.tensor<[n], f32>
}

// -----

// A long loop stays.
// CHECK-LABEL: func.func @long
// CHECK: graph.for
func.func @long(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  %r = graph.for %x {count = #graph.shape<[33]>, index = "i"} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
  ^body(%p: !graph.tensor<[n], f32>):
    %q = graph.neg %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
    graph.yield %q : !graph.tensor<[n], f32>
  }
  func.return %r : !graph.tensor<[n], f32>
}

// -----

// A long result of equal elements is one number.
// CHECK-LABEL: func.func @everywhere
// CHECK-NEXT: graph.constant
// CHECK-NEXT: graph.constant
// CHECK-NEXT: %[[C:[a-z]+]] = graph.constant {literal = #graph.literal<[true]>, shape = #graph.shape<[40]>, element = i1}
// CHECK-NEXT: func.return %[[C]]
func.func @everywhere() -> !graph.tensor<[40], i1> {
  %a = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[40]>, element = f32} : () -> !graph.tensor<[40], f32>
  %b = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %c = graph.less %a, %b : (!graph.tensor<[40], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[40], i1>
  func.return %c : !graph.tensor<[40], i1>
}

// -----

// An operator that rests on equal sizes stays, for it has them checked.
// CHECK-LABEL: func.func @assumes
// CHECK: %y = graph.expand %x {shape = #graph.shape<[m]>}
// CHECK-NEXT: func.return %y
func.func @assumes(%x: !graph.tensor<[n], f32>, %z: !graph.tensor<[m], f32>) -> !graph.tensor<[n], f32> {
  %y = graph.expand %x {shape = #graph.shape<[m]>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  func.return %y : !graph.tensor<[n], f32>
}

// -----

// Tensors of integers wrap, also where the sizes of tensors are integers of that type.
// CHECK-LABEL: func.func @wraps
// CHECK: %[[Y:[a-z]+]] = graph.constant {literal = #graph.literal<[-9223372036854775808, 8]>
// CHECK-NEXT: func.return %[[Y]]
func.func @wraps() -> !graph.tensor<[2], i64> {
  %a = graph.constant {literal = #graph.literal<[9223372036854775807, 3]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %b = graph.constant {literal = #graph.literal<[1, 5]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %y = graph.add %a, %b : (!graph.tensor<[2], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], i64>
  func.return %y : !graph.tensor<[2], i64>
}

// -----

// A weight that the target multiplies as bf16 stays so; on another target it is f32 from here on.
// CHECK-LABEL: func.func @multiplied
// CHECK: graph.cast %w {to = f32}
builtin.module attributes {weft.target = "sapphirerapids"} {
  func.func @multiplied(%x: !graph.tensor<[4, 2], bf16>) -> !graph.tensor<[4, 2], f32> {
    %w = graph.constant {literal = #graph.literal<[1.0, 2.0, 3.0, 4.0]>, shape = #graph.shape<[2, 2]>, element = bf16} : () -> !graph.tensor<[2, 2], bf16>
    %0 = graph.cast %x {to = f32} : (!graph.tensor<[4, 2], bf16>) -> !graph.tensor<[4, 2], f32>
    %1 = graph.cast %w {to = f32} : (!graph.tensor<[2, 2], bf16>) -> !graph.tensor<[2, 2], f32>
    %2 = graph.matmul %0, %1 : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[4, 2], f32>
    func.return %2 : !graph.tensor<[4, 2], f32>
  }
}
