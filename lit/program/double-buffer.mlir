// RUN: weft-opt -p weft-double-buffer --split-input-file %s | filecheck %s

// Rounds go from one buffer to the other and back; the last one of an odd number copies.
// CHECK-LABEL: loop.program @main
// CHECK: %t = loop.alloc workspace
// CHECK-NEXT: loop.for %[[I:[0-9a-z_]+]] = 0 to (n floordiv 2) {
// CHECK-NEXT: loop.bind_symbol "r" = 2 * %[[I]]
// CHECK-NEXT: loop.call @step[r](%s, %t)
// CHECK-NEXT: loop.bind_symbol "r" = 2 * %[[I]] + 1
// CHECK-NEXT: loop.call @step[r](%t, %s)
// CHECK-NEXT: }
// CHECK-NEXT: loop.for %[[J:[0-9a-z_]+]] = 0 to (n mod 2) {
// CHECK-NEXT: loop.bind_symbol "r" = %[[J]] + 2 * (n floordiv 2)
// CHECK-NEXT: loop.call @step[r](%s, %t)
// CHECK-NEXT: loop.copy %t, %s
// CHECK-NEXT: }
loop.kernel @step[r](%x: !loop.buffer<[4096], f64>, %y: !loop.buffer<[4096], f64>) {
  loop.for %i = 0 to 4095 {
    %v = loop.load %x[%i + 1] : !loop.buffer<[4096], f64>
    loop.store %v, %y[%i] : !loop.buffer<[4096], f64>
  }
}
loop.program @main[n](%s: !loop.buffer<[4096], f64>) inputs 0 {
  loop.for %i = 0 to n {
    loop.bind_symbol "r" = %i
    %t = loop.alloc workspace : !loop.buffer<[4096], f64>
    loop.call @step[r](%s, %t) : !loop.buffer<[4096], f64>, !loop.buffer<[4096], f64>
    loop.copy %t, %s : !loop.buffer<[4096], f64>
  }
}

// -----

// Two states at once, and no iteration is left of an even number.
// CHECK-LABEL: loop.program @main
// CHECK: %t = loop.alloc
// CHECK-NEXT: %v = loop.alloc
// CHECK-NEXT: loop.for %{{.*}} = 0 to 3 {
// CHECK-NEXT: loop.call @both(%s, %u, %t, %v)
// CHECK-NEXT: loop.call @both(%t, %v, %s, %u)
// CHECK-NEXT: }
// CHECK-NOT: loop.copy
loop.kernel @both(%a: !loop.buffer<[n], f32>, %b: !loop.buffer<[n], f32>, %c: !loop.buffer<[n], f32>, %d: !loop.buffer<[n], f32>) {
}
loop.program @main[n](%s: !loop.buffer<[n], f32>, %u: !loop.buffer<[n], f32>) inputs 0 {
  loop.for %i = 0 to 6 {
    %t = loop.alloc workspace : !loop.buffer<[n], f32>
    %v = loop.alloc workspace : !loop.buffer<[n], f32>
    loop.call @both(%s, %u, %t, %v) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>, !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
    loop.copy %t, %s : !loop.buffer<[n], f32>
    loop.copy %v, %u : !loop.buffer<[n], f32>
  }
}

// -----

// A small state is copied in no time. A state that an iteration reads by another name stays as it is, and
// so does one that is not copied last.
// CHECK-LABEL: loop.program @main
// CHECK: loop.for %{{.*}} = 0 to n {
// CHECK: loop.copy %t, %s
// CHECK: loop.for %{{.*}} = 0 to n {
// CHECK: loop.copy %t_1, %u
// CHECK: loop.for %{{.*}} = 0 to n {
// CHECK: loop.copy %t_2, %u
// CHECK-NEXT: loop.call @small
loop.kernel @small(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
}
loop.kernel @large(%x: !loop.buffer<[9000], f32>, %y: !loop.buffer<[9000], f32>) {
}
loop.program @main[n](%s: !loop.buffer<[4], f32>, %u: !loop.buffer<[9000], f32>) inputs 0 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[4], f32>
    loop.call @small(%s, %t) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
    loop.copy %t, %s : !loop.buffer<[4], f32>
  }
  %w = loop.view %u : !loop.buffer<[9000], f32> to !loop.buffer<[9000], f32>
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[9000], f32>
    loop.call @large(%w, %t) : !loop.buffer<[9000], f32>, !loop.buffer<[9000], f32>
    loop.copy %t, %u : !loop.buffer<[9000], f32>
  }
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[9000], f32>
    loop.call @large(%u, %t) : !loop.buffer<[9000], f32>, !loop.buffer<[9000], f32>
    loop.copy %t, %u : !loop.buffer<[9000], f32>
    loop.call @small(%s, %s) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  }
}
