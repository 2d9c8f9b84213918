// RUN: weft-opt %s --split-input-file -p weft-schedule | filecheck %s

// A row of few vectors shares the tile with its neighbours, and the borders around a channel are written on the
// thread's stack right before the windows over it; what lies inside, right before the rows of windows that need it.
// CHECK-LABEL: loop.kernel @pool
// CHECK-NEXT: loop.for %[[C:[a-z_0-9]+]] = 0 to 64 parallel {
// CHECK-NEXT: %[[P:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 30, 30], f32>
// CHECK:      loop.for %{{.*}} = 0 to 1 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 30 vector(8)
// CHECK:      loop.for %{{.*}} = 0 to 28 {
// CHECK-NEXT: loop.for %{{.*}} = 0 to 1 {
// CHECK:      loop.for %{{.*}} = 0 to 1 {
// CHECK:      loop.for %[[W:[a-z_0-9]+]] = 0 to 28 vector(8) {
// CHECK-NEXT: loop.prefetch %x[%[[C]], %[[H:[a-z_0-9]+]] + 36, %[[W]]]
// CHECK-NEXT: loop.load %x[%[[C]], %[[H]], %[[W]]]
// CHECK-NEXT: loop.store %{{.*}}, %[[P]][0, %[[H]] + 1, %[[W]] + 1]
// CHECK:      loop.for %[[O:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to min(-7 * %[[O]] + 27, 7) {
// CHECK:      loop.store %{{.*}}, %[[P]][0, 7 * %[[O]] + %[[I]] + 2, %{{.*}} + 1]
// CHECK:      loop.for %{{.*}} = 0 to 3 {
// CHECK:      loop.alloc registers : !loop.buffer<[1, 7, 8], f32
// CHECK-NOT:  parallel
loop.kernel @pool(%x: !loop.buffer<[64, 28, 28], f32>, %y: !loop.buffer<[64, 28, 28], f32>) {
  %p = loop.alloc workspace : !loop.buffer<[64, 30, 30], f32>
  loop.for %c0 = 0 to 64 {
    loop.for %h0 = 0 to 30 {
      loop.for %w0 = 0 to 30 {
        %z = arith.constant 0xff800000 : f32
        loop.store %z, %p[%c0, %h0, %w0] : !loop.buffer<[64, 30, 30], f32>
      }
    }
  }
  loop.for %c1 = 0 to 64 {
    loop.for %h1 = 0 to 28 {
      loop.for %w1 = 0 to 28 {
        %v = loop.load %x[%c1, %h1, %w1] : !loop.buffer<[64, 28, 28], f32>
        loop.store %v, %p[%c1, %h1 + 1, %w1 + 1] : !loop.buffer<[64, 30, 30], f32>
      }
    }
  }
  loop.for %c2 = 0 to 64 {
    loop.for %h2 = 0 to 28 {
      loop.for %w2 = 0 to 28 {
        %z = arith.constant 0xff800000 : f32
        loop.store %z, %y[%c2, %h2, %w2] : !loop.buffer<[64, 28, 28], f32>
      }
    }
  }
  loop.for %c = 0 to 64 {
    loop.for %h = 0 to 28 {
      loop.for %w = 0 to 28 {
        loop.for %r = 0 to 3 reduction(max) {
          loop.for %s = 0 to 3 reduction(max) {
            %v = loop.load %p[%c, %h + %r, %w + %s] : !loop.buffer<[64, 30, 30], f32>
            %t = loop.load %y[%c, %h, %w] : !loop.buffer<[64, 28, 28], f32>
            %u = arith.maximumf %t, %v : f32
            loop.store %u, %y[%c, %h, %w] : !loop.buffer<[64, 28, 28], f32>
          }
        }
      }
    }
  }
}

// -----

// Rows of many vectors keep the units busy alone.
// CHECK-LABEL: loop.kernel @wide
// CHECK: loop.alloc registers : !loop.buffer<[1, 64], f32
loop.kernel @wide(%x: !loop.buffer<[30, 66], f32>, %y: !loop.buffer<[30, 64], f32>) {
  loop.for %h = 0 to 30 {
    loop.for %w = 0 to 64 {
      loop.for %s = 0 to 3 reduction(max) {
        %v = loop.load %x[%h, %w + %s] : !loop.buffer<[30, 66], f32>
        %t = loop.load %y[%h, %w] : !loop.buffer<[30, 64], f32>
        %u = arith.maximumf %t, %v : f32
        loop.store %u, %y[%h, %w] : !loop.buffer<[30, 64], f32>
      }
    }
  }
}

// -----

// The rows of a tile overlap where a window moves down: its steps down are written out inside of those across, so that
// a row that several windows share is loaded once.
// CHECK-LABEL: loop.kernel @tall
// CHECK: loop.for %s = 0 to 3 reduction(max) {
// CHECK-NEXT: loop.for %r = 0 to 3 unroll reduction(max) {
// CHECK-NEXT: loop.for %{{.*}} = 0 to {{[0-9]+}} unroll {
// CHECK-NEXT: loop.for %{{.*}} unroll vector(8) {
loop.kernel @tall(%x: !loop.buffer<[4, 34, 10], f32>, %y: !loop.buffer<[4, 32, 8], f32>) {
  loop.for %c = 0 to 4 {
    loop.for %i = 0 to 32 {
      loop.for %j = 0 to 8 {
        %low = arith.constant -1.0 : f32
        loop.store %low, %y[%c, %i, %j] : !loop.buffer<[4, 32, 8], f32>
      }
    }
  }
  loop.for %c = 0 to 4 {
    loop.for %i = 0 to 32 {
      loop.for %j = 0 to 8 {
        loop.for %r = 0 to 3 reduction(max) {
          loop.for %s = 0 to 3 reduction(max) {
            %a = loop.load %x[%c, %i + %r, %j + %s] : !loop.buffer<[4, 34, 10], f32>
            %b = loop.load %y[%c, %i, %j] : !loop.buffer<[4, 32, 8], f32>
            %m = arith.maximumf %a, %b : f32
            loop.store %m, %y[%c, %i, %j] : !loop.buffer<[4, 32, 8], f32>
          }
        }
      }
    }
  }
}

// -----

// Wide rows that have elements in common share a tile too, and the tiles along a row come one after the other: what
// they read is near then.
// CHECK-LABEL: loop.kernel @depthwise
// CHECK:      loop.for %[[C:[a-z_0-9]+]] = 0 to 4 parallel {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[J:[a-z_0-9]+]] = 0 to 8 {
// CHECK-NEXT: loop.alloc registers : !loop.buffer<[1, 8, 8], f32
// CHECK:      loop.for %s = 0 to 3 reduction(add) {
// CHECK-NEXT: loop.for %r = 0 to 3 unroll reduction(add) {
// CHECK-NEXT: loop.for %[[R:[a-z_0-9]+]] = 0 to 8 unroll {
// CHECK-NEXT: loop.for %[[L:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %x[%[[C]], 8 * %[[I]] + %[[R]] + %r, 8 * %[[J]] + %[[L]] + %s]
loop.kernel @depthwise(%x: !loop.buffer<[4, 34, 66], f32>, %f: !loop.buffer<[4, 3, 3], f32>, %y: !loop.buffer<[4, 32, 64], f32>) {
  loop.for %c = 0 to 4 {
    loop.for %i = 0 to 32 {
      loop.for %j = 0 to 64 {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%c, %i, %j] : !loop.buffer<[4, 32, 64], f32>
      }
    }
  }
  loop.for %c = 0 to 4 {
    loop.for %i = 0 to 32 {
      loop.for %j = 0 to 64 {
        loop.for %r = 0 to 3 reduction(add) {
          loop.for %s = 0 to 3 reduction(add) {
            %a = loop.load %x[%c, %i + %r, %j + %s] : !loop.buffer<[4, 34, 66], f32>
            %b = loop.load %f[%c, %r, %s] : !loop.buffer<[4, 3, 3], f32>
            %m = arith.mulf %a, %b : f32
            %t = loop.load %y[%c, %i, %j] : !loop.buffer<[4, 32, 64], f32>
            %u = arith.addf %t, %m : f32
            loop.store %u, %y[%c, %i, %j] : !loop.buffer<[4, 32, 64], f32>
          }
        }
      }
    }
  }
}

// -----

// Where lanes load every second element, a row is filled with its even elements first and the odd ones behind them.
// CHECK-LABEL: loop.kernel @strided
// CHECK:      %[[P:[a-z_0-9]+]] = loop.alloc scratch : !loop.buffer<[1, 34, 34], f32, [d0, d1, (d2 mod 2), (d2 floordiv 2)] in [1, 34, 2, 17]>
// CHECK:      loop.for %{{.*}} = 0 to 16 {
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 unroll {
// CHECK-NEXT: loop.for %[[O:[a-z_0-9]+]] = 0 to 16 vector(8) {
// CHECK-NEXT: loop.load %x[{{.*}}, 2 * %[[O]] + %[[I]]]
// CHECK-NEXT: loop.store %{{.*}}, %[[P]][0, {{.*}}, 2 * %[[O]] + %[[I]] + 1]
// CHECK:      loop.for %r = 0 to 3 unroll reduction(max) {
// CHECK:      loop.for %[[L:[a-z_0-9]+]] = 0 to 8 unroll vector(8) {
// CHECK-NEXT: loop.load %[[P]][0, {{.*}}, 16 * %{{.*}} + 2 * %[[L]] + %s]
loop.kernel @strided(%x: !loop.buffer<[4, 32, 32], f32>, %y: !loop.buffer<[4, 16, 16], f32>) {
  %p = loop.alloc workspace : !loop.buffer<[4, 34, 34], f32>
  loop.for %c0 = 0 to 4 {
    loop.for %h0 = 0 to 34 {
      loop.for %w0 = 0 to 34 {
        %z = arith.constant 0xff800000 : f32
        loop.store %z, %p[%c0, %h0, %w0] : !loop.buffer<[4, 34, 34], f32>
      }
    }
  }
  loop.for %c1 = 0 to 4 {
    loop.for %h1 = 0 to 32 {
      loop.for %w1 = 0 to 32 {
        %v = loop.load %x[%c1, %h1, %w1] : !loop.buffer<[4, 32, 32], f32>
        loop.store %v, %p[%c1, %h1 + 1, %w1 + 1] : !loop.buffer<[4, 34, 34], f32>
      }
    }
  }
  loop.for %c2 = 0 to 4 {
    loop.for %h2 = 0 to 16 {
      loop.for %w2 = 0 to 16 {
        %z = arith.constant 0xff800000 : f32
        loop.store %z, %y[%c2, %h2, %w2] : !loop.buffer<[4, 16, 16], f32>
      }
    }
  }
  loop.for %c = 0 to 4 {
    loop.for %h = 0 to 16 {
      loop.for %w = 0 to 16 {
        loop.for %r = 0 to 3 reduction(max) {
          loop.for %s = 0 to 3 reduction(max) {
            %v = loop.load %p[%c, 2 * %h + %r, 2 * %w + %s] : !loop.buffer<[4, 34, 34], f32>
            %t = loop.load %y[%c, %h, %w] : !loop.buffer<[4, 16, 16], f32>
            %u = arith.maximumf %t, %v : f32
            loop.store %u, %y[%c, %h, %w] : !loop.buffer<[4, 16, 16], f32>
          }
        }
      }
    }
  }
}
