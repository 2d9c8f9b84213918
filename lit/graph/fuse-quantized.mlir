// RUN: weft-opt %s --split-input-file -p weft-fuse-quantized | filecheck %s

// A product of dequantised bytes is one of the bytes; the zero point of the rows takes the columns' sums along.
// CHECK-LABEL: func.func @product
// CHECK: %[[P:[a-z_0-9]+]] = graph.integer_matmul %x, %w
// CHECK: %[[S:[a-z_0-9]+]] = graph.integer_matmul %{{[a-z_0-9]+}}, %w
// CHECK: %[[Z:[a-z_0-9]+]] = graph.mul %{{[a-z_0-9]+}}, %[[S]]
// CHECK: %[[T:[a-z_0-9]+]] = graph.sub %[[P]], %[[Z]]
// CHECK: %[[F:[a-z_0-9]+]] = graph.cast %[[T]] {to = f32}
// CHECK: graph.mul %[[F]]
// CHECK-NOT: graph.matmul
func.func @product(%x: !graph.tensor<[m, 8], ui8>, %w: !graph.tensor<[8, 3], i8>, %zero: !graph.tensor<[], ui8>, %s: !graph.tensor<[], f32>, %t: !graph.tensor<[1, 3], f32>) -> !graph.tensor<[m, 3], f32> {
  %0 = graph.cast %x {to = i32} : (!graph.tensor<[m, 8], ui8>) -> !graph.tensor<[m, 8], i32>
  %1 = graph.cast %zero {to = i32} : (!graph.tensor<[], ui8>) -> !graph.tensor<[], i32>
  %2 = graph.sub %0, %1 : (!graph.tensor<[m, 8], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[m, 8], i32>
  %3 = graph.cast %2 {to = f32} : (!graph.tensor<[m, 8], i32>) -> !graph.tensor<[m, 8], f32>
  %4 = graph.mul %3, %s : (!graph.tensor<[m, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[m, 8], f32>
  %5 = graph.cast %w {to = f32} : (!graph.tensor<[8, 3], i8>) -> !graph.tensor<[8, 3], f32>
  %6 = graph.mul %5, %t : (!graph.tensor<[8, 3], f32>, !graph.tensor<[1, 3], f32>) -> !graph.tensor<[8, 3], f32>
  %7 = graph.matmul %4, %6 : (!graph.tensor<[m, 8], f32>, !graph.tensor<[8, 3], f32>) -> !graph.tensor<[m, 3], f32>
  func.return %7 : !graph.tensor<[m, 3], f32>
}

// -----

// Scales that differ along what is summed are no factor of the sum.
// CHECK-LABEL: func.func @along_k
// CHECK-NOT: graph.integer_matmul
// CHECK: graph.matmul
// CHECK-NOT: graph.integer_matmul
func.func @along_k(%x: !graph.tensor<[2, 8], ui8>, %w: !graph.tensor<[8, 3], i8>, %s: !graph.tensor<[], f32>, %t: !graph.tensor<[8, 1], f32>) -> !graph.tensor<[2, 3], f32> {
  %0 = graph.cast %x {to = f32} : (!graph.tensor<[2, 8], ui8>) -> !graph.tensor<[2, 8], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 8], f32>
  %2 = graph.cast %w {to = f32} : (!graph.tensor<[8, 3], i8>) -> !graph.tensor<[8, 3], f32>
  %3 = graph.mul %2, %t : (!graph.tensor<[8, 3], f32>, !graph.tensor<[8, 1], f32>) -> !graph.tensor<[8, 3], f32>
  %4 = graph.matmul %1, %3 : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %4 : !graph.tensor<[2, 3], f32>
}

// -----

// Nor is a wider integer a byte.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: graph.integer_matmul
// CHECK: graph.matmul
// CHECK-NOT: graph.integer_matmul
func.func @wide(%x: !graph.tensor<[2, 8], i16>, %w: !graph.tensor<[8, 3], i8>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[2, 3], f32> {
  %0 = graph.cast %x {to = f32} : (!graph.tensor<[2, 8], i16>) -> !graph.tensor<[2, 8], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 8], f32>
  %2 = graph.cast %w {to = f32} : (!graph.tensor<[8, 3], i8>) -> !graph.tensor<[8, 3], f32>
  %3 = graph.mul %2, %s : (!graph.tensor<[8, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8, 3], f32>
  %4 = graph.matmul %1, %3 : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %4 : !graph.tensor<[2, 3], f32>
}

// -----

// A sum of so many products of bytes may overflow i32, which floats do not.
// CHECK-LABEL: func.func @long
// CHECK-NOT: graph.integer_matmul
// CHECK: graph.matmul
// CHECK-NOT: graph.integer_matmul
func.func @long(%x: !graph.tensor<[2, 40000], ui8>, %w: !graph.tensor<[40000, 3], i8>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[2, 3], f32> {
  %0 = graph.cast %x {to = f32} : (!graph.tensor<[2, 40000], ui8>) -> !graph.tensor<[2, 40000], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 40000], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 40000], f32>
  %2 = graph.cast %w {to = f32} : (!graph.tensor<[40000, 3], i8>) -> !graph.tensor<[40000, 3], f32>
  %3 = graph.mul %2, %s : (!graph.tensor<[40000, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[40000, 3], f32>
  %4 = graph.matmul %1, %3 : (!graph.tensor<[2, 40000], f32>, !graph.tensor<[40000, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %4 : !graph.tensor<[2, 3], f32>
}

// -----

// A difference that is computed in bytes wraps, and is no distance from a zero point.
// CHECK-LABEL: func.func @wraps
// CHECK-NOT: graph.integer_matmul
// CHECK: graph.matmul
// CHECK-NOT: graph.integer_matmul
func.func @wraps(%x: !graph.tensor<[2, 8], ui8>, %zero: !graph.tensor<[], ui8>, %w: !graph.tensor<[8, 3], i8>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[2, 3], f32> {
  %a = graph.cast %x {to = i8} : (!graph.tensor<[2, 8], ui8>) -> !graph.tensor<[2, 8], i8>
  %b = graph.cast %zero {to = i8} : (!graph.tensor<[], ui8>) -> !graph.tensor<[], i8>
  %c = graph.sub %a, %b : (!graph.tensor<[2, 8], i8>, !graph.tensor<[], i8>) -> !graph.tensor<[2, 8], i8>
  %0 = graph.cast %c {to = f32} : (!graph.tensor<[2, 8], i8>) -> !graph.tensor<[2, 8], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 8], f32>
  %2 = graph.cast %w {to = f32} : (!graph.tensor<[8, 3], i8>) -> !graph.tensor<[8, 3], f32>
  %3 = graph.mul %2, %s : (!graph.tensor<[8, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8, 3], f32>
  %4 = graph.matmul %1, %3 : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %4 : !graph.tensor<[2, 3], f32>
}

// -----

// What was computed of integers is counted in steps by a product; the division is of one number.
// CHECK-LABEL: func.func @steps
// CHECK: %[[R:[a-z_0-9]+]] = graph.div %{{[a-z_0-9]+}}, %s : (!graph.tensor<[], f32>, !graph.tensor<[], f32>)
// CHECK: %[[Q:[a-z_0-9]+]] = graph.mul %{{[a-z_0-9]+}}, %[[R]]
// CHECK: graph.round %[[Q]]
func.func @steps(%x: !graph.tensor<[m], i8>, %t: !graph.tensor<[], f32>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[m], f32> {
  %0 = graph.cast %x {to = f32} : (!graph.tensor<[m], i8>) -> !graph.tensor<[m], f32>
  %1 = graph.mul %0, %t : (!graph.tensor<[m], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[m], f32>
  %2 = graph.relu %1 : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  %3 = graph.div %2, %s : (!graph.tensor<[m], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[m], f32>
  %4 = graph.round %3 : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  func.return %4 : !graph.tensor<[m], f32>
}

// -----

// The steps of a float that a call gives are as its quotient rounds.
// CHECK-LABEL: func.func @steps_of_a_float
// CHECK-NEXT: %[[Q:[a-z_0-9]+]] = graph.div %x, %s
// CHECK-NEXT: graph.round %[[Q]]
func.func @steps_of_a_float(%x: !graph.tensor<[m], f32>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[m], f32> {
  %0 = graph.div %x, %s : (!graph.tensor<[m], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[m], f32>
  %1 = graph.round %0 : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
  func.return %1 : !graph.tensor<[m], f32>
}

// -----

// What is quantised as it was before a reshape has the bytes of before.
// CHECK-LABEL: func.func @again
// CHECK-NOT: graph.round
// CHECK: %[[R:[a-z_0-9]+]] = graph.reshape %x {{.*}} -> !graph.tensor<[8], i8>
// CHECK-NEXT: func.return %[[R]]
func.func @again(%x: !graph.tensor<[2, 4], i8>) -> !graph.tensor<[8], i8> {
  %s = graph.constant {literal = #graph.literal<[0.25]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %z = graph.constant {literal = #graph.literal<[3]>, shape = #graph.shape<[]>, element = i32} : () -> !graph.tensor<[], i32>
  %b = graph.constant {literal = #graph.literal<[3]>, shape = #graph.shape<[]>, element = i8} : () -> !graph.tensor<[], i8>
  %f = graph.constant {literal = #graph.literal<[3.0]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %i = graph.cast %b {to = i32} : (!graph.tensor<[], i8>) -> !graph.tensor<[], i32>
  %0 = graph.cast %x {to = i32} : (!graph.tensor<[2, 4], i8>) -> !graph.tensor<[2, 4], i32>
  %1 = graph.sub %0, %i : (!graph.tensor<[2, 4], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[2, 4], i32>
  %2 = graph.cast %1 {to = f32} : (!graph.tensor<[2, 4], i32>) -> !graph.tensor<[2, 4], f32>
  %3 = graph.mul %2, %s : (!graph.tensor<[2, 4], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 4], f32>
  %4 = graph.reshape %3 {shape = #graph.shape<[8]>} : (!graph.tensor<[2, 4], f32>) -> !graph.tensor<[8], f32>
  %5 = graph.div %4, %s : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  %6 = graph.round %5 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %7 = graph.add %6, %f : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  %8 = graph.cast %7 {to = i8} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i8>
  func.return %8 : !graph.tensor<[8], i8>
}

// -----

// With another step the bytes are others.
// CHECK-LABEL: func.func @in_other_steps
// CHECK: graph.round
func.func @in_other_steps(%x: !graph.tensor<[8], i8>) -> !graph.tensor<[8], i8> {
  %s = graph.constant {literal = #graph.literal<[0.25]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %t = graph.constant {literal = #graph.literal<[0.5]>, shape = #graph.shape<[]>, element = f32} : () -> !graph.tensor<[], f32>
  %2 = graph.cast %x {to = f32} : (!graph.tensor<[8], i8>) -> !graph.tensor<[8], f32>
  %3 = graph.mul %2, %s : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  %5 = graph.div %3, %t : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  %6 = graph.round %5 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %8 = graph.cast %6 {to = i8} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i8>
  func.return %8 : !graph.tensor<[8], i8>
}

// -----

// Zero points of each column that all are zero add no sums of rows.
// CHECK-LABEL: func.func @symmetric
// CHECK: graph.integer_matmul %x, %w
// CHECK-NOT: graph.sub
// CHECK: func.return
func.func @symmetric(%x: !graph.tensor<[2, 8], ui8>, %w: !graph.tensor<[8, 3], i8>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[2, 3], f32> {
  %z = graph.constant {literal = #graph.literal<[0]>, shape = #graph.shape<[1, 3]>, element = i8} : () -> !graph.tensor<[1, 3], i8>
  %zw = graph.cast %z {to = i32} : (!graph.tensor<[1, 3], i8>) -> !graph.tensor<[1, 3], i32>
  %0 = graph.cast %x {to = f32} : (!graph.tensor<[2, 8], ui8>) -> !graph.tensor<[2, 8], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 8], f32>
  %2 = graph.cast %w {to = i32} : (!graph.tensor<[8, 3], i8>) -> !graph.tensor<[8, 3], i32>
  %3 = graph.sub %2, %zw : (!graph.tensor<[8, 3], i32>, !graph.tensor<[1, 3], i32>) -> !graph.tensor<[8, 3], i32>
  %4 = graph.cast %3 {to = f32} : (!graph.tensor<[8, 3], i32>) -> !graph.tensor<[8, 3], f32>
  %5 = graph.mul %4, %s : (!graph.tensor<[8, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8, 3], f32>
  %6 = graph.matmul %1, %5 : (!graph.tensor<[2, 8], f32>, !graph.tensor<[8, 3], f32>) -> !graph.tensor<[2, 3], f32>
  func.return %6 : !graph.tensor<[2, 3], f32>
}

// -----

// The zero point of filters takes the sums of windows along: of all channels of a pixel first.
// CHECK-LABEL: func.func @windows
// CHECK: %[[P:[a-z_0-9]+]] = graph.integer_conv %x
// CHECK: %[[C:[a-z_0-9]+]] = graph.reduce_sum %{{[a-z_0-9]+}} {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[W:[a-z_0-9]+]] = graph.conv %[[C]], %{{.*}} -> !graph.tensor<[2, 1, 9, 9], i32>
// CHECK: %[[Z:[a-z_0-9]+]] = graph.mul %{{[a-z_0-9]+}}, %[[W]]
// CHECK: graph.sub %[[P]], %[[Z]]
// CHECK-NOT: graph.integer_conv
func.func @windows(%x: !graph.tensor<[2, 16, 9, 9], ui8>, %w: !graph.tensor<[24, 16, 3, 3], ui8>, %zero: !graph.tensor<[], ui8>, %s: !graph.tensor<[], f32>) -> !graph.tensor<[2, 24, 9, 9], f32> {
  %level = graph.cast %zero {to = i32} : (!graph.tensor<[], ui8>) -> !graph.tensor<[], i32>
  %0 = graph.cast %x {to = f32} : (!graph.tensor<[2, 16, 9, 9], ui8>) -> !graph.tensor<[2, 16, 9, 9], f32>
  %1 = graph.mul %0, %s : (!graph.tensor<[2, 16, 9, 9], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[2, 16, 9, 9], f32>
  %2 = graph.cast %w {to = i32} : (!graph.tensor<[24, 16, 3, 3], ui8>) -> !graph.tensor<[24, 16, 3, 3], i32>
  %3 = graph.sub %2, %level : (!graph.tensor<[24, 16, 3, 3], i32>, !graph.tensor<[], i32>) -> !graph.tensor<[24, 16, 3, 3], i32>
  %4 = graph.cast %3 {to = f32} : (!graph.tensor<[24, 16, 3, 3], i32>) -> !graph.tensor<[24, 16, 3, 3], f32>
  %5 = graph.mul %4, %s : (!graph.tensor<[24, 16, 3, 3], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[24, 16, 3, 3], f32>
  %y = graph.conv %1, %5 {group = 1 : i64, pads = array<i64: 1, 1, 1, 1>} : (!graph.tensor<[2, 16, 9, 9], f32>, !graph.tensor<[24, 16, 3, 3], f32>) -> !graph.tensor<[2, 24, 9, 9], f32>
  func.return %y : !graph.tensor<[2, 24, 9, 9], f32>
}
