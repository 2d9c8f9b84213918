// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// What undoes itself, and signs that go into another operator.
// CHECK-LABEL: func.func @signs
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.sub %x, %y
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.add %x, %y
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.mul %x, %y
// CHECK-NEXT: %[[D:[a-z_0-9]+]] = graph.abs %x
// CHECK-NEXT: %[[E:[a-z_0-9]+]] = graph.neg %x
// CHECK-NEXT: func.return %x, %[[A]], %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
func.func @signs(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[n], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>) {
  %minus = graph.constant {literal = #graph.literal<[-1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %p = graph.neg %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %q = graph.neg %y : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %same = graph.neg %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %a1 = graph.add %x, %q : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %a2 = graph.add %q, %x : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %b = graph.sub %x, %q : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %c = graph.mul %p, %q : (!graph.tensor<[n], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %d1 = graph.abs %p : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %d2 = graph.abs %d1 : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %e = graph.mul %x, %minus : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  func.return %same, %a1, %a2, %b, %c, %d2, %e : !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[n], f32>
}

// -----

// x - x and x * 0 are 0 for integers alone: of floats an infinity or NaN would be lost.
// CHECK-LABEL: func.func @zeros
// CHECK-NEXT: %[[Z:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.0]>
// CHECK-NEXT: %[[N:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[4]>, element = i32}
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.sub %x, %x
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = graph.mul %x, %[[Z]]
// CHECK-NEXT: func.return %[[N]], %[[N]], %[[P]], %[[Q]]
func.func @zeros(%k: !graph.tensor<[4], i32>, %x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %none = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.sub %k, %k : (!graph.tensor<[4], i32>, !graph.tensor<[4], i32>) -> !graph.tensor<[4], i32>
  %b = graph.mul %k, %none : (!graph.tensor<[4], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[4], i32>
  %p = graph.sub %x, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %q = graph.mul %x, %zero : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %b, %p, %q : !graph.tensor<[4], i32>, !graph.tensor<[4], i32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// The difference of a broadcast value is of another type, and stays.
// CHECK-LABEL: func.func @broadcast_sign
// CHECK: graph.neg
// CHECK: graph.neg
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.sub %x, %y
// CHECK-NEXT: %[[M:[a-z_0-9]+]] = graph.mul %p, %one
// CHECK-NEXT: func.return %[[A]], %[[M]], %p, %q
func.func @broadcast_sign(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[], f32>, %one: !graph.tensor<[2, 1], f32>) -> (!graph.tensor<[n], f32>, !graph.tensor<[2, n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[], f32>) {
  %p = graph.neg %x : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
  %q = graph.neg %y : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  %a = graph.add %x, %q : (!graph.tensor<[n], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[n], f32>
  %m = graph.mul %p, %one : (!graph.tensor<[n], f32>, !graph.tensor<[2, 1], f32>) -> !graph.tensor<[2, n], f32>
  func.return %a, %m, %p, %q : !graph.tensor<[n], f32>, !graph.tensor<[2, n], f32>, !graph.tensor<[n], f32>, !graph.tensor<[], f32>
}

// -----

// Powers with known exponents are products and roots; a root where nothing is negative or -0.
// CHECK-LABEL: func.func @powers
// CHECK-NEXT: %[[ONE:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[4]>, element = f32}
// CHECK-NEXT: %[[SQUARE:[a-z_0-9]+]] = graph.mul %x, %x
// CHECK-NEXT: %[[CUBE:[a-z_0-9]+]] = graph.mul %[[SQUARE]], %x
// CHECK-NEXT: %[[INVERSE:[a-z_0-9]+]] = graph.reciprocal %x
// CHECK-NEXT: %[[ROOT:[a-z_0-9]+]] = graph.sqrt %[[SQUARE]]
// CHECK-NEXT: %[[OVER:[a-z_0-9]+]] = graph.reciprocal %[[ROOT]]
// CHECK-NEXT: func.return %[[ONE]], %x, %[[SQUARE]], %[[CUBE]], %[[INVERSE]], %[[ROOT]], %[[OVER]]
func.func @powers(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %two = graph.constant {literal = #graph.literal<[2.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %three = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %minus = graph.constant {literal = #graph.literal<[-1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %half = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %less = graph.constant {literal = #graph.literal<[-0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %a = graph.pow %x, %zero : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %b = graph.pow %x, %one : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %c = graph.pow %x, %two : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %d = graph.pow %x, %three : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %e = graph.pow %x, %minus : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %f = graph.pow %c, %half : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %g = graph.pow %c, %less : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %b, %c, %d, %e, %f, %g : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// The root of -inf is NaN and its power infinity: what may be negative keeps its power, as do
// integers to the power of -1 and exponents that differ.
// CHECK-LABEL: func.func @other_powers
// CHECK: graph.pow %x
// CHECK: graph.pow %x
// CHECK: graph.pow %k
func.func @other_powers(%x: !graph.tensor<[2], f32>, %k: !graph.tensor<[2], i32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], i32>) {
  %half = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %both = graph.constant {literal = #graph.literal<[1.0, 2.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %minus = graph.constant {literal = #graph.literal<[-1]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %a = graph.pow %x, %half : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %b = graph.pow %x, %both : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  %c = graph.pow %k, %minus : (!graph.tensor<[2], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[2], i32>
  func.return %a, %b, %c : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], i32>
}

// -----

// A quotient by powers of two is a product, which rounds as it does.
// CHECK-LABEL: func.func @quotients
// CHECK-NEXT: %[[F:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.5, -0.125]>
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.mul %x, %[[F]]
// CHECK-NEXT: func.return %[[A]]
func.func @quotients(%x: !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32> {
  %c = graph.constant {literal = #graph.literal<[2.0, -8.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %a = graph.div %x, %c : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return %a : !graph.tensor<[2], f32>
}

// -----

// One third is no float, and neither is the reciprocal of the least one; integers round.
// CHECK-LABEL: func.func @other_quotients
// CHECK-COUNT-3: graph.div
func.func @other_quotients(%x: !graph.tensor<[2], f32>, %k: !graph.tensor<[2], i32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], i32>) {
  %third = graph.constant {literal = #graph.literal<[2.0, 3.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %least = graph.constant {literal = #graph.literal<[1.401298464324817e-45]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %two = graph.constant {literal = #graph.literal<[2]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %a = graph.div %x, %third : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  %b = graph.div %x, %least : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %c = graph.div %k, %two : (!graph.tensor<[2], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[2], i32>
  func.return %a, %b, %c : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], i32>
}

// -----

// Bounds within bounds are one pair of them, and of the same twice nothing is left.
// CHECK-LABEL: func.func @bounds
// CHECK-NEXT: %[[LOW:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[0.0]>
// CHECK-NEXT: %[[HIGH:[a-z_0-9]+]] = graph.constant {literal = #graph.literal<[6.0]>
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.clip %x, %[[LOW]], %[[HIGH]]
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.relu %x
// CHECK-NEXT: func.return %[[A]], %[[B]], %x
func.func @bounds(%x: !graph.tensor<[4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %zero = graph.constant {literal = #graph.literal<[0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %six = graph.constant {literal = #graph.literal<[6.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %eight = graph.constant {literal = #graph.literal<[8.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %below = graph.constant {literal = #graph.literal<[-1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %p = graph.relu %x : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %q = graph.min %p, %six : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %a = graph.clip %q, %below, %eight : (!graph.tensor<[4], f32>, !graph.tensor<[], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[4], f32>
  %r = graph.max %below, %x : (!graph.tensor<[], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %b = graph.relu %r : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %c = graph.max %x, %x : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  %d = graph.min %c, %c : (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %b, %d : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// A maximum with the least float, and a minimum with the greatest one, are the other operand.
// CHECK-LABEL: func.func @no_bounds
// CHECK-NEXT: func.return %x, %x
func.func @no_bounds(%x: !graph.tensor<[2], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  %low = graph.constant {literal = #graph.literal<[-inf]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %high = graph.constant {literal = #graph.literal<[inf]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %a = graph.max %low, %x : (!graph.tensor<[], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  %b = graph.min %x, %high : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return %a, %b : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
}

// -----

// Other infinite bounds, -0, the greater below the lesser, and bounds that vary stay.
// CHECK-LABEL: func.func @other_bounds
// CHECK-COUNT-6: {{graph.(min|max)}}
func.func @other_bounds(%x: !graph.tensor<[2], f32>, %y: !graph.tensor<[], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) {
  %infinite = graph.constant {literal = #graph.literal<[-inf]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %zero = graph.constant {literal = #graph.literal<[-0.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %both = graph.constant {literal = #graph.literal<[0.0, 1.0]>, shape = #graph.shape<[2]>, element = f32} : () -> !graph.tensor<[2], f32>
  %p = graph.min %x, %infinite : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %a = graph.min %p, %one : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %q = graph.max %x, %zero : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %b = graph.max %q, %y : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  %r = graph.max %x, %both : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  %c = graph.max %r, %one : (!graph.tensor<[2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2], f32>
  func.return %a, %b, %c : !graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>
}
