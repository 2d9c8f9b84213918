// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-prefetch{kernel=k access="j:0" loop=i spread=m}' | filecheck %s

// What the next iteration copies comes near a part at a time, each line once, while this one's copy is used.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %m = 0 to 16 {
// CHECK-NEXT: loop.for %[[Q:.*]] = 0 to 4 {
// CHECK-NEXT: loop.for %[[P:.*]] = 0 to 32 step 16 {
// CHECK-NEXT: loop.prefetch %x[4 * %m + %[[Q]], 32 * %i + %[[P]] + 32] : !loop.buffer<[64, 256], f32>
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: loop.load %t[%m, 0]
loop.kernel @k(%x: !loop.buffer<[64, 256], f32>, %y: !loop.buffer<[16, 8], f32>) {
  loop.for %i = 0 to 8 {
    %t = loop.alloc scratch : !loop.buffer<[64, 32], f32>
    loop.for %k = 0 to 64 {
      loop.for %j = 0 to 32 {
        %v = loop.load %x[%k, 32 * %i + %j] : !loop.buffer<[64, 256], f32>
        loop.store %v, %t[%k, %j] : !loop.buffer<[64, 32], f32>
      }
    }
    loop.for %m = 0 to 16 {
      %w = loop.load %t[%m, 0] : !loop.buffer<[64, 32], f32>
      loop.store %w, %y[%m, %i] : !loop.buffer<[16, 8], f32>
    }
  }
}

// -----

// CHECK: prefetch requires a loop beside that goes in parts, got loop %k and loop %m
loop.kernel @k(%x: !loop.buffer<[64, 256], f32>, %y: !loop.buffer<[15, 8], f32>) {
  loop.for %i = 0 to 8 {
    %t = loop.alloc scratch : !loop.buffer<[64, 32], f32>
    loop.for %k = 0 to 64 {
      loop.for %j = 0 to 32 {
        %v = loop.load %x[%k, 32 * %i + %j] : !loop.buffer<[64, 256], f32>
        loop.store %v, %t[%k, %j] : !loop.buffer<[64, 32], f32>
      }
    }
    loop.for %m = 0 to 15 {
      %w = loop.load %t[%m, 0] : !loop.buffer<[64, 32], f32>
      loop.store %w, %y[%m, %i] : !loop.buffer<[15, 8], f32>
    }
  }
}

// -----

// CHECK: prefetch requires an access that only loops around both move, got loop.load of %x[%k, %i + %j + %r]
loop.kernel @k(%x: !loop.buffer<[64, 256], f32>, %o: !loop.buffer<[8], index>, %y: !loop.buffer<[16, 8], f32>) {
  loop.for %i = 0 to 8 {
    %t = loop.alloc scratch : !loop.buffer<[64, 32], f32>
    loop.for %k = 0 to 64 {
      %r = loop.load %o[%k floordiv 8] : !loop.buffer<[8], index>
      loop.for %j = 0 to 32 {
        %v = loop.load %x[%k, %j + %r + %i] : !loop.buffer<[64, 256], f32>
        loop.store %v, %t[%k, %j] : !loop.buffer<[64, 32], f32>
      }
    }
    loop.for %m = 0 to 16 {
      %w = loop.load %t[%m, 0] : !loop.buffer<[64, 32], f32>
      loop.store %w, %y[%m, %i] : !loop.buffer<[16, 8], f32>
    }
  }
}
