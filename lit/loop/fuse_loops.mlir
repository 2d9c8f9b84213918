// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-fuse-loops{kernel=k first=i second=j}' | filecheck %s

// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to n {
// CHECK: loop.store %{{.*}}, %t[%i]
// CHECK: loop.load %t[%i]
// CHECK: loop.store %{{.*}}, %y[%i]
// CHECK-NOT: loop.for
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %t: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    loop.store %v, %t[%i] : !loop.buffer<[n], f32>
  }
  loop.for %j = 0 to n {
    %w = loop.load %t[%j] : !loop.buffer<[n], f32>
    loop.store %w, %y[%j] : !loop.buffer<[n], f32>
  }
}

// -----

// The second loop reads what a later iteration of the first makes.
// CHECK: fuse_loops requires that no iteration needs a later one of the first loop, got loop.store of %t[%i] and loop.load of %t[%j + 1]
loop.kernel @k(%x: !loop.buffer<[4], f32>, %t: !loop.buffer<[5], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    loop.store %v, %t[%i] : !loop.buffer<[5], f32>
  }
  loop.for %j = 0 to 4 {
    %w = loop.load %t[%j + 1] : !loop.buffer<[5], f32>
    loop.store %w, %y[%j] : !loop.buffer<[4], f32>
  }
}

// -----

// What only adds independent iterations to a sum leaves it a sum.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %i = 0 to n reduction(add) {
// CHECK: loop.store %{{.*}}, %t[%i]
// CHECK: loop.store %{{.*}}, %s[0]
loop.kernel @k[n](%x: !loop.buffer<[n], f32>, %t: !loop.buffer<[n], f32>, %s: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    loop.store %v, %t[%i] : !loop.buffer<[n], f32>
  }
  loop.for %j = 0 to n reduction(add) {
    %w = loop.load %t[%j] : !loop.buffer<[n], f32>
    %a = loop.load %s[0] : !loop.buffer<[1], f32>
    %b = arith.addf %a, %w : f32
    loop.store %b, %s[0] : !loop.buffer<[1], f32>
  }
}

// -----

// Iterations that depend on each other take the mark.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %i = 0 to 4 {
loop.kernel @k(%t: !loop.buffer<[5], f32>, %x: !loop.buffer<[4], f32>, %s: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %t[%i] : !loop.buffer<[5], f32>
    loop.store %v, %t[%i + 1] : !loop.buffer<[5], f32>
  }
  loop.for %j = 0 to 4 reduction(add) {
    %w = loop.load %x[%j] : !loop.buffer<[4], f32>
    %a = loop.load %s[0] : !loop.buffer<[1], f32>
    %b = arith.addf %a, %w : f32
    loop.store %b, %s[0] : !loop.buffer<[1], f32>
  }
}
