// RUN: weft-opt %s --split-input-file -p weft-rewrite,weft-cse-dce | filecheck %s

// Zeros around an image are those of a convolution, besides its own.
// CHECK-LABEL: func.func @convolution
// CHECK-NEXT: %[[Y:[a-z_0-9]+]] = graph.conv %x, %w {group = 1 : i64, pads = array<i64: 1, 3, 0, 1>}
// CHECK-NEXT: func.return %[[Y]]
func.func @convolution(%x: !graph.tensor<[n, 2, h, 5], f32>, %w: !graph.tensor<[4, 2, 2, 3], f32>) -> !graph.tensor<[n, 4, h, 7], f32> {
  %p = graph.pad %x {pads = #graph.shape<[0, 0, 1, 2, 0, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[n, 2, h, 5], f32>) -> !graph.tensor<[n, 2, h + 1, 7], f32>
  %y = graph.conv %p, %w {group = 1 : i64, pads = array<i64: 0, 1, 0, 1>} : (!graph.tensor<[n, 2, h + 1, 7], f32>, !graph.tensor<[4, 2, 2, 3], f32>) -> !graph.tensor<[n, 4, h, 7], f32>
  func.return %y : !graph.tensor<[n, 4, h, 7], f32>
}

// -----

// Of other numbers, in another mode, around channels, or cropping: the pad stays, as it does where
// somebody else reads it.
// CHECK-LABEL: func.func @other_pads
// CHECK-COUNT-5: graph.pad
// CHECK-COUNT-5: graph.conv
func.func @other_pads(%x: !graph.tensor<[1, 2, 4], f32>, %w: !graph.tensor<[1, 2, 1], f32>, %v: !graph.tensor<[1, 4, 1], f32>) -> (!graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 3], f32>, !graph.tensor<[1, 1, 6], f32>, !graph.tensor<[1, 2, 6], f32>) {
  %one = graph.constant {literal = #graph.literal<[1.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %p1 = graph.pad %x, %one {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %p2 = graph.pad %x {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "edge"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %p3 = graph.pad %x {pads = #graph.shape<[0, 2, 0, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 4, 4], f32>
  %p4 = graph.pad %x {pads = #graph.shape<[0, 0, -1, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 3], f32>
  %p5 = graph.pad %x {pads = #graph.shape<[0, 0, 1, 0, 0, 1]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 6], f32>
  %a = graph.conv %p1, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 5], f32>, !graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[1, 1, 5], f32>
  %b = graph.conv %p2, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 5], f32>, !graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[1, 1, 5], f32>
  %c = graph.conv %p3, %v {group = 1 : i64} : (!graph.tensor<[1, 4, 4], f32>, !graph.tensor<[1, 4, 1], f32>) -> !graph.tensor<[1, 1, 4], f32>
  %d = graph.conv %p4, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 3], f32>, !graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[1, 1, 3], f32>
  %e = graph.conv %p5, %w {group = 1 : i64} : (!graph.tensor<[1, 2, 6], f32>, !graph.tensor<[1, 2, 1], f32>) -> !graph.tensor<[1, 1, 6], f32>
  func.return %a, %b, %c, %d, %e, %p5 : !graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 5], f32>, !graph.tensor<[1, 1, 4], f32>, !graph.tensor<[1, 1, 3], f32>, !graph.tensor<[1, 1, 6], f32>, !graph.tensor<[1, 2, 6], f32>
}

// -----

// For a maximum the least number is neutral, and 0 where nothing is less; for a mean zeros that
// count.
// CHECK-LABEL: func.func @pools
// CHECK-NEXT: %[[R:[a-z_0-9]+]] = graph.relu %x
// CHECK-NEXT: %[[A:[a-z_0-9]+]] = graph.max_pool %x {{.*}}pads = array<i64: 1, 0>
// CHECK-NEXT: %[[B:[a-z_0-9]+]] = graph.max_pool %[[R]] {{.*}}pads = array<i64: 1, 0>
// CHECK-NEXT: %[[C:[a-z_0-9]+]] = graph.average_pool %x {{.*}}count_include_pad = true{{.*}}pads = array<i64: 1, 0>
// CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]]
func.func @pools(%x: !graph.tensor<[1, 2, 4], f32>) -> (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[1, 2, 4], f32>, !graph.tensor<[1, 2, 4], f32>) {
  %least = graph.constant {literal = #graph.literal<[-inf]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %r = graph.relu %x : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 4], f32>
  %p = graph.pad %x, %least {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %a = graph.max_pool %p {kernel = array<i64: 2>, ceil_mode = false} : (!graph.tensor<[1, 2, 5], f32>) -> !graph.tensor<[1, 2, 4], f32>
  %q = graph.pad %r {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %b = graph.max_pool %q {kernel = array<i64: 2>, ceil_mode = false} : (!graph.tensor<[1, 2, 5], f32>) -> !graph.tensor<[1, 2, 4], f32>
  %s = graph.pad %x {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %c = graph.average_pool %s {kernel = array<i64: 2>, ceil_mode = false, count_include_pad = false} : (!graph.tensor<[1, 2, 5], f32>) -> !graph.tensor<[1, 2, 4], f32>
  func.return %a, %b, %c : !graph.tensor<[1, 2, 4], f32>, !graph.tensor<[1, 2, 4], f32>, !graph.tensor<[1, 2, 4], f32>
}

// -----

// 0 is greater than what is negative; a window all of padding is not what a pool has; zeros that
// are to count do not where the pool's own do not.
// CHECK-LABEL: func.func @other_pools
// CHECK-COUNT-3: graph.pad
func.func @other_pools(%x: !graph.tensor<[1, 2, 4], f32>) -> (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[1, 2, 5], f32>, !graph.tensor<[1, 2, 6], f32>) {
  %least = graph.constant {literal = #graph.literal<[-inf]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %p = graph.pad %x {pads = #graph.shape<[0, 0, 1, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %a = graph.max_pool %p {kernel = array<i64: 2>, ceil_mode = false} : (!graph.tensor<[1, 2, 5], f32>) -> !graph.tensor<[1, 2, 4], f32>
  %q = graph.pad %x, %least {pads = #graph.shape<[0, 0, 2, 0, 0, 0]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[1, 2, 6], f32>
  %b = graph.max_pool %q {kernel = array<i64: 2>, ceil_mode = false} : (!graph.tensor<[1, 2, 6], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %r = graph.pad %x {pads = #graph.shape<[0, 0, 0, 0, 0, 1]>, mode = "constant"} : (!graph.tensor<[1, 2, 4], f32>) -> !graph.tensor<[1, 2, 5], f32>
  %c = graph.average_pool %r {kernel = array<i64: 2>, pads = array<i64: 1, 1>, ceil_mode = false, count_include_pad = false} : (!graph.tensor<[1, 2, 5], f32>) -> !graph.tensor<[1, 2, 6], f32>
  func.return %a, %b, %c : !graph.tensor<[1, 2, 4], f32>, !graph.tensor<[1, 2, 5], f32>, !graph.tensor<[1, 2, 6], f32>
}

// -----

// A padded convolution reads no columns that it steps over with a single tap.
// CHECK-LABEL: func.func @single_tap
// CHECK-NEXT: %[[S:[a-z_0-9]+]] = graph.slice %x {starts = #graph.shape<[0, 0, 0, 0]>, sizes = #graph.shape<[n, 2, h, 3]>, steps = array<i64: 1, 1, 1, 3>}
// CHECK-NEXT: graph.conv %[[S]], %w {group = 1 : i64, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 0>}
func.func @single_tap(%x: !graph.tensor<[n, 2, h, 8], f32>, %w: !graph.tensor<[4, 2, 3, 1], f32>) -> !graph.tensor<[n, 4, (h - 1) floordiv 2 + 1, 3], f32> {
  %y = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2, 3>, pads = array<i64: 1, 0, 1, 0>} : (!graph.tensor<[n, 2, h, 8], f32>, !graph.tensor<[4, 2, 3, 1], f32>) -> !graph.tensor<[n, 4, (h - 1) floordiv 2 + 1, 3], f32>
  func.return %y : !graph.tensor<[n, 4, (h - 1) floordiv 2 + 1, 3], f32>
}

// -----

// Where nothing is padded an image is read where it is, and padding along the axis moves what is stepped over.
// CHECK-LABEL: func.func @other_steps
// CHECK-NOT: graph.slice
// CHECK: func.return
func.func @other_steps(%x: !graph.tensor<[1, 2, 9, 9], f32>, %w: !graph.tensor<[4, 2, 3, 1], f32>) -> (!graph.tensor<[1, 4, 4, 5], f32>, !graph.tensor<[1, 4, 5, 6], f32>) {
  %y = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2, 2>} : (!graph.tensor<[1, 2, 9, 9], f32>, !graph.tensor<[4, 2, 3, 1], f32>) -> !graph.tensor<[1, 4, 4, 5], f32>
  %z = graph.conv %x, %w {group = 1 : i64, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[1, 2, 9, 9], f32>, !graph.tensor<[4, 2, 3, 1], f32>) -> !graph.tensor<[1, 4, 5, 6], f32>
  func.return %y, %z : !graph.tensor<[1, 4, 4, 5], f32>, !graph.tensor<[1, 4, 5, 6], f32>
}

// -----

// A sum of one term is a product; each channel of the image counts for all of its group.
// CHECK-LABEL: func.func @one_term
// CHECK: %[[W:[a-z_0-9]+]] = graph.reshape %w {{.*}} -> !graph.tensor<[4, 1], f32>
// CHECK: %[[P:[a-z_0-9]+]] = graph.mul %x, %[[W]]
// CHECK: %[[B:[a-z_0-9]+]] = graph.reshape %b {{.*}} -> !graph.tensor<[4, 1], f32>
// CHECK: graph.add %[[P]], %[[B]]
// CHECK: %[[X:[a-z_0-9]+]] = graph.reshape %x {{.*}} -> !graph.tensor<[n, 4, 1, 9], f32>
// CHECK: %[[V:[a-z_0-9]+]] = graph.reshape %v {{.*}} -> !graph.tensor<[4, 2, 1], f32>
// CHECK: graph.mul %[[X]], %[[V]]
// CHECK-NOT: graph.conv
func.func @one_term(%x: !graph.tensor<[n, 4, 9], f32>, %w: !graph.tensor<[4, 1, 1], f32>, %v: !graph.tensor<[8, 1, 1], f32>, %b: !graph.tensor<[4], f32>) -> (!graph.tensor<[n, 4, 9], f32>, !graph.tensor<[n, 8, 9], f32>) {
  %y = graph.conv %x, %w, %b {group = 4 : i64} : (!graph.tensor<[n, 4, 9], f32>, !graph.tensor<[4, 1, 1], f32>, !graph.tensor<[4], f32>) -> !graph.tensor<[n, 4, 9], f32>
  %z = graph.conv %x, %v {group = 4 : i64} : (!graph.tensor<[n, 4, 9], f32>, !graph.tensor<[8, 1, 1], f32>) -> !graph.tensor<[n, 8, 9], f32>
  func.return %y, %z : !graph.tensor<[n, 4, 9], f32>, !graph.tensor<[n, 8, 9], f32>
}

// -----

// Two taps, two channels, padding, steps, and what is rounded between the product and the bias stay.
// CHECK-LABEL: func.func @more_terms
// CHECK-COUNT-5: graph.conv
func.func @more_terms(%x: !graph.tensor<[1, 4, 9], f32>, %h: !graph.tensor<[1, 4, 9], f16>, %w: !graph.tensor<[4, 1, 1], f32>, %k: !graph.tensor<[4, 1, 1], f16>, %u: !graph.tensor<[4, 1, 2], f32>, %v: !graph.tensor<[4, 2, 1], f32>) -> (!graph.tensor<[1, 4, 8], f32>, !graph.tensor<[1, 4, 9], f32>, !graph.tensor<[1, 4, 11], f32>, !graph.tensor<[1, 4, 5], f32>, !graph.tensor<[1, 4, 9], f16>) {
  %a = graph.conv %x, %u {group = 4 : i64} : (!graph.tensor<[1, 4, 9], f32>, !graph.tensor<[4, 1, 2], f32>) -> !graph.tensor<[1, 4, 8], f32>
  %b = graph.conv %x, %v {group = 2 : i64} : (!graph.tensor<[1, 4, 9], f32>, !graph.tensor<[4, 2, 1], f32>) -> !graph.tensor<[1, 4, 9], f32>
  %c = graph.conv %x, %w {group = 4 : i64, pads = array<i64: 1, 1>} : (!graph.tensor<[1, 4, 9], f32>, !graph.tensor<[4, 1, 1], f32>) -> !graph.tensor<[1, 4, 11], f32>
  %d = graph.conv %x, %w {group = 4 : i64, strides = array<i64: 2>} : (!graph.tensor<[1, 4, 9], f32>, !graph.tensor<[4, 1, 1], f32>) -> !graph.tensor<[1, 4, 5], f32>
  %e = graph.conv %h, %k {group = 4 : i64} : (!graph.tensor<[1, 4, 9], f16>, !graph.tensor<[4, 1, 1], f16>) -> !graph.tensor<[1, 4, 9], f16>
  func.return %a, %b, %c, %d, %e : !graph.tensor<[1, 4, 8], f32>, !graph.tensor<[1, 4, 9], f32>, !graph.tensor<[1, 4, 11], f32>, !graph.tensor<[1, 4, 5], f32>, !graph.tensor<[1, 4, 9], f16>
}
