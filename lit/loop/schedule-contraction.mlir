// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// A matrix product, 16 registers of 8 lanes: sums of 6 rows by 2 vectors stay in registers, the weight lies in panels of
// 16 columns, panels run in parallel. Four terms are written out: the multiply-adds of one are few for an iteration.
// CHECK-LABEL: loop.kernel @matmul
// CHECK-SAME: %w: !loop.buffer<[64, 32], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [2, 64, 16]>
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK-NEXT: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: loop.store %zero, %[[SUMS]]
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 4 unroll reduction(add) {
// CHECK-NEXT: loop.for %[[II:[a-z_0-9]+]] = 0 to 6 unroll {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: loop.load %x[6 * %[[IO]] + %[[II]], 4 * %[[KO]] + %[[KI]]]
// CHECK-NEXT: loop.load %w[4 * %[[KO]] + %[[KI]], 16 * %[[JO]] + %[[JI]]]
// CHECK-NEXT: loop.load %[[SUMS]][%[[II]], %[[JI]]]
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %[[SUMS]][%[[II]], %[[JI]]]
// CHECK: loop.for %[[R:[a-z_0-9]+]] = 0 to 6 unroll {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[SUM:[a-z_0-9]+]] = loop.load %[[SUMS]][%[[R]], %[[C]]]
// CHECK-NEXT: loop.store %[[SUM]], %y[6 * %[[IO]] + %[[R]], 16 * %[[JO]] + %[[C]]]
loop.kernel @matmul(%x: !loop.buffer<[12, 64], f32>, %w: !loop.buffer<[64, 32], f32>, %y: !loop.buffer<[12, 32], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[12, 32], f32>
    }
  }
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      loop.for %k = 0 to 64 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[12, 64], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[64, 32], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[12, 32], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[12, 32], f32>
      }
    }
  }
}

// -----

// Bias and activation are applied to the sums as they leave the registers; the temporary is gone. The sums fill the
// registers, so no more of the reduction is written out than four terms.
// CHECK-LABEL: loop.kernel @bias_relu
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.for %ko = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[SUM:[a-z_0-9]+]] = loop.load %total_r[
// CHECK-NEXT: %[[BIAS:[a-z_0-9]+]] = loop.load %bias[
// CHECK-NEXT: %[[SHIFTED:[a-z_0-9]+]] = arith.addf %[[SUM]], %[[BIAS]]
// CHECK: arith.maximumf %[[SHIFTED]]
// CHECK-NEXT: loop.store %{{.*}}, %y[
loop.kernel @bias_relu(%x: !loop.buffer<[6, 8], f32>, %w: !loop.buffer<[8, 16], f32>, %bias: !loop.buffer<[16], f32>, %y: !loop.buffer<[6, 16], f32>) attributes {weights = [#builtin.int<1>]} {
  %total = loop.alloc workspace : !loop.buffer<[6, 16], f32>
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 16 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %total[%i, %j] : !loop.buffer<[6, 16], f32>
    }
  }
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 16 {
      loop.for %k = 0 to 8 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[6, 8], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[8, 16], f32>
        %s = loop.load %total[%i, %j] : !loop.buffer<[6, 16], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %total[%i, %j] : !loop.buffer<[6, 16], f32>
      }
    }
  }
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 16 {
      %s = loop.load %total[%i, %j] : !loop.buffer<[6, 16], f32>
      %b = loop.load %bias[%j] : !loop.buffer<[16], f32>
      %v = arith.addf %s, %b : f32
      %zero = arith.constant 0.0 : f32
      %r = arith.maximumf %v, %zero : f32
      loop.store %r, %y[%i, %j] : !loop.buffer<[6, 16], f32>
    }
  }
}

// -----

// Without permission to reassociate nothing is a reduction, and no vector runs over it.
// CHECK-LABEL: loop.kernel @ordered
// CHECK-NOT: registers
// CHECK: loop.for %k = 0 to 64 {
loop.kernel @ordered(%x: !loop.buffer<[64], f32>, %w: !loop.buffer<[64], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %k = 0 to 64 {
    %a = loop.load %x[%k] : !loop.buffer<[64], f32>
    %b = loop.load %w[%k] : !loop.buffer<[64], f32>
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// Columns and rows that only a call knows: whole tiles, then rows by ever smaller tiles, and what is left of the columns as
// vectors of which the last is masked. No part is scalar.
// CHECK-LABEL: loop.kernel @any[m, n]
// CHECK: loop.for %jo = 0 to (n floordiv 16)
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %{{.*}} = 0 to ((m mod 6) floordiv 3)
// CHECK: loop.alloc registers : !loop.buffer<[3, 16], f32
// CHECK: loop.alloc registers : !loop.buffer<[2, 16], f32
// CHECK: loop.alloc registers : !loop.buffer<[1, 16], f32
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to -(-(n mod 16) floordiv 8)
// CHECK: loop.alloc registers : !loop.buffer<[6, 8], f32
// CHECK: loop.for %{{.*}} = 0 to min(-8 * %[[JO]] + (n mod 16), 8) unroll vector(8)
loop.kernel @any[m, n](%x: !loop.buffer<[m, 64], f32>, %w: !loop.buffer<[64, n], f32>, %y: !loop.buffer<[m, n], f32>) {
  loop.for %i = 0 to m {
    loop.for %j = 0 to n {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[m, n], f32>
    }
  }
  loop.for %i = 0 to m {
    loop.for %j = 0 to n {
      loop.for %k = 0 to 64 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[m, 64], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[64, n], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[m, n], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[m, n], f32>
      }
    }
  }
}

// -----

// An operand of a call that is larger than the second cache, and that many rows read, is copied into panels first
// where these are too few for threads to share. A few rows after the other go through all panels. A long sum is one of the sums of 128 products.
// CHECK-LABEL: loop.kernel @large
// CHECK: %w_w = loop.alloc workspace : !loop.buffer<[2048, 64], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [4, 2048, 16]>
// CHECK-NEXT: loop.for %[[B:[a-z_0-9]+]] = 0 to 256 parallel {
// CHECK-NEXT: loop.for %[[P:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[K:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %w[8 * %[[B]] + %[[K]], 16 * %[[P]] + %[[C]]]
// CHECK-NEXT: loop.store %[[W]], %w_w[8 * %[[B]] + %[[K]], 16 * %[[P]] + %[[C]]]
// CHECK: loop.for %io = 0 to 128 parallel {
// CHECK-NEXT: loop.for %jo = 0 to 4 {
// CHECK: %y_r = loop.alloc registers
// CHECK: loop.for %ko = 0 to 16 reduction(add) {
// CHECK-NEXT: %[[PART:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %kio = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %kii = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %w_w[128 * %ko + 4 * %kio + %kii, 16 * %jo + %{{.*}}]
// CHECK: loop.store %{{.*}}, %[[PART]]
// CHECK: loop.load %y_r
// CHECK-NEXT: loop.load %[[PART]]
// CHECK-NEXT: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %y_r
loop.kernel @large(%x: !loop.buffer<[768, 2048], f32>, %w: !loop.buffer<[2048, 64], f32>, %y: !loop.buffer<[768, 64], f32>) {
  loop.for %i = 0 to 768 {
    loop.for %j = 0 to 64 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[768, 64], f32>
    }
  }
  loop.for %i = 0 to 768 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 2048 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[768, 2048], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[2048, 64], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[768, 64], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[768, 64], f32>
      }
    }
  }
}

// -----

// Else each panel is copied onto the stack by who computes with it, and stays in the second cache for all rows. The
// first tile of rows copies it, each row of it right before it is multiplied.
// CHECK-LABEL: loop.kernel @near
// CHECK-NEXT: loop.for %jo = 0 to 16 parallel {
// CHECK-NEXT: %w_s = loop.alloc scratch : !loop.buffer<[1024, 16], f32
// CHECK-NEXT: loop.for %[[F:[a-z_0-9]+]] = 0 to 1 {
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 8 reduction(add) {
// CHECK: loop.for %[[KIO:[a-z_0-9]+]] = 0 to 8 reduction(add) {
// CHECK: loop.for %[[KIIO:[a-z_0-9]+]] = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %[[KIII:[a-z_0-9]+]] = 0 to 4 unroll reduction(add) {
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %w[1024 * %[[F]] + 128 * %[[KO]] + 16 * %[[KIO]] + 4 * %[[KIIO]] + %[[KIII]], 16 * %jo + %[[C]]]
// CHECK-NEXT: loop.store %[[W]], %w_s[1024 * %[[F]] + 128 * %[[KO]] + 16 * %[[KIO]] + 4 * %[[KIIO]] + %[[KIII]], %[[C]]]
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 unroll vector(8) {
// CHECK: loop.load %w_s[128 * %[[KO]] + 16 * %[[KIO]] + 4 * %[[KIIO]] + %[[KIII]], %{{.*}}]
// The rows are read a block of the sum ahead, a line of each at a time, at its end those of the next tile; the lines that
// the next tile writes come ahead, too.
// CHECK: loop.for %ior = 0 to 127 {
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %kio = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 16 step 16 unroll {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to 6 unroll {
// CHECK-NEXT: loop.prefetch %x[6 * %ior + %[[R]] + 6 * ((%ko + 1) floordiv 8) + 6, 16 * %kio + %[[L]] + 128 * ((%ko + 1) mod 8)]
// CHECK: loop.for %kiio = 0 to 4 reduction(add) {
// CHECK-NEXT: loop.for %kiii = 0 to 4 unroll reduction(add) {
// CHECK: loop.load %w_s[128 * %ko + 16 * %kio + 4 * %kiio + %kiii, %{{.*}}]
// CHECK: loop.prefetch %y[6 * %ior + %{{.*}} + 12, 16 * %jo + %{{.*}}]
loop.kernel @near(%x: !loop.buffer<[768, 1024], f32>, %w: !loop.buffer<[1024, 256], f32>, %y: !loop.buffer<[768, 256], f32>) {
  loop.for %i = 0 to 768 {
    loop.for %j = 0 to 256 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[768, 256], f32>
    }
  }
  loop.for %i = 0 to 768 {
    loop.for %j = 0 to 256 {
      loop.for %k = 0 to 1024 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[768, 1024], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[1024, 256], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[768, 256], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[768, 256], f32>
      }
    }
  }
}

// -----

// Columns that lie apart are copied onto the stack a panel at a time, in blocks of 8 by 8 that are turned on the way.
// CHECK-LABEL: loop.kernel @transposed
// CHECK: loop.for %jo = 0 to 2 parallel {
// CHECK: %w_s = loop.alloc scratch : !loop.buffer<[16, 20], f32, [d1, d0] in [20, 16]>
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: loop.for %[[KI:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %w[16 * %jo + 8 * %[[JO]] + %[[JI]], 8 * %[[KO]] + %[[KI]]]
// CHECK: loop.for %{{.*}} = 0 to 4 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK: loop.load %w_s[
loop.kernel @transposed(%x: !loop.buffer<[12, 20], f32>, %w: !loop.buffer<[32, 20], f32>, %y: !loop.buffer<[12, 32], f32>) {
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[12, 32], f32>
    }
  }
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      loop.for %k = 0 to 20 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[12, 20], f32>
        %b = loop.load %w[%j, %k] : !loop.buffer<[32, 20], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[12, 32], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[12, 32], f32>
      }
    }
  }
}

// -----

// The tiles of an unknown number of rows, whole ones and smaller ones, share a panel.
// CHECK-LABEL: loop.kernel @shared
// CHECK: loop.alloc scratch : !loop.buffer<[16, 20], f32
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.for %{{.*}} = 0 to (m floordiv 6) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %{{.*}} = 0 to ((m mod 6) floordiv 3) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[3, 16], f32
// CHECK: loop.for %{{.*}} = 0 to (((m mod 6) mod 3) floordiv 2) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[2, 16], f32
// CHECK: loop.for %{{.*}} = 0 to (((m mod 6) mod 3) mod 2) {
// CHECK-NEXT: %{{.*}} = loop.alloc registers : !loop.buffer<[1, 16], f32
// CHECK-NOT: parallel
loop.kernel @shared[m](%x: !loop.buffer<[m, 20], f32>, %w: !loop.buffer<[32, 20], f32>, %y: !loop.buffer<[m, 32], f32>) {
  loop.for %i = 0 to m {
    loop.for %j = 0 to 32 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[m, 32], f32>
    }
  }
  loop.for %i = 0 to m {
    loop.for %j = 0 to 32 {
      loop.for %k = 0 to 20 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[m, 20], f32>
        %b = loop.load %w[%j, %k] : !loop.buffer<[32, 20], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[m, 32], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[m, 32], f32>
      }
    }
  }
}

// -----

// So do the tiles of rows for each of many tiles of columns of a weight.
// CHECK-LABEL: loop.kernel @columns
// CHECK: loop.for %jo = 0 to 12 parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to (m floordiv 6) {
// CHECK: loop.for %{{.*}} = 0 to ((m mod 6) floordiv 3) {
// CHECK: loop.for %{{.*}} = 0 to (((m mod 6) mod 3) floordiv 2) {
// CHECK: loop.for %{{.*}} = 0 to (((m mod 6) mod 3) mod 2) {
// CHECK-NOT: parallel
loop.kernel @columns[m](%x: !loop.buffer<[m, 20], f32>, %w: !loop.buffer<[20, 192], f32>, %y: !loop.buffer<[m, 192], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to m {
    loop.for %j = 0 to 192 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[m, 192], f32>
    }
  }
  loop.for %i = 0 to m {
    loop.for %j = 0 to 192 {
      loop.for %k = 0 to 20 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[m, 20], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[20, 192], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[m, 192], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[m, 192], f32>
      }
    }
  }
}

// -----

// One row and a matrix of long rows: eight of them are read at once and added up before they join the sums in memory.
// CHECK-LABEL: loop.kernel @row
// CHECK: loop.for %jc = 0 to 2 parallel {
// CHECK: loop.for %ko = 0 to 8 reduction(add) {
// CHECK-NEXT: loop.for %[[JP:[a-z_0-9]+]] = 0 to 16 {
// CHECK-NEXT: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1, 64], f32>
// CHECK: loop.for %{{.*}} = 0 to 8 unroll reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 64 unroll vector(8) {
// CHECK: loop.load %y[0, 1024 * %jc + 64 * %[[JP]]
// CHECK: loop.store %{{.*}}, %y[0, 1024 * %jc + 64 * %[[JP]]
loop.kernel @row(%x: !loop.buffer<[1, 64], f32>, %w: !loop.buffer<[64, 2048], f32>, %y: !loop.buffer<[1, 2048], f32>) {
  loop.for %j = 0 to 2048 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[0, %j] : !loop.buffer<[1, 2048], f32>
  }
  loop.for %j = 0 to 2048 {
    loop.for %k = 0 to 64 reduction(add) {
      %a = loop.load %x[0, %k] : !loop.buffer<[1, 64], f32>
      %b = loop.load %w[%k, %j] : !loop.buffer<[64, 2048], f32>
      %s = loop.load %y[0, %j] : !loop.buffer<[1, 2048], f32>
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %s, %p : f32
      loop.store %t, %y[0, %j] : !loop.buffer<[1, 2048], f32>
    }
  }
}

// -----

// Where both operands and the result go on from row to row of an image, its rows are one loop: tiles of 16 neighbours out
// of 49 fill the vectors that rows of 7 would not. The sums, at first in the result, get a buffer with one dim for both.
// CHECK-LABEL: loop.kernel @one_pixel
// CHECK-NOT: loop.alloc workspace
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 3
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %co = 0 to 6 reduction(add) {
// CHECK-NEXT: loop.for %ci = 0 to 4 unroll reduction(add) {
// CHECK: loop.for %[[JI:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK: loop.load %x[4 * %co + %ci, ((16 * %[[JO]] + %[[JI]]) floordiv 7), ((16 * %[[JO]] + %[[JI]]) mod 7)]
loop.kernel @one_pixel(%x: !loop.buffer<[24, 7, 7], f32>, %w: !loop.buffer<[6, 24], f32>, %y: !loop.buffer<[6, 7, 7], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %o = 0 to 6 {
    loop.for %i = 0 to 7 {
      loop.for %j = 0 to 7 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%o, %i, %j] : !loop.buffer<[6, 7, 7], f32>
      }
    }
  }
  loop.for %o = 0 to 6 {
    loop.for %i = 0 to 7 {
      loop.for %j = 0 to 7 {
        loop.for %c = 0 to 24 reduction(add) {
          %a = loop.load %x[%c, %i, %j] : !loop.buffer<[24, 7, 7], f32>
          %b = loop.load %w[%o, %c] : !loop.buffer<[6, 24], f32>
          %s = loop.load %y[%o, %i, %j] : !loop.buffer<[6, 7, 7], f32>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%o, %i, %j] : !loop.buffer<[6, 7, 7], f32>
        }
      }
    }
  }
}

// -----

// Every other column of an image is picked out of whole vectors where the results would else be stored apart: sums of 6
// channels by 16 columns, loaded as they lie, stored side by side.
// CHECK-LABEL: loop.kernel @stride_two
// CHECK: loop.for %s = 0 to 3 reduction(add) {
// CHECK: loop.for %{{.*}} = 0 to 6 unroll {
// CHECK-NEXT: loop.for %[[JI:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: loop.load %x[%c, 2 * %i + %r, {{.*}}2 * %[[JI]]{{.*}}] : !loop.buffer<[3, 65, 65], f32>
loop.kernel @stride_two(%x: !loop.buffer<[3, 65, 65], f32>, %w: !loop.buffer<[12, 3, 3, 3], f32>, %y: !loop.buffer<[12, 32, 32], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %o = 0 to 12 {
    loop.for %i = 0 to 32 {
      loop.for %j = 0 to 32 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%o, %i, %j] : !loop.buffer<[12, 32, 32], f32>
      }
    }
  }
  loop.for %o = 0 to 12 {
    loop.for %i = 0 to 32 {
      loop.for %j = 0 to 32 {
        loop.for %c = 0 to 3 reduction(add) {
          loop.for %r = 0 to 3 reduction(add) {
            loop.for %s = 0 to 3 reduction(add) {
              %a = loop.load %x[%c, 2 * %i + %r, 2 * %j + %s] : !loop.buffer<[3, 65, 65], f32>
              %b = loop.load %w[%o, %c, %r, %s] : !loop.buffer<[12, 3, 3, 3], f32>
              %v = loop.load %y[%o, %i, %j] : !loop.buffer<[12, 32, 32], f32>
              %p = arith.mulf %a, %b : f32
              %t = arith.addf %v, %p : f32
              loop.store %t, %y[%o, %i, %j] : !loop.buffer<[12, 32, 32], f32>
            }
          }
        }
      }
    }
  }
}

// -----

// Sums of a length that only a call knows have a last block that may be shorter; of several loops the one is cut
// inside of which there are few terms.
// CHECK-LABEL: loop.kernel @unknown
// CHECK: loop.for %co = 0 to -(-c floordiv 17) reduction(add) {
// CHECK: loop.for %ci = 0 to min(17, -17 * %co + c) reduction(add) {
// CHECK: loop.for %ro = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %ri = 0 to 3 unroll reduction(add) {
loop.kernel @unknown[c](%x: !loop.buffer<[c, 9, 12], f32>, %w: !loop.buffer<[c, 9, 32], f32>, %y: !loop.buffer<[12, 32], f32>) {
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[12, 32], f32>
    }
  }
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      loop.for %c = 0 to c reduction(add) {
        loop.for %r = 0 to 9 reduction(add) {
          %a = loop.load %x[%c, %r, %i] : !loop.buffer<[c, 9, 12], f32>
          %b = loop.load %w[%c, %r, %j] : !loop.buffer<[c, 9, 32], f32>
          %s = loop.load %y[%i, %j] : !loop.buffer<[12, 32], f32>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%i, %j] : !loop.buffer<[12, 32], f32>
        }
      }
    }
  }
}

// -----

// A sum too long for a panel in the second cache goes through blocks: all rows over a part of the panel, the sums in memory.
// CHECK-LABEL: loop.kernel @deep
// CHECK: loop.for %{{.*}} = 0 to 4 parallel {
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 10 reduction(add) {
// CHECK-NEXT: loop.alloc scratch : !loop.buffer<[2000, 16], f32
// CHECK: loop.for %{{.*}} = 0 to 10 {
// CHECK: loop.alloc registers
// CHECK: loop.load %z[
loop.kernel @deep(%x: !loop.buffer<[64, 20000], f32>, %y: !loop.buffer<[20000, 64], f32>, %z: !loop.buffer<[64, 64], f32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 64 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %z[%i, %j] : !loop.buffer<[64, 64], f32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 20000 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[64, 20000], f32>
        %b = loop.load %y[%k, %j] : !loop.buffer<[20000, 64], f32>
        %c = loop.load %z[%i, %j] : !loop.buffer<[64, 64], f32>
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %c, %p : f32
        loop.store %s, %z[%i, %j] : !loop.buffer<[64, 64], f32>
      }
    }
  }
}

// -----

// One row goes through a long sum at once: no part of the panel would be used again.
// CHECK-LABEL: loop.kernel @deep_row
// CHECK-NOT: scratch
// CHECK: loop.for %{{.*}} = 0 to 2 parallel {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[1, 64], f32
// CHECK-NOT: scratch
// CHECK: loop.load %w[
// CHECK-NOT: scratch
loop.kernel @deep_row(%x: !loop.buffer<[1, 20000], f32>, %w: !loop.buffer<[20000, 128], f32>, %z: !loop.buffer<[1, 128], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %j = 0 to 128 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %z[0, %j] : !loop.buffer<[1, 128], f32>
  }
  loop.for %j = 0 to 128 {
    loop.for %k = 0 to 20000 reduction(add) {
      %a = loop.load %x[0, %k] : !loop.buffer<[1, 20000], f32>
      %b = loop.load %w[%k, %j] : !loop.buffer<[20000, 128], f32>
      %c = loop.load %z[0, %j] : !loop.buffer<[1, 128], f32>
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      loop.store %s, %z[0, %j] : !loop.buffer<[1, 128], f32>
    }
  }
}

// -----

// Rows that are columns of a large matrix are read once: a tile of them goes through all columns of the other operand.
// CHECK-LABEL: loop.kernel @turned
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4000 parallel {
// CHECK-NEXT: loop.alloc scratch : !loop.buffer<[64, 5], f32>
// CHECK: loop.for %{{.*}} = 0 to 2 {
loop.kernel @turned(%x: !loop.buffer<[64, 20000], f32>, %y: !loop.buffer<[64, 32], f32>, %z: !loop.buffer<[20000, 32], f32>) {
  loop.for %i = 0 to 20000 {
    loop.for %j = 0 to 32 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %z[%i, %j] : !loop.buffer<[20000, 32], f32>
    }
  }
  loop.for %i = 0 to 20000 {
    loop.for %j = 0 to 32 {
      loop.for %k = 0 to 64 reduction(add) {
        %a = loop.load %x[%k, %i] : !loop.buffer<[64, 20000], f32>
        %b = loop.load %y[%k, %j] : !loop.buffer<[64, 32], f32>
        %c = loop.load %z[%i, %j] : !loop.buffer<[20000, 32], f32>
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %c, %p : f32
        loop.store %s, %z[%i, %j] : !loop.buffer<[20000, 32], f32>
      }
    }
  }
}

// -----

// Narrow floats of a call are extended once where many products use each: rows into a copy like the operand.
// CHECK-LABEL: loop.kernel @half
// CHECK: %x_w = loop.alloc workspace : !loop.buffer<[24, 32], f32>
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 24 parallel {
// CHECK-NEXT: loop.for %[[K:[a-z_0-9]+]] = 0 to 32 vector(8) {
// CHECK-NEXT: loop.load %x[%[[I]], %[[K]]] : !loop.buffer<[24, 32], f16>
// CHECK-NEXT: arith.extf
// CHECK-NEXT: loop.store %{{.*}}, %x_w[%[[I]], %[[K]]]
// CHECK-NOT: loop.load %x[
// CHECK: loop.load %x_w[{{.*}}] : !loop.buffer<[24, 32], f32>
// CHECK-NEXT: loop.load %w[
// CHECK-NEXT: arith.extf
loop.kernel @half(%x: !loop.buffer<[24, 32], f16>, %w: !loop.buffer<[32, 64], f16>, %y: !loop.buffer<[24, 64], f32>) {
  loop.for %i = 0 to 24 {
    loop.for %j = 0 to 64 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[24, 64], f32>
    }
  }
  loop.for %i = 0 to 24 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[24, 32], f16>
        %b = loop.load %w[%k, %j] : !loop.buffer<[32, 64], f16>
        %u = arith.extf %a : f16 to f32
        %v = arith.extf %b : f16 to f32
        %p = arith.mulf %u, %v : f32
        %s = loop.load %y[%i, %j] : !loop.buffer<[24, 64], f32>
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[24, 64], f32>
      }
    }
  }
}

// -----

// Fewer rows pay for copies of panels of an operand whose rows are a power of two apart: they crowd into few sets of the caches.
// CHECK-LABEL: loop.kernel @crowded
// CHECK: %w_s = loop.alloc scratch
loop.kernel @crowded(%x: !loop.buffer<[64, 512], f32>, %w: !loop.buffer<[512, 1024], f32>, %y: !loop.buffer<[64, 1024], f32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 1024 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[64, 1024], f32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 1024 {
      loop.for %k = 0 to 512 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[64, 512], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[512, 1024], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[64, 1024], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[64, 1024], f32>
      }
    }
  }
}

// -----

// CHECK-LABEL: loop.kernel @apart
// CHECK-NOT: loop.alloc {{workspace|scratch}}
loop.kernel @apart(%x: !loop.buffer<[64, 512], f32>, %w: !loop.buffer<[512, 1056], f32>, %y: !loop.buffer<[64, 1056], f32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 1056 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[64, 1056], f32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 1056 {
      loop.for %k = 0 to 512 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[64, 512], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[512, 1056], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[64, 1056], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[64, 1056], f32>
      }
    }
  }
}

// -----

// Channels are the vectors of the sums, rows are what lies together in the result: a tile that fills vectors
// either way is turned in registers, block by block, on its way to memory.
// CHECK-LABEL: loop.kernel @planes
// CHECK: loop.for %ko = 0 to 30 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK: loop.for %{{.*}} = 0 to 1 unroll {
// CHECK-NEXT: loop.for %[[O:[a-z_0-9]+]] = 0 to 1 unroll {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 8 unroll vector(8) {
// CHECK-NEXT: %[[V:[0-9]+]] = loop.load %y_r[8 * %[[O]] + %[[I]], {{.*}}]
// CHECK-NEXT: loop.store %[[V]], %y[{{.*}}8 * %[[O]] + %[[I]], {{.*}}]
loop.kernel @planes(%x: !loop.buffer<[8, 120], f32>, %w: !loop.buffer<[8, 120], f32>, %y: !loop.buffer<[8, 8], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %o = 0 to 8 {
    loop.for %i = 0 to 8 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%o, %i] : !loop.buffer<[8, 8], f32>
    }
  }
  loop.for %o = 0 to 8 {
    loop.for %i = 0 to 8 {
      loop.for %k = 0 to 120 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[8, 120], f32>
        %b = loop.load %w[%o, %k] : !loop.buffer<[8, 120], f32>
        %s = loop.load %y[%o, %i] : !loop.buffer<[8, 8], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%o, %i] : !loop.buffer<[8, 8], f32>
      }
    }
  }
}

// -----

// A weight of more than a quarter of the second cache: while the tiles of rows are computed over one, a
// row of the next, a line, comes into the second cache for each that is read. One thread's tiles of rows follow each other.
// CHECK-LABEL: loop.kernel @large_weight
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 128 parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to 4 {
// CHECK: loop.for %ko = 0 to 32 reduction(add) {
// CHECK-NEXT: loop.for %ki = 0 to 4 unroll reduction(add) {
// CHECK-NEXT: %[[ROW:[a-z_0-9]+]] = loop.alloc registers : !loop.buffer<[1, 16], f32>
// CHECK-NEXT: loop.for %[[P:[a-z_0-9]+]] = 0 to 16 step 16 unroll {
// CHECK-NEXT: loop.prefetch %w[4 * %ko + %ki, 16 * %[[JO]] + %[[P]] + 16] locality(2)
// CHECK: loop.for %[[C:[a-z_0-9]+]] = 0 to 16 unroll vector(8) {
// CHECK-NEXT: %[[W:[a-z_0-9]+]] = loop.load %w[4 * %ko + %ki, 16 * %[[JO]] + %[[C]]]
// CHECK-NEXT: loop.store %[[W]], %[[ROW]][0, %[[C]]]
// CHECK: loop.load %x[6 * %[[IO]]
// CHECK-NEXT: loop.load %[[ROW]][0,
loop.kernel @large_weight(%x: !loop.buffer<[24, 128], f32>, %w: !loop.buffer<[128, 2048], f32>, %y: !loop.buffer<[24, 2048], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 24 {
    loop.for %j = 0 to 2048 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[24, 2048], f32>
    }
  }
  loop.for %i = 0 to 24 {
    loop.for %j = 0 to 2048 {
      loop.for %k = 0 to 128 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[24, 128], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[128, 2048], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[24, 2048], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[24, 2048], f32>
      }
    }
  }
}

// -----

// Many rows read a weight from its panels, too: it is not copied once more.
// CHECK-LABEL: loop.kernel @weight_of_many_rows
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to {{[0-9]+}} parallel {
// CHECK-NEXT: loop.for %[[IO:[a-z_0-9]+]] = 0 to {{[0-9]+}} {
// CHECK: loop.load %x[{{[0-9]+}} * %[[IO]]
// CHECK-NOT: loop.alloc scratch
loop.kernel @weight_of_many_rows(%x: !loop.buffer<[512, 1024], f32>, %w: !loop.buffer<[1024, 1024], f32>, %y: !loop.buffer<[512, 1024], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 512 {
    loop.for %j = 0 to 1024 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[512, 1024], f32>
    }
  }
  loop.for %i = 0 to 512 {
    loop.for %j = 0 to 1024 {
      loop.for %k = 0 to 1024 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[512, 1024], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[1024, 1024], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[512, 1024], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[512, 1024], f32>
      }
    }
  }
}

// -----

// One tile of rows reads each panel once, in the order in which it lies: nothing comes ahead.
// CHECK-LABEL: loop.kernel @large_weight_few_rows
// CHECK-NOT: loop.prefetch
loop.kernel @large_weight_few_rows(%x: !loop.buffer<[6, 128], f32>, %w: !loop.buffer<[128, 2048], f32>, %y: !loop.buffer<[6, 2048], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 2048 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[6, 2048], f32>
    }
  }
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 2048 {
      loop.for %k = 0 to 128 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[6, 128], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[128, 2048], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[6, 2048], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[6, 2048], f32>
      }
    }
  }
}

// -----

// All of the images do not stay in the second cache from one panel of the weight to the next, but those of one tile of
// rows do: tiles of rows are outside, each with all panels.
// CHECK-LABEL: loop.kernel @near
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 16 parallel {
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 16 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 8 {
// CHECK: loop.load %x[%[[I]], [[C:.*]], 6 * %[[KO]] + %{{[a-z_0-9]+}}]
// CHECK-NEXT: loop.load %w[[[C]], 16 * %[[JO]] + %{{[a-z_0-9]+}}]
loop.kernel @near(%x: !loop.buffer<[8, 160, 96], f32>, %w: !loop.buffer<[160, 256], f32>, %y: !loop.buffer<[8, 96, 256], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 96 {
      loop.for %j = 0 to 256 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %k, %j] : !loop.buffer<[8, 96, 256], f32>
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 96 {
      loop.for %j = 0 to 256 {
        loop.for %c = 0 to 160 reduction(add) {
          %a = loop.load %x[%i, %c, %k] : !loop.buffer<[8, 160, 96], f32>
          %b = loop.load %w[%c, %j] : !loop.buffer<[160, 256], f32>
          %s = loop.load %y[%i, %k, %j] : !loop.buffer<[8, 96, 256], f32>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%i, %k, %j] : !loop.buffer<[8, 96, 256], f32>
        }
      }
    }
  }
}

// -----

// Fewer channels stay there whole: panels are outside, each is read once.
// CHECK-LABEL: loop.kernel @whole
// CHECK: loop.for %[[JO:[a-z_0-9]+]] = 0 to 16 parallel {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.for %[[KO:[a-z_0-9]+]] = 0 to 16 {
loop.kernel @whole(%x: !loop.buffer<[8, 40, 96], f32>, %w: !loop.buffer<[40, 256], f32>, %y: !loop.buffer<[8, 96, 256], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 96 {
      loop.for %j = 0 to 256 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%i, %k, %j] : !loop.buffer<[8, 96, 256], f32>
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 96 {
      loop.for %j = 0 to 256 {
        loop.for %c = 0 to 40 reduction(add) {
          %a = loop.load %x[%i, %c, %k] : !loop.buffer<[8, 40, 96], f32>
          %b = loop.load %w[%c, %j] : !loop.buffer<[40, 256], f32>
          %s = loop.load %y[%i, %k, %j] : !loop.buffer<[8, 96, 256], f32>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%i, %k, %j] : !loop.buffer<[8, 96, 256], f32>
        }
      }
    }
  }
}

// -----

// A sum that is in blocks of half the longest already stays in these: the sums of each are added to the tile's.
// CHECK-LABEL: loop.kernel @blocks
// CHECK: %[[SUMS:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %[[KO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: %[[PART:[a-z_0-9]+]] = loop.alloc registers
// CHECK: loop.for %{{.*}} = 0 to 16 reduction(add) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 4 unroll reduction(add) {
// CHECK: loop.store %{{.*}}, %[[PART]][
// CHECK: arith.addf
// CHECK-NEXT: loop.store %{{.*}}, %[[SUMS]][
loop.kernel @blocks(%x: !loop.buffer<[12, 128], f32>, %w: !loop.buffer<[128, 32], f32>, %y: !loop.buffer<[12, 32], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[12, 32], f32>
    }
  }
  loop.for %i = 0 to 12 {
    loop.for %j = 0 to 32 {
      loop.for %ko = 0 to 2 reduction(add) {
        loop.for %ki = 0 to 64 reduction(add) {
          %a = loop.load %x[%i, 64 * %ko + %ki] : !loop.buffer<[12, 128], f32>
          %b = loop.load %w[64 * %ko + %ki, %j] : !loop.buffer<[128, 32], f32>
          %s = loop.load %y[%i, %j] : !loop.buffer<[12, 32], f32>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%i, %j] : !loop.buffer<[12, 32], f32>
        }
      }
    }
  }
}

// -----

// An operand that the second cache holds, whose rows of a panel are a line each, a power of two apart: in few sets of the
// first cache. Its panels are copied one at a time, too.
// CHECK-LABEL: loop.kernel @few_sets
// CHECK-NEXT: loop.for %{{.*}} = 0 to 16 parallel {
// CHECK-NEXT: loop.alloc scratch : !loop.buffer<[256, 16], f32
loop.kernel @few_sets(%x: !loop.buffer<[256, 256], f32>, %w: !loop.buffer<[256, 256], f32>, %y: !loop.buffer<[256, 256], f32>) {
  loop.for %i = 0 to 256 {
    loop.for %j = 0 to 256 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[256, 256], f32>
    }
  }
  loop.for %i = 0 to 256 {
    loop.for %j = 0 to 256 {
      loop.for %k = 0 to 256 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[256, 256], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[256, 256], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[256, 256], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[256, 256], f32>
      }
    }
  }
}

// -----

// Their lines do not crowd where they are not so far apart: the operand is read where it lies.
// CHECK-LABEL: loop.kernel @many_sets
// CHECK-NOT: loop.alloc scratch
// CHECK: loop.load %w[
loop.kernel @many_sets(%x: !loop.buffer<[256, 256], f32>, %w: !loop.buffer<[256, 272], f32>, %y: !loop.buffer<[256, 272], f32>) {
  loop.for %i = 0 to 256 {
    loop.for %j = 0 to 272 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[256, 272], f32>
    }
  }
  loop.for %i = 0 to 256 {
    loop.for %j = 0 to 272 {
      loop.for %k = 0 to 256 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[256, 256], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[256, 272], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[256, 272], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[256, 272], f32>
      }
    }
  }
}

// -----

// 128 rows are tiles of 6 and of 5, so that no few of them are left over. All go through each panel of a large weight
// together, which is read from memory once.
// CHECK-LABEL: loop.kernel @left_rows
// CHECK-NEXT: loop.for %[[JO:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 18 {
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.for %{{.*}} = 0 to 4 {
// CHECK: loop.alloc registers : !loop.buffer<[5, 16], f32
// CHECK-NOT: parallel
loop.kernel @left_rows(%x: !loop.buffer<[128, 128], f32>, %w: !loop.buffer<[128, 1024], f32>, %y: !loop.buffer<[128, 1024], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %i = 0 to 128 {
    loop.for %j = 0 to 1024 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %y[%i, %j] : !loop.buffer<[128, 1024], f32>
    }
  }
  loop.for %i = 0 to 128 {
    loop.for %j = 0 to 1024 {
      loop.for %k = 0 to 128 reduction(add) {
        %a = loop.load %x[%i, %k] : !loop.buffer<[128, 128], f32>
        %b = loop.load %w[%k, %j] : !loop.buffer<[128, 1024], f32>
        %s = loop.load %y[%i, %j] : !loop.buffer<[128, 1024], f32>
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %s, %p : f32
        loop.store %t, %y[%i, %j] : !loop.buffer<[128, 1024], f32>
      }
    }
  }
}

// -----

// The pixels of an image are columns through two dims: all of it is copied into panels where these are one dim, whole
// panels in vectors and what is left apart.
// CHECK-LABEL: loop.kernel @pixels
// CHECK: loop.alloc workspace : !loop.buffer<[1024, 196], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [13, 1024, 16]>
// CHECK: loop.load %x[{{.*}} floordiv 14), {{.*}} mod 14)]
// CHECK: loop.for %{{.*}} = 0 to 12
// CHECK: loop.alloc registers : !loop.buffer<[6, 16], f32
// CHECK: loop.load %x_w[
loop.kernel @pixels(%x: !loop.buffer<[1024, 14, 14], f32>, %w: !loop.buffer<[256, 1024], f32>, %y: !loop.buffer<[256, 14, 14], f32>) attributes {weights = [#builtin.int<1>]} {
  loop.for %o = 0 to 256 {
    loop.for %i = 0 to 14 {
      loop.for %j = 0 to 14 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%o, %i, %j] : !loop.buffer<[256, 14, 14], f32>
      }
    }
  }
  loop.for %o = 0 to 256 {
    loop.for %i = 0 to 14 {
      loop.for %j = 0 to 14 {
        loop.for %c = 0 to 1024 reduction(add) {
          %a = loop.load %x[%c, %i, %j] : !loop.buffer<[1024, 14, 14], f32>
          %b = loop.load %w[%o, %c] : !loop.buffer<[256, 1024], f32>
          %s = loop.load %y[%o, %i, %j] : !loop.buffer<[256, 14, 14], f32>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %y[%o, %i, %j] : !loop.buffer<[256, 14, 14], f32>
        }
      }
    }
  }
}

// -----

// Channels in blocks: rows and columns of the image are one loop all the same, of 4 tiles of 6 and 5 of 5 pixels; the
// terms written out are those of a block.
// CHECK-LABEL: loop.kernel @pixels_in_blocks
// CHECK: loop.for %[[P:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK: loop.alloc registers : !loop.buffer<[1, 16, 6], f32
// CHECK: loop.for %[[CO:[a-z_0-9]+]] = 0 to 2 reduction(add) {
// CHECK-NEXT: loop.for %[[CI:[a-z_0-9]+]] = 0 to 8 unroll reduction(add) {
// CHECK: loop.load %x[0, 8 * %[[CO]] + %[[CI]], ((6 * %[[P]] + %{{.*}}) floordiv 7)
// CHECK: loop.store %{{.*}}, %y[0, {{.*}}, ((6 * %[[P]] + %{{.*}}) floordiv 7)
// CHECK: loop.for %{{.*}} = 0 to 5 parallel {
// CHECK: loop.alloc registers : !loop.buffer<[1, 16, 5], f32
loop.kernel @pixels_in_blocks(%x: !loop.buffer<[1, 16, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 7, 7, 8]>, %w: !loop.buffer<[32, 16], f32>, %y: !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>) attributes {weights = [#builtin.int<1>]} {
  %sums = loop.alloc workspace : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
  loop.for %o = 0 to 32 {
    loop.for %h = 0 to 7 {
      loop.for %v = 0 to 7 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
      }
    }
  }
  loop.for %o = 0 to 32 {
    loop.for %h = 0 to 7 {
      loop.for %v = 0 to 7 {
        loop.for %c = 0 to 16 reduction(add) {
          %a = loop.load %x[0, %c, %h, %v] : !loop.buffer<[1, 16, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 2, 7, 7, 8]>
          %b = loop.load %w[%o, %c] : !loop.buffer<[32, 16], f32>
          %s = loop.load %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
          %p = arith.mulf %a, %b : f32
          %t = arith.addf %s, %p : f32
          loop.store %t, %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
        }
      }
    }
  }
  loop.for %o = 0 to 32 {
    loop.for %h = 0 to 7 {
      loop.for %v = 0 to 7 {
        %s = loop.load %sums[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
        %n = arith.negf %s : f32
        loop.store %n, %y[0, %o, %h, %v] : !loop.buffer<[1, 32, 7, 7], f32, [d0, (d1 floordiv 8), d2, d3, (d1 mod 8)] in [1, 4, 7, 7, 8]>
      }
    }
  }
}
