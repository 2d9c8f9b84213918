// RUN: weft-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// Dims that differ are 1 in one of the operands.
// CHECK: graph.add requires operands whose dims are equal or 1, got [2, 3] and [2, 4]
func.func @main(%x0: !graph.tensor<[2, 3], f32>, %x1: !graph.tensor<[2, 4], f32>) {
  %y = graph.add %x0, %x1 : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, 3], f32>
  func.return
}

// -----

// Nothing is promoted.
// CHECK: graph.add requires operands of one element type, got f32 and f64
func.func @main(%x0: !graph.tensor<[2], f32>, %x1: !graph.tensor<[2], f64>) {
  %y = graph.add %x0, %x1 : (!graph.tensor<[2], f32>, !graph.tensor<[2], f64>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// Functions are defined on some element types.
// CHECK: graph.exp requires an element type out of f32, f64, f16, bf16, got i64
func.func @main(%x0: !graph.tensor<[2], i64>) {
  %y = graph.exp %x0 : (!graph.tensor<[2], i64>) -> !graph.tensor<[2], i64>
  func.return
}

// -----

// Types in the text are those that would be inferred.
// CHECK: graph.neg requires results [2] f32, got [3] f32
func.func @main(%x0: !graph.tensor<[2], f32>) {
  %y = graph.neg %x0 : (!graph.tensor<[2], f32>) -> !graph.tensor<[3], f32>
  func.return
}

// -----

// Bounds are scalars.
// CHECK: graph.clip requires scalar bounds, got [1] f32
func.func @main(%x0: !graph.tensor<[2], f32>, %x1: !graph.tensor<[1], f32>) {
  %y = graph.clip %x0, %x1 : (!graph.tensor<[2], f32>, !graph.tensor<[1], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// A condition is of bools.
// CHECK: graph.where requires a condition of bools, got f32
func.func @main(%x0: !graph.tensor<[2], f32>, %x1: !graph.tensor<[2], f32>, %x2: !graph.tensor<[2], f32>) {
  %y = graph.where %x0, %x1, %x2 : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// Both choices have one element type.
// CHECK: graph.where requires values of one element type, got f32 and f64
func.func @main(%x0: !graph.tensor<[2], i1>, %x1: !graph.tensor<[2], f32>, %x2: !graph.tensor<[2], f64>) {
  %y = graph.where %x0, %x1, %x2 : (!graph.tensor<[2], i1>, !graph.tensor<[2], f32>, !graph.tensor<[2], f64>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// Shifts have two directions.
// CHECK: graph.bit_shift requires a direction of LEFT or RIGHT, got UP
func.func @main(%x0: !graph.tensor<[2], ui8>, %x1: !graph.tensor<[2], ui8>) {
  %y = graph.bit_shift %x0, %x1 {direction = "UP"} : (!graph.tensor<[2], ui8>, !graph.tensor<[2], ui8>) -> !graph.tensor<[2], ui8>
  func.return
}

// -----

// A slope is broadcast to the operand, not the other way.
// CHECK: graph.prelu requires a slope that can be broadcast to the operand, got [3, 2] f32 and [2] f32
func.func @main(%x0: !graph.tensor<[2], f32>, %x1: !graph.tensor<[3, 2], f32>) {
  %y = graph.prelu %x0, %x1 : (!graph.tensor<[2], f32>, !graph.tensor<[3, 2], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// Two approximations exist.
// CHECK: graph.gelu requires an approximation none or tanh, got erf
func.func @main(%x0: !graph.tensor<[2], f32>) {
  %y = graph.gelu %x0 {approximate = "erf"} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// celu divides by alpha.
// CHECK: graph.celu requires an alpha other than 0, got 0.0
func.func @main(%x0: !graph.tensor<[2], f32>) {
  %y = graph.celu %x0 {alpha = 0.0 : f64} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// A cast is to a number or bool.
// CHECK: graph.cast requires a numeric or bool element type, got index
func.func @main(%x0: !graph.tensor<[2], f32>) {
  %y = graph.cast %x0 {to = index} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// A reshape keeps the size.
// CHECK: graph.reshape requires a shape of the operand's size, got [2, n] f32 to [n] f32
func.func @main(%x0: !graph.tensor<[2, n], f32>) {
  %y = graph.reshape %x0 {shape = #graph.shape<[n]>} : (!graph.tensor<[2, n], f32>) -> !graph.tensor<[n], f32>
  func.return
}

// -----

// A permutation names each axis once.
// CHECK: graph.transpose requires a permutation of 2 axes, got [0, 0]
func.func @main(%x0: !graph.tensor<[2, 3], f32>) {
  %y = graph.transpose %x0 {permutation = array<i64: 0, 0>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 2], f32>
  func.return
}

// -----

// A slice stays in its axis.
// CHECK: graph.slice requires indices within an axis of 4, got 4 of 3 from 2 by 1
func.func @main(%x0: !graph.tensor<[4], f32>) {
  %y = graph.slice %x0 {starts = #graph.shape<[2]>, sizes = #graph.shape<[3]>, steps = array<i64: 1>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[3], f32>
  func.return
}

// -----

// A box that is inserted lies in the tensor, and has its element type.
// CHECK: graph.insert_slice requires indices within an axis of 4, got 4 of 3 from 2 by 1
func.func @main(%x0: !graph.tensor<[4], f32>, %x1: !graph.tensor<[3], f32>) {
  %y = graph.insert_slice %x0, %x1 {starts = #graph.shape<[2]>, steps = array<i64: 1>} : (!graph.tensor<[4], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// CHECK: graph.insert_slice requires updates of f32, got [3] f64
func.func @main(%x0: !graph.tensor<[4], f32>, %x1: !graph.tensor<[3], f64>) {
  %y = graph.insert_slice %x0, %x1 {starts = #graph.shape<[0]>, steps = array<i64: 1>} : (!graph.tensor<[4], f32>, !graph.tensor<[3], f64>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// A symbolic slice is refused where no size allows it.
// CHECK: graph.slice requires indices within an axis of n, got n of 2 from n by 1
func.func @main(%x0: !graph.tensor<[n], f32>) {
  %y = graph.slice %x0 {starts = #graph.shape<[n]>, sizes = #graph.shape<[2]>, steps = array<i64: 1>} : (!graph.tensor<[n], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// A slice moves.
// CHECK: graph.slice requires steps other than 0, got 0
func.func @main(%x0: !graph.tensor<[4], f32>) {
  %y = graph.slice %x0 {starts = #graph.shape<[2]>, sizes = #graph.shape<[3]>, steps = array<i64: 0>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[3], f32>
  func.return
}

// -----

// Dims are assumed that can be the operand's.
// CHECK: graph.assume requires dims that can be its operand's, got [n, 3] f32 to [n + 1, 3] f32
func.func @main(%x0: !graph.tensor<[n, 3], f32>) {
  %y = graph.assume %x0 {shape = #graph.shape<[n + 1, 3]>} : (!graph.tensor<[n, 3], f32>) -> !graph.tensor<[n + 1, 3], f32>
  func.return
}

// -----

// Operands of a concatenation have the same other dims.
// CHECK: graph.concat requires operands that differ along axis 0 alone, got [2, 3] f32 and [2, 4] f32
func.func @main(%x0: !graph.tensor<[2, 3], f32>, %x1: !graph.tensor<[2, 4], f32>) {
  %y = graph.concat %x0, %x1 {axis = 0 : i64} : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[4, 3], f32>
  func.return
}

// -----

// Axes exist.
// CHECK: graph.concat requires an axis from -1 to 0, got 1
func.func @main(%x0: !graph.tensor<[2], f32>, %x1: !graph.tensor<[2], f32>) {
  %y = graph.concat %x0, %x1 {axis = 1 : i64} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// The parts are the whole.
// CHECK: graph.split requires sizes that sum to 4, got 3
func.func @main(%x0: !graph.tensor<[4], f32>) {
  %y = graph.split %x0 {axis = 0 : i64, sizes = #graph.shape<[3]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[3], f32>
  func.return
}

// -----

// Padding has modes.
// CHECK: graph.pad requires a mode out of constant, edge, reflect, wrap, got mirror
func.func @main(%x0: !graph.tensor<[4], f32>) {
  %y = graph.pad %x0 {pads = #graph.shape<[1, 1]>, mode = "mirror"} : (!graph.tensor<[4], f32>) -> !graph.tensor<[6], f32>
  func.return
}

// -----

// An empty axis has nothing to repeat.
// CHECK: graph.pad requires elements to pad with, got [0] f32
func.func @main(%x0: !graph.tensor<[0], f32>) {
  %y = graph.pad %x0 {pads = #graph.shape<[1, 1]>, mode = "edge"} : (!graph.tensor<[0], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// Channels are whole blocks.
// CHECK: graph.depth_to_space requires a dim that 4 divides, got 6
func.func @main(%x0: !graph.tensor<[1, 6, 2, 2], f32>) {
  %y = graph.depth_to_space %x0 {blocksize = 2 : i64, mode = "DCR"} : (!graph.tensor<[1, 6, 2, 2], f32>) -> !graph.tensor<[1, 1, 4, 4], f32>
  func.return
}

// -----

// Indices are integers.
// CHECK: graph.gather requires indices of i32 or i64, got [2] f32
func.func @main(%x0: !graph.tensor<[4], f32>, %x1: !graph.tensor<[2], f32>) {
  %y = graph.gather %x0, %x1 {axis = 0 : i64} : (!graph.tensor<[4], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// There is something to gather.
// CHECK: graph.gather requires an axis with elements, got 0 along it
func.func @main(%x0: !graph.tensor<[0], f32>, %x1: !graph.tensor<[2], i64>) {
  %y = graph.gather %x0, %x1 {axis = 0 : i64} : (!graph.tensor<[0], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[2], f32>
  func.return
}

// -----

// Index vectors are no longer than the rank.
// CHECK: graph.scatter_nd requires index vectors up to 1, got 2
func.func @main(%x0: !graph.tensor<[4], f32>, %x1: !graph.tensor<[3, 2], i64>, %x2: !graph.tensor<[3], f32>) {
  %y = graph.scatter_nd %x0, %x1, %x2 {reduction = "none"} : (!graph.tensor<[4], f32>, !graph.tensor<[3, 2], i64>, !graph.tensor<[3], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// An update is of the places' shape.
// CHECK: graph.scatter_nd requires updates [3] f32, got [2] f32
func.func @main(%x0: !graph.tensor<[4], f32>, %x1: !graph.tensor<[3, 1], i64>, %x2: !graph.tensor<[2], f32>) {
  %y = graph.scatter_nd %x0, %x1, %x2 {reduction = "none"} : (!graph.tensor<[4], f32>, !graph.tensor<[3, 1], i64>, !graph.tensor<[2], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// Reductions are a few.
// CHECK: graph.scatter_elements requires a reduction out of none, add, mul, max, min, got sub
func.func @main(%x0: !graph.tensor<[4], f32>, %x1: !graph.tensor<[3], i64>, %x2: !graph.tensor<[3], f32>) {
  %y = graph.scatter_elements %x0, %x1, %x2 {axis = 0 : i64, reduction = "sub"} : (!graph.tensor<[4], f32>, !graph.tensor<[3], i64>, !graph.tensor<[3], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// A range starts from a scalar.
// CHECK: graph.range requires scalar operands, got [1] f32
func.func @main(%x0: !graph.tensor<[1], f32>, %x1: !graph.tensor<[1], f32>) {
  %y = graph.range %x0, %x1 {size = #graph.shape<[n]>} : (!graph.tensor<[1], f32>, !graph.tensor<[1], f32>) -> !graph.tensor<[n], f32>
  func.return
}

// -----

// Bits are those of a type of the same width.
// CHECK: graph.bitcast requires an element type of the 32 bits of f32, got i16
func.func @main(%x: !graph.tensor<[2], f32>) {
  %y = graph.bitcast %x {to = i16} : (!graph.tensor<[2], f32>) -> !graph.tensor<[2], i16>
  func.return
}

// -----

// Matrices have as many rows as columns.
// CHECK: graph.det requires squares, got [2, 3] f32
func.func @main(%x: !graph.tensor<[2, 3], f32>) {
  %y = graph.det %x : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[], f32>
  func.return
}

// -----

// Trees have tables of one size.
// CHECK: graph.tree_ensemble requires tables for as many nodes and trees, got [7] i32 and [6] f32 and
func.func @main(%x: !graph.tensor<[3, 3], f32>, %c: !graph.tensor<[7], i32>, %t: !graph.tensor<[6], f32>, %l: !graph.tensor<[7], i32>, %r: !graph.tensor<[2], i32>, %d: !graph.tensor<[2], i32>, %w: !graph.tensor<[4, 1], f32>, %k: !graph.tensor<[2], i32>) {
  %y = graph.tree_ensemble %x, %c, %t, %l, %r, %d, %w, %k {count = 1 : i64, combiner = "add", missing = false, bits = 3 : i64} : (!graph.tensor<[3, 3], f32>, !graph.tensor<[7], i32>, !graph.tensor<[6], f32>, !graph.tensor<[7], i32>, !graph.tensor<[2], i32>, !graph.tensor<[2], i32>, !graph.tensor<[4, 1], f32>, !graph.tensor<[2], i32>) -> !graph.tensor<[3, 1], f32>
  func.return
}

// -----

// Strings are starts, ends and bytes.
// CHECK: graph.hash_strings requires starts and ends of i64 and bytes of ui8, of rank 1, got [n] i32, [n] i32 and [m] ui8
func.func @main(%ends: !graph.tensor<[n], i32>, %data: !graph.tensor<[m], ui8>) {
  %y = graph.hash_strings %ends, %ends, %data {seed = 3 : i64} : (!graph.tensor<[n], i32>, !graph.tensor<[n], i32>, !graph.tensor<[m], ui8>) -> !graph.tensor<[n], i32>
  func.return
}

// -----

// Automata have a column for each byte.
// CHECK: graph.match_strings requires i32 [states, 256] and bool [states], got [3, 255] i32 and [3] i1
func.func @main(%e: !graph.tensor<[n], i64>, %d: !graph.tensor<[m], ui8>, %t: !graph.tensor<[3, 255], i32>, %a: !graph.tensor<[3], i1>) {
  %y = graph.match_strings %e, %e, %d, %t, %a : (!graph.tensor<[n], i64>, !graph.tensor<[n], i64>, !graph.tensor<[m], ui8>, !graph.tensor<[3, 255], i32>, !graph.tensor<[3], i1>) -> !graph.tensor<[n], i1>
  func.return
}

// -----

// Each class has a probability against each other.
// CHECK: graph.couple_probabilities requires a square of f32 or f64 for each row, got [n, 3, 2] f32
func.func @main(%x: !graph.tensor<[n, 3, 2], f32>) {
  %y = graph.couple_probabilities %x {classes = #graph.shape<[3]>} : (!graph.tensor<[n, 3, 2], f32>) -> !graph.tensor<[n, 3], f32>
  func.return
}

// -----

// A message is between two ranks of a group.
// CHECK: graph.send requires an index below 2 as peer, got 2
func.func @main(%x: !graph.tensor<[4], f32>) {
  graph.send %x {axes = ["stage"], mesh = #graph.mesh<stage = 2>, number = 0 : i64, peer = 2 : i64} : !graph.tensor<[4], f32>
  func.return
}

// -----

// A value is in the stage of another one of its type.
// CHECK: graph.stage_of requires two operands of one type, got [4] f32 and [3] f32
func.func @main(%x: !graph.tensor<[4], f32>, %y: !graph.tensor<[3], f32>) {
  %z = graph.stage_of %x, %y : (!graph.tensor<[4], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[4], f32>
  func.return
}

// -----

// Generators have seeds of 32 bits.
// CHECK: graph.mersenne_twister requires a seed of 32 bits, got -1
func.func @main() {
  %y = graph.mersenne_twister {count = #graph.shape<[4]>, seed = -1 : i64} : () -> !graph.tensor<[4], ui32>
  func.return
}

// -----

// A pass of a Fourier transform is as short as vector registers are few.
// CHECK: graph.fourier_pass requires 1 to 16 points, got 17
func.func @main(%x: !graph.tensor<[2, 17, 3, 4], f32>) {
  %y, %z = graph.fourier_pass %x {inverse = false} : (!graph.tensor<[2, 17, 3, 4], f32>) -> (!graph.tensor<[2, 3, 17, 4], f32>, !graph.tensor<[2, 3, 17, 4], f32>)
  func.return
}

// -----

// Factors of a pass are those of its points.
// CHECK: graph.fourier_pass requires factors [2, 4, 3 or 1, 8 or 1], got [2, 4, 8, 1] f32
func.func @main(%x: !graph.tensor<[l, 4, 3, 8], f32>, %f: !graph.tensor<[2, 4, 8, 1], f32>) {
  %y, %z = graph.fourier_pass %x, none, %f {inverse = false} : (!graph.tensor<[l, 4, 3, 8], f32>, !graph.tensor<[2, 4, 8, 1], f32>) -> (!graph.tensor<[l, 3, 4, 8], f32>, !graph.tensor<[l, 3, 4, 8], f32>)
  func.return
}

// -----

// CHECK: graph.cholesky requires squares, got [n, 4, 5] f32
func.func @main(%x: !graph.tensor<[n, 4, 5], f32>) {
  %y = graph.cholesky %x : (!graph.tensor<[n, 4, 5], f32>) -> !graph.tensor<[n, 4, 5], f32>
  func.return
}

// -----

// CHECK: graph.solve requires columns of the rows of [4, 4] f32, got [5, 2] f32
func.func @main(%a: !graph.tensor<[4, 4], f32>, %x: !graph.tensor<[5, 2], f32>) {
  %y = graph.solve %a, %x : (!graph.tensor<[4, 4], f32>, !graph.tensor<[5, 2], f32>) -> !graph.tensor<[5, 2], f32>
  func.return
}

// -----

// CHECK: graph.triangular_solve requires columns of the rows of [4, 4] f32, got [5, 2] f32
func.func @main(%a: !graph.tensor<[4, 4], f32>, %x: !graph.tensor<[5, 2], f32>) {
  %y = graph.triangular_solve %a, %x {lower = true, unit = false} : (!graph.tensor<[4, 4], f32>, !graph.tensor<[5, 2], f32>) -> !graph.tensor<[5, 2], f32>
  func.return
}
