// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// A slice of a slice is one: 1 + 2 * i of 2 + 3 * j is 5 + 6 * i.
// CHECK-LABEL: func.func @slices
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[5, n]>, sizes = #graph.shape<[2, n]>, steps = array<i64: 6, -1>}
// CHECK-NEXT: func.return %[[A]]
func.func @slices(%x: !graph.tensor<[12, n + 1], f32>) -> !graph.tensor<[2, n], f32> {
  %p = graph.slice %x {starts = #graph.shape<[2, 1]>, sizes = #graph.shape<[4, n]>, steps = array<i64: 3, 1>} : (!graph.tensor<[12, n + 1], f32>) -> !graph.tensor<[4, n], f32>
  %a = graph.slice %p {starts = #graph.shape<[1, n - 1]>, sizes = #graph.shape<[2, n]>, steps = array<i64: 2, -1>} : (!graph.tensor<[4, n], f32>) -> !graph.tensor<[2, n], f32>
  func.return %a : !graph.tensor<[2, n], f32>
}

// -----

// A slice of one part of a concatenation is read from that.
// CHECK-LABEL: func.func @of_concat
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.slice %y {starts = #graph.shape<[0, 1]>, sizes = #graph.shape<[2, 2]>
// CHECK-NEXT: func.return %[[A]]
func.func @of_concat(%x: !graph.tensor<[2, n], f32>, %y: !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 2], f32> {
  %p = graph.concat %x, %y {axis = 1 : i64} : (!graph.tensor<[2, n], f32>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, n + 3], f32>
  %a = graph.slice %p {starts = #graph.shape<[0, n + 1]>, sizes = #graph.shape<[2, 2]>, steps = array<i64: 1, 1>} : (!graph.tensor<[2, n + 3], f32>) -> !graph.tensor<[2, 2], f32>
  func.return %a : !graph.tensor<[2, 2], f32>
}

// -----

// A slice of a concatenation that nothing else reads is put together of what it takes of each part:
// every second column from 1 on is one of %x, one of %y, and %z has a half that is not taken.
// CHECK-LABEL: func.func @of_several
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 1]>, sizes = #graph.shape<[n, 1]>, steps = array<i64: 1, 2>}
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = graph.slice %y {starts = #graph.shape<[0, 1]>, sizes = #graph.shape<[n, 1]>, steps = array<i64: 1, 2>}
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.concat %[[P]], %[[Q]] {axis = 1 : i64}
// CHECK-NEXT: %[[R:[a-z_0-9]+]] = graph.slice %v {starts = #graph.shape<[1]>, sizes = #graph.shape<[n]>, steps = array<i64: 1>}
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.slice %w {starts = #graph.shape<[0]>, sizes = #graph.shape<[2]>, steps = array<i64: 1>}
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.concat %[[R]], %[[S]] {axis = 0 : i64}
// CHECK-NEXT: func.return %[[A]], %[[B]]
func.func @of_several(%x: !graph.tensor<[n, 2], f32>, %y: !graph.tensor<[n, 3], f32>, %z: !graph.tensor<[n, 4], f32>, %v: !graph.tensor<[n + 1], f32>, %w: !graph.tensor<[3], f32>) -> (!graph.tensor<[n, 2], f32>, !graph.tensor<[n + 2], f32>) {
  %p = graph.concat %x, %y, %z {axis = 1 : i64} : (!graph.tensor<[n, 2], f32>, !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 9], f32>
  %a = graph.slice %p {starts = #graph.shape<[0, 1]>, sizes = #graph.shape<[n, 2]>, steps = array<i64: 1, 2>} : (!graph.tensor<[n, 9], f32>) -> !graph.tensor<[n, 2], f32>
  %q = graph.concat %v, %w {axis = 0 : i64} : (!graph.tensor<[n + 1], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[n + 4], f32>
  %b = graph.slice %q {starts = #graph.shape<[1]>, sizes = #graph.shape<[n + 2]>, steps = array<i64: 1>} : (!graph.tensor<[n + 4], f32>) -> !graph.tensor<[n + 2], f32>
  func.return %a, %b : !graph.tensor<[n, 2], f32>, !graph.tensor<[n + 2], f32>
}

// -----

// One of parts that depend on sizes stays, and so does one that goes backwards.
// CHECK-LABEL: func.func @of_unknown_parts
// CHECK: graph.concat
// CHECK-NEXT: graph.slice
// CHECK-NEXT: graph.concat
// CHECK-NEXT: graph.slice
func.func @of_unknown_parts(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[3], f32>) -> (!graph.tensor<[3], f32>, !graph.tensor<[n + 3], f32>) {
  %p = graph.concat %x, %y {axis = 0 : i64} : (!graph.tensor<[n], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[n + 3], f32>
  %a = graph.slice %p {starts = #graph.shape<[0]>, sizes = #graph.shape<[3]>, steps = array<i64: 1>} : (!graph.tensor<[n + 3], f32>) -> !graph.tensor<[3], f32>
  %q = graph.concat %y, %x {axis = 0 : i64} : (!graph.tensor<[3], f32>, !graph.tensor<[n], f32>) -> !graph.tensor<[n + 3], f32>
  %b = graph.slice %q {starts = #graph.shape<[n + 2]>, sizes = #graph.shape<[n + 3]>, steps = array<i64: -1>} : (!graph.tensor<[n + 3], f32>) -> !graph.tensor<[n + 3], f32>
  func.return %a, %b : !graph.tensor<[3], f32>, !graph.tensor<[n + 3], f32>
}

// -----

// One that goes over both parts, or may do so, stays where others read the concatenation.
// CHECK-LABEL: func.func @over_both
// CHECK: graph.concat
// CHECK-COUNT-2: graph.slice %p
func.func @over_both(%x: !graph.tensor<[n], f32>, %y: !graph.tensor<[3], f32>) -> (!graph.tensor<[2], f32>, !graph.tensor<[1], f32>) {
  %p = graph.concat %x, %y {axis = 0 : i64} : (!graph.tensor<[n], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[n + 3], f32>
  %a = graph.slice %p {starts = #graph.shape<[n - 1]>, sizes = #graph.shape<[2]>, steps = array<i64: 1>} : (!graph.tensor<[n + 3], f32>) -> !graph.tensor<[2], f32>
  %b = graph.slice %p {starts = #graph.shape<[2]>, sizes = #graph.shape<[1]>, steps = array<i64: 1>} : (!graph.tensor<[n + 3], f32>) -> !graph.tensor<[1], f32>
  func.return %a, %b : !graph.tensor<[2], f32>, !graph.tensor<[1], f32>
}

// -----

// Concatenations along one axis are one.
// CHECK-LABEL: func.func @concats
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.concat %x, %x, %y, %y, %x {axis = 1 : i64}
// CHECK-NEXT: func.return %[[A]]
func.func @concats(%x: !graph.tensor<[2, n], f32>, %y: !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3 * n + 6], f32> {
  %p = graph.concat %x, %y {axis = 1 : i64} : (!graph.tensor<[2, n], f32>, !graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, n + 3], f32>
  %q = graph.concat %y, %x {axis = -1 : i64} : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, n], f32>) -> !graph.tensor<[2, n + 3], f32>
  %a = graph.concat %x, %p, %q {axis = 1 : i64} : (!graph.tensor<[2, n], f32>, !graph.tensor<[2, n + 3], f32>, !graph.tensor<[2, n + 3], f32>) -> !graph.tensor<[2, 3 * n + 6], f32>
  func.return %a : !graph.tensor<[2, 3 * n + 6], f32>
}

// -----

// Those along another axis, and those that others read, stay.
// CHECK-LABEL: func.func @other_concats
// CHECK-COUNT-4: graph.concat
func.func @other_concats(%x: !graph.tensor<[2, 2], f32>) -> (!graph.tensor<[6, 2], f32>, !graph.tensor<[4, 4], f32>, !graph.tensor<[4, 2], f32>) {
  %p = graph.concat %x, %x {axis = 0 : i64} : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[4, 2], f32>
  %a = graph.concat %p, %x {axis = 0 : i64} : (!graph.tensor<[4, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[6, 2], f32>
  %q = graph.concat %x, %x {axis = 1 : i64} : (!graph.tensor<[2, 2], f32>, !graph.tensor<[2, 2], f32>) -> !graph.tensor<[2, 4], f32>
  %b = graph.concat %q, %q {axis = 0 : i64} : (!graph.tensor<[2, 4], f32>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[4, 4], f32>
  func.return %a, %b, %p : !graph.tensor<[6, 2], f32>, !graph.tensor<[4, 4], f32>, !graph.tensor<[4, 2], f32>
}

// -----

// Parts that lie side by side are one part, and all parts the tensor.
// CHECK-LABEL: func.func @parts
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[1, 0]>, sizes = #graph.shape<[4, n]>, steps = array<i64: 1, 1>}
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.concat %y, %[[P]] {axis = 0 : i64}
// CHECK-NEXT: func.return %[[A]], %x
func.func @parts(%x: !graph.tensor<[6, n], f32>, %y: !graph.tensor<[1, n], f32>) -> (!graph.tensor<[5, n], f32>, !graph.tensor<[6, n], f32>) {
  %p = graph.slice %x {starts = #graph.shape<[1, 0]>, sizes = #graph.shape<[3, n]>, steps = array<i64: 1, 1>} : (!graph.tensor<[6, n], f32>) -> !graph.tensor<[3, n], f32>
  %q = graph.slice %x {starts = #graph.shape<[4, 0]>, sizes = #graph.shape<[1, n]>, steps = array<i64: 1, 1>} : (!graph.tensor<[6, n], f32>) -> !graph.tensor<[1, n], f32>
  %a = graph.concat %y, %p, %q {axis = 0 : i64} : (!graph.tensor<[1, n], f32>, !graph.tensor<[3, n], f32>, !graph.tensor<[1, n], f32>) -> !graph.tensor<[5, n], f32>
  %s, %t = graph.split %x {axis = 0 : i64, sizes = #graph.shape<[2, 4]>} : (!graph.tensor<[6, n], f32>) -> (!graph.tensor<[2, n], f32>, !graph.tensor<[4, n], f32>)
  %b = graph.concat %s, %t {axis = 0 : i64} : (!graph.tensor<[2, n], f32>, !graph.tensor<[4, n], f32>) -> !graph.tensor<[6, n], f32>
  func.return %a, %b : !graph.tensor<[5, n], f32>, !graph.tensor<[6, n], f32>
}

// -----

// Parts that overlap, in another order, of other steps or of another tensor stay apart.
// CHECK-LABEL: func.func @other_parts
// CHECK-COUNT-4: graph.slice
// CHECK-COUNT-3: graph.concat
func.func @other_parts(%x: !graph.tensor<[6], f32>, %y: !graph.tensor<[6], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  %p = graph.slice %x {starts = #graph.shape<[0]>, sizes = #graph.shape<[2]>, steps = array<i64: 1>} : (!graph.tensor<[6], f32>) -> !graph.tensor<[2], f32>
  %q = graph.slice %x {starts = #graph.shape<[1]>, sizes = #graph.shape<[2]>, steps = array<i64: 1>} : (!graph.tensor<[6], f32>) -> !graph.tensor<[2], f32>
  %r = graph.slice %x {starts = #graph.shape<[2]>, sizes = #graph.shape<[2]>, steps = array<i64: 2>} : (!graph.tensor<[6], f32>) -> !graph.tensor<[2], f32>
  %s = graph.slice %y {starts = #graph.shape<[2]>, sizes = #graph.shape<[2]>, steps = array<i64: 1>} : (!graph.tensor<[6], f32>) -> !graph.tensor<[2], f32>
  %a = graph.concat %p, %q {axis = 0 : i64} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[4], f32>
  %b = graph.concat %p, %r {axis = 0 : i64} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[4], f32>
  %c = graph.concat %p, %s {axis = 0 : i64} : (!graph.tensor<[2], f32>, !graph.tensor<[2], f32>) -> !graph.tensor<[4], f32>
  func.return %a, %b, %c : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// Known indices at equal distances are a slice, and a single one is a slice without its axis.
// CHECK-LABEL: func.func @gathers
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 3]>, sizes = #graph.shape<[n, 2]>, steps = array<i64: 1, -2>}
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 3]>, sizes = #graph.shape<[n, 1]>, steps = array<i64: 1, 1>}
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.reshape %[[P]] {shape = #graph.shape<[n]>}
// CHECK-NEXT: func.return %[[A]], %[[B]]
func.func @gathers(%x: !graph.tensor<[n, 4], f32>) -> (!graph.tensor<[n, 2], f32>, !graph.tensor<[n], f32>) {
  %down = graph.constant {literal = #graph.literal<[3, -3]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %last = graph.constant {literal = #graph.literal<[-1]>, shape = #graph.shape<[]>, element = i64} : () -> !graph.tensor<[], i64>
  %a = graph.gather %x, %down {axis = 1 : i64} : (!graph.tensor<[n, 4], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[n, 2], f32>
  %b = graph.gather %x, %last {axis = 1 : i64} : (!graph.tensor<[n, 4], f32>, !graph.tensor<[], i64>) -> !graph.tensor<[n], f32>
  func.return %a, %b : !graph.tensor<[n, 2], f32>, !graph.tensor<[n], f32>
}

// -----

// Indices at other distances, twice the same one, and those of an axis that a call may make too
// short.
// CHECK-LABEL: func.func @other_gathers
// CHECK-COUNT-3: graph.gather
func.func @other_gathers(%x: !graph.tensor<[n, 4], f32>) -> (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[2, 4], f32>) {
  %apart = graph.constant {literal = #graph.literal<[0, 1, 3]>, shape = #graph.shape<[3]>, element = i64} : () -> !graph.tensor<[3], i64>
  %same = graph.constant {literal = #graph.literal<[1, 1]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %rows = graph.constant {literal = #graph.literal<[0, 1]>, shape = #graph.shape<[2]>, element = i64} : () -> !graph.tensor<[2], i64>
  %a = graph.gather %x, %apart {axis = 1 : i64} : (!graph.tensor<[n, 4], f32>, !graph.tensor<[3], i64>) -> !graph.tensor<[n, 3], f32>
  %b = graph.gather %x, %same {axis = 1 : i64} : (!graph.tensor<[n, 4], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[n, 2], f32>
  %c = graph.gather %x, %rows {axis = 0 : i64} : (!graph.tensor<[n, 4], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[2, 4], f32>
  func.return %a, %b, %c : !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[2, 4], f32>
}

// -----

// A sum of transposes is the transpose of a sum, and a transposed product, of which a factor is
// transposed, one of the factors in the other order: gradients of weights are.
// CHECK-LABEL: func.func @transposes
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.sub %x, %y
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.transpose %[[S]] {permutation = array<i64: 1, 0>}
// CHECK-NEXT: %[[Z:[a-z_0-9]+]] = graph.transpose %z {permutation = array<i64: 1, 0>}
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.matmul %y, %z
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.matmul %[[Z]], %w
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = graph.transpose %v {permutation = array<i64: 1, 0>}
// CHECK-NEXT: %[[D:[a-z_0-9]+]] = graph.matmul %y, %[[W]]
// CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @transposes(%x: !graph.tensor<[n, m], f32>, %y: !graph.tensor<[n, m], f32>, %z: !graph.tensor<[m, 2], f32>, %w: !graph.tensor<[m, k], f32>, %v: !graph.tensor<[k, m], f32>) -> (!graph.tensor<[m, n], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[2, k], f32>, !graph.tensor<[n, k], f32>) {
  %p = graph.transpose %x {permutation = array<i64: 1, 0>} : (!graph.tensor<[n, m], f32>) -> !graph.tensor<[m, n], f32>
  %q = graph.transpose %y {permutation = array<i64: 1, 0>} : (!graph.tensor<[n, m], f32>) -> !graph.tensor<[m, n], f32>
  %a = graph.sub %p, %q : (!graph.tensor<[m, n], f32>, !graph.tensor<[m, n], f32>) -> !graph.tensor<[m, n], f32>
  %r = graph.transpose %z {permutation = array<i64: 1, 0>} : (!graph.tensor<[m, 2], f32>) -> !graph.tensor<[2, m], f32>
  %s = graph.transpose %y {permutation = array<i64: 1, 0>} : (!graph.tensor<[n, m], f32>) -> !graph.tensor<[m, n], f32>
  %t = graph.matmul %r, %s : (!graph.tensor<[2, m], f32>, !graph.tensor<[m, n], f32>) -> !graph.tensor<[2, n], f32>
  %b = graph.transpose %t {permutation = array<i64: 1, 0>} : (!graph.tensor<[2, n], f32>) -> !graph.tensor<[n, 2], f32>
  %u = graph.transpose %w {permutation = array<i64: 1, 0>} : (!graph.tensor<[m, k], f32>) -> !graph.tensor<[k, m], f32>
  %e = graph.matmul %u, %z : (!graph.tensor<[k, m], f32>, !graph.tensor<[m, 2], f32>) -> !graph.tensor<[k, 2], f32>
  %c = graph.transpose %e {permutation = array<i64: 1, 0>} : (!graph.tensor<[k, 2], f32>) -> !graph.tensor<[2, k], f32>
  %f = graph.matmul %v, %s : (!graph.tensor<[k, m], f32>, !graph.tensor<[m, n], f32>) -> !graph.tensor<[k, n], f32>
  %d = graph.transpose %f {permutation = array<i64: 1, 0>} : (!graph.tensor<[k, n], f32>) -> !graph.tensor<[n, k], f32>
  func.return %a, %b, %c, %d : !graph.tensor<[m, n], f32>, !graph.tensor<[n, 2], f32>, !graph.tensor<[2, k], f32>, !graph.tensor<[n, k], f32>
}

// -----

// Other orders, a transpose that somebody else reads, and one of batches.
// CHECK-LABEL: func.func @other_transposes
// CHECK-COUNT-2: graph.transpose
// CHECK: graph.add
// CHECK: graph.mul
// CHECK: graph.matmul
// CHECK: graph.transpose
func.func @other_transposes(%x: !graph.tensor<[2, 2, 2], f32>) -> (!graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>) {
  %p = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[2, 2, 2], f32>) -> !graph.tensor<[2, 2, 2], f32>
  %q = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (!graph.tensor<[2, 2, 2], f32>) -> !graph.tensor<[2, 2, 2], f32>
  %a = graph.add %p, %q : (!graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>) -> !graph.tensor<[2, 2, 2], f32>
  %b = graph.mul %p, %p : (!graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>) -> !graph.tensor<[2, 2, 2], f32>
  %r = graph.matmul %q, %q : (!graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>) -> !graph.tensor<[2, 2, 2], f32>
  %c = graph.transpose %r {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[2, 2, 2], f32>) -> !graph.tensor<[2, 2, 2], f32>
  func.return %a, %b, %c : !graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>, !graph.tensor<[2, 2, 2], f32>
}

// -----

// Rows that are moved before a product and the bias of its columns are moved behind both.
// CHECK-LABEL: func.func @moved_rows
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.matmul %x, %w
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.add %[[P]], %b
// CHECK-NEXT: %[[T:[a-z_0-9]+]] = graph.transpose %[[S]] {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: func.return %[[T]]
func.func @moved_rows(%x: !graph.tensor<[n, s, 4], f32>, %w: !graph.tensor<[4, 6], f32>, %b: !graph.tensor<[6], f32>) -> !graph.tensor<[s, n, 6], f32> {
  %t = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (!graph.tensor<[n, s, 4], f32>) -> !graph.tensor<[s, n, 4], f32>
  %p = graph.matmul %t, %w : (!graph.tensor<[s, n, 4], f32>, !graph.tensor<[4, 6], f32>) -> !graph.tensor<[s, n, 6], f32>
  %y = graph.add %p, %b : (!graph.tensor<[s, n, 6], f32>, !graph.tensor<[6], f32>) -> !graph.tensor<[s, n, 6], f32>
  func.return %y : !graph.tensor<[s, n, 6], f32>
}

// -----

// Where the dim that is summed moves, or each batch has weights of its own, or others read the rows, they stay.
// CHECK-LABEL: func.func @kept_rows
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.transpose %x {permutation = array<i64: 0, 2, 1>}
// CHECK-NEXT: graph.matmul %[[A]], %w
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.transpose %x {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: graph.matmul %[[B]], %v
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.transpose %z
// CHECK-NEXT: graph.matmul %[[C]], %w
func.func @kept_rows(%x: !graph.tensor<[n, 4, 4], f32>, %z: !graph.tensor<[n, s, 4], f32>, %w: !graph.tensor<[4, 6], f32>, %v: !graph.tensor<[4, 4, 6], f32>) -> (!graph.tensor<[n, 4, 6], f32>, !graph.tensor<[4, n, 6], f32>, !graph.tensor<[s, n, 6], f32>, !graph.tensor<[s, n, 4], f32>) {
  %a = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (!graph.tensor<[n, 4, 4], f32>) -> !graph.tensor<[n, 4, 4], f32>
  %p = graph.matmul %a, %w : (!graph.tensor<[n, 4, 4], f32>, !graph.tensor<[4, 6], f32>) -> !graph.tensor<[n, 4, 6], f32>
  %b = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (!graph.tensor<[n, 4, 4], f32>) -> !graph.tensor<[4, n, 4], f32>
  %q = graph.matmul %b, %v : (!graph.tensor<[4, n, 4], f32>, !graph.tensor<[4, 4, 6], f32>) -> !graph.tensor<[4, n, 6], f32>
  %c = graph.transpose %z {permutation = array<i64: 1, 0, 2>} : (!graph.tensor<[n, s, 4], f32>) -> !graph.tensor<[s, n, 4], f32>
  %r = graph.matmul %c, %w : (!graph.tensor<[s, n, 4], f32>, !graph.tensor<[4, 6], f32>) -> !graph.tensor<[s, n, 6], f32>
  func.return %p, %q, %r, %c : !graph.tensor<[n, 4, 6], f32>, !graph.tensor<[4, n, 6], f32>, !graph.tensor<[s, n, 6], f32>, !graph.tensor<[s, n, 4], f32>
}

// -----

// The first elements in sorted order need no more than their positions.
// CHECK-LABEL: func.func @first_sorted
// CHECK-NEXT: %[[O:[a-z_0-9]+]] = graph.argsort %x {axis = 1 : i64, descending = true, count = #graph.shape<[3]>}
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.gather_elements %x, %[[O]]
// CHECK-NEXT: %[[I:[a-z_0-9]+]] = graph.cast %[[O]]
// CHECK-NEXT: func.return %[[Y]], %[[I]]
func.func @first_sorted(%x: !graph.tensor<[n, 9], f32>) -> (!graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], i32>) {
  %o = graph.argsort %x {axis = 1 : i64, descending = true, count = #graph.shape<[9]>} : (!graph.tensor<[n, 9], f32>) -> !graph.tensor<[n, 9], i64>
  %y = graph.gather_elements %x, %o {axis = 1 : i64} : (!graph.tensor<[n, 9], f32>, !graph.tensor<[n, 9], i64>) -> !graph.tensor<[n, 9], f32>
  %i = graph.cast %o {to = i32} : (!graph.tensor<[n, 9], i64>) -> !graph.tensor<[n, 9], i32>
  %a = graph.slice %y {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[n, 3]>, steps = array<i64: 1, 1>} : (!graph.tensor<[n, 9], f32>) -> !graph.tensor<[n, 3], f32>
  %b = graph.slice %i {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[n, 3]>, steps = array<i64: 1, 1>} : (!graph.tensor<[n, 9], i32>) -> !graph.tensor<[n, 3], i32>
  func.return %a, %b : !graph.tensor<[n, 3], f32>, !graph.tensor<[n, 3], i32>
}

// -----

// Where others read all of the order, or elements from the middle on, it is sorted once.
// CHECK-LABEL: func.func @all_sorted
// CHECK-NEXT: %[[O:[a-z_0-9]+]] = graph.argsort %x {{.*}}count = #graph.shape<[9]>
// CHECK-NOT: graph.argsort
// CHECK: func.return
func.func @all_sorted(%x: !graph.tensor<[9], f32>) -> (!graph.tensor<[9], i64>, !graph.tensor<[3], i64>, !graph.tensor<[3], f32>) {
  %o = graph.argsort %x {axis = 0 : i64, descending = true, count = #graph.shape<[9]>} : (!graph.tensor<[9], f32>) -> !graph.tensor<[9], i64>
  %a = graph.slice %o {starts = #graph.shape<[0]>, sizes = #graph.shape<[3]>, steps = array<i64: 1>} : (!graph.tensor<[9], i64>) -> !graph.tensor<[3], i64>
  %y = graph.gather_elements %x, %o {axis = 0 : i64} : (!graph.tensor<[9], f32>, !graph.tensor<[9], i64>) -> !graph.tensor<[9], f32>
  %b = graph.slice %y {starts = #graph.shape<[2]>, sizes = #graph.shape<[3]>, steps = array<i64: 1>} : (!graph.tensor<[9], f32>) -> !graph.tensor<[3], f32>
  func.return %o, %a, %b : !graph.tensor<[9], i64>, !graph.tensor<[3], i64>, !graph.tensor<[3], f32>
}

// -----

// Elementwise operators broadcast their operands themselves, and put dims of 1 in front of them.
// CHECK-LABEL: func.func @expanded
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.sub %x, %v
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.mul %v, %w
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.where %k, %x, %v
// CHECK-NEXT: %[[D:[a-z_0-9]+]] = graph.add %v, %x
// CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @expanded(%x: !graph.tensor<[n, 4], f32>, %v: !graph.tensor<[4], f32>, %w: !graph.tensor<[n, 1], f32>, %k: !graph.tensor<[n, 1], i1>) -> (!graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>) {
  %e = graph.expand %v {shape = #graph.shape<[n, 4]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[n, 4], f32>
  %f = graph.expand %w {shape = #graph.shape<[n, 4]>} : (!graph.tensor<[n, 1], f32>) -> !graph.tensor<[n, 4], f32>
  %g = graph.expand %k {shape = #graph.shape<[n, 4]>} : (!graph.tensor<[n, 1], i1>) -> !graph.tensor<[n, 4], i1>
  %a = graph.sub %x, %e : (!graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 4], f32>
  %b = graph.mul %e, %f : (!graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 4], f32>
  %c = graph.where %g, %x, %e : (!graph.tensor<[n, 4], i1>, !graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 4], f32>
  %r = graph.reshape %v {shape = #graph.shape<[1, 4]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[1, 4], f32>
  %d = graph.add %r, %x : (!graph.tensor<[1, 4], f32>, !graph.tensor<[n, 4], f32>) -> !graph.tensor<[n, 4], f32>
  func.return %a, %b, %c, %d : !graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>, !graph.tensor<[n, 4], f32>
}

// -----

// Where nothing else has the result's dims the expansion stays, as does a reshape into other dims.
// CHECK-LABEL: func.func @expands
// CHECK-NEXT: %[[E:[a-z_0-9]+]] = graph.expand %v
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.add %[[E]], %[[E]]
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.exp %[[A]]
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.reshape %v
// CHECK-NEXT: graph.mul %[[B]], %[[C]]
func.func @expands(%v: !graph.tensor<[4], f32>) -> !graph.tensor<[4, 2, 4], f32> {
  %e = graph.expand %v {shape = #graph.shape<[2, 4]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[2, 4], f32>
  %a = graph.add %e, %e : (!graph.tensor<[2, 4], f32>, !graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, 4], f32>
  %b = graph.exp %a : (!graph.tensor<[2, 4], f32>) -> !graph.tensor<[2, 4], f32>
  %c = graph.reshape %v {shape = #graph.shape<[4, 1, 1]>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4, 1, 1], f32>
  %d = graph.mul %b, %c : (!graph.tensor<[2, 4], f32>, !graph.tensor<[4, 1, 1], f32>) -> !graph.tensor<[4, 2, 4], f32>
  func.return %d : !graph.tensor<[4, 2, 4], f32>
}

// -----

// Behind a product that is transposed in a further way that way stays, where both factors are
// transposed; where one is, all stays.
// CHECK-LABEL: func.func @turned
// CHECK-NEXT: %[[V:[a-z_0-9]+]] = graph.transpose %v {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = graph.matmul %p, %[[V]]
// CHECK-NEXT: graph.transpose %[[P]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = graph.transpose %q {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-NEXT: graph.matmul %w, %[[Q]]
// CHECK-NEXT: graph.transpose
func.func @turned(%v: !graph.tensor<[2, 3, 4, 5], f32>, %p: !graph.tensor<[2, 4, 6, 3], f32>, %w: !graph.tensor<[2, 4, 5, 3], f32>, %q: !graph.tensor<[2, 4, 6, 3], f32>) -> (!graph.tensor<[2, 6, 4, 5], f32>, !graph.tensor<[2, 6, 4, 5], f32>) {
  %a = graph.transpose %v {permutation = array<i64: 0, 2, 3, 1>} : (!graph.tensor<[2, 3, 4, 5], f32>) -> !graph.tensor<[2, 4, 5, 3], f32>
  %b = graph.transpose %p {permutation = array<i64: 0, 1, 3, 2>} : (!graph.tensor<[2, 4, 6, 3], f32>) -> !graph.tensor<[2, 4, 3, 6], f32>
  %c = graph.matmul %a, %b : (!graph.tensor<[2, 4, 5, 3], f32>, !graph.tensor<[2, 4, 3, 6], f32>) -> !graph.tensor<[2, 4, 5, 6], f32>
  %d = graph.transpose %c {permutation = array<i64: 0, 3, 1, 2>} : (!graph.tensor<[2, 4, 5, 6], f32>) -> !graph.tensor<[2, 6, 4, 5], f32>
  %e = graph.transpose %q {permutation = array<i64: 0, 1, 3, 2>} : (!graph.tensor<[2, 4, 6, 3], f32>) -> !graph.tensor<[2, 4, 3, 6], f32>
  %f = graph.matmul %w, %e : (!graph.tensor<[2, 4, 5, 3], f32>, !graph.tensor<[2, 4, 3, 6], f32>) -> !graph.tensor<[2, 4, 5, 6], f32>
  %g = graph.transpose %f {permutation = array<i64: 0, 3, 1, 2>} : (!graph.tensor<[2, 4, 5, 6], f32>) -> !graph.tensor<[2, 6, 4, 5], f32>
  func.return %d, %g : !graph.tensor<[2, 6, 4, 5], f32>, !graph.tensor<[2, 6, 4, 5], f32>
}

// -----

// What is added to a small part of a tensor is added there.
// CHECK-LABEL: func.func @main
// CHECK: %[[OLD:[0-9a-z]+]] = graph.slice %x {starts = #graph.shape<[3]>, sizes = #graph.shape<[1]>
// CHECK: %[[NEW:[0-9a-z]+]] = graph.add %[[OLD]], %u
// CHECK: graph.insert_slice %x, %[[NEW]] {starts = #graph.shape<[3]>
func.func @main(%x: !graph.tensor<[9], f32>, %u: !graph.tensor<[1], f32>) -> !graph.tensor<[9], f32> {
  %z = graph.scatter_slice %u {shape = #graph.shape<[9]>, starts = #graph.shape<[3]>, steps = array<i64: 1>} : (!graph.tensor<[1], f32>) -> !graph.tensor<[9], f32>
  %y = graph.add %x, %z : (!graph.tensor<[9], f32>, !graph.tensor<[9], f32>) -> !graph.tensor<[9], f32>
  func.return %y : !graph.tensor<[9], f32>
}

// -----

// Large parts are added with their zeros, in one pass.
// CHECK-LABEL: func.func @main
// CHECK: graph.scatter_slice
// CHECK-NOT: graph.insert_slice
func.func @main(%x: !graph.tensor<[9], f32>, %u: !graph.tensor<[3], f32>) -> !graph.tensor<[9], f32> {
  %z = graph.scatter_slice %u {shape = #graph.shape<[9]>, starts = #graph.shape<[3]>, steps = array<i64: 1>} : (!graph.tensor<[3], f32>) -> !graph.tensor<[9], f32>
  %y = graph.add %x, %z : (!graph.tensor<[9], f32>, !graph.tensor<[9], f32>) -> !graph.tensor<[9], f32>
  func.return %y : !graph.tensor<[9], f32>
}
