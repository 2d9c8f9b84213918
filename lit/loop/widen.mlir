// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-widen{kernel=k allocation=t}' | filecheck %s

// Each element is extended where it is stored, and no more where it is loaded.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: %t = loop.alloc scratch : !loop.buffer<[n], f32>
// CHECK: %[[X:.*]] = loop.load %x[%i] : !loop.buffer<[n], f16>
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[X]] : f16 to f32
// CHECK-NEXT: loop.store %[[W]], %t[%i] : !loop.buffer<[n], f32>
// CHECK: %[[T:.*]] = loop.load %t[%j] : !loop.buffer<[n], f32>
// CHECK-NEXT: loop.store %[[T]], %y[%j]
loop.kernel @k[n](%x: !loop.buffer<[n], f16>, %y: !loop.buffer<[n], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[n], f16>
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f16>
    loop.store %v, %t[%i] : !loop.buffer<[n], f16>
  }
  loop.for %j = 0 to n {
    %v = loop.load %t[%j] : !loop.buffer<[n], f16>
    %w = arith.extf %v : f16 to f32
    loop.store %w, %y[%j] : !loop.buffer<[n], f32>
  }
}

// -----

// What is loaded is also used as it is.
// CHECK: widen requires loads that are only extended, got loop.load of %t
loop.kernel @k(%x: !loop.buffer<[4], f16>, %y: !loop.buffer<[4], f16>) {
  %t = loop.alloc scratch : !loop.buffer<[4], f16>
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f16>
    loop.store %v, %t[%i] : !loop.buffer<[4], f16>
  }
  loop.for %j = 0 to 4 {
    %v = loop.load %t[%j] : !loop.buffer<[4], f16>
    loop.store %v, %y[%j] : !loop.buffer<[4], f16>
  }
}

// -----

// Nothing says which type the elements are wanted in.
// CHECK: widen requires loads of %t extended to one type, got arith.extf to f32, arith.extf to f64
loop.kernel @k(%x: !loop.buffer<[4], f16>, %y: !loop.buffer<[4], f32>, %z: !loop.buffer<[4], f64>) {
  %t = loop.alloc scratch : !loop.buffer<[4], f16>
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f16>
    loop.store %v, %t[%i] : !loop.buffer<[4], f16>
  }
  loop.for %j = 0 to 4 {
    %v = loop.load %t[%j] : !loop.buffer<[4], f16>
    %w = arith.extf %v : f16 to f32
    %u = arith.extf %v : f16 to f64
    loop.store %w, %y[%j] : !loop.buffer<[4], f32>
    loop.store %u, %z[%j] : !loop.buffer<[4], f64>
  }
}

// -----

// Floats are made of bytes once, too.
// CHECK-LABEL: loop.kernel @k
// CHECK: %[[X:.*]] = loop.load %x[%i] : !loop.buffer<[4], i8>
// CHECK-NEXT: %[[W:.*]] = arith.sitofp %[[X]] : i8 to f32
// CHECK-NEXT: loop.store %[[W]], %t[%i] : !loop.buffer<[4], f32>
// CHECK: %[[T:.*]] = loop.load %t[%j] : !loop.buffer<[4], f32>
// CHECK-NEXT: loop.store %[[T]], %y[%j]
loop.kernel @k(%x: !loop.buffer<[4], i8>, %y: !loop.buffer<[4], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[4], i8>
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], i8>
    loop.store %v, %t[%i] : !loop.buffer<[4], i8>
  }
  loop.for %j = 0 to 4 {
    %v = loop.load %t[%j] : !loop.buffer<[4], i8>
    %w = arith.sitofp %v : i8 to f32
    loop.store %w, %y[%j] : !loop.buffer<[4], f32>
  }
}
