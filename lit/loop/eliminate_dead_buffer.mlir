// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-eliminate-empty-loop{kernel=k loop=j},weft-eliminate-dead-buffer{kernel=k allocation=t}' | filecheck %s

// The loop that never runs goes; so does the temporary that nobody reads, with the loop that filled it.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %m = 0 to 4 {
// CHECK-NEXT: %v = loop.load %x[%m]
// CHECK-NEXT: loop.store %v, %y[%m]
// CHECK-NEXT: }
// CHECK-NEXT: }
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.for %i = 0 to 4 {
    %u = loop.load %x[%i] : !loop.buffer<[4], f32>
    loop.store %u, %t[%i] : !loop.buffer<[4], f32>
  }
  loop.for %j = 0 to 0 {
    %w = loop.load %x[%j] : !loop.buffer<[4], f32>
    loop.store %w, %y[%j] : !loop.buffer<[4], f32>
  }
  loop.for %m = 0 to 4 {
    %v = loop.load %x[%m] : !loop.buffer<[4], f32>
    loop.store %v, %y[%m] : !loop.buffer<[4], f32>
  }
}

// -----

// CHECK: eliminate_empty_loop requires a loop without iterations, got
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %j = 0 to 1 {
    %w = loop.load %x[%j] : !loop.buffer<[4], f32>
    loop.store %w, %y[%j] : !loop.buffer<[4], f32>
  }
}

// -----

// CHECK: eliminate_dead_buffer requires a buffer that is only stored, got loop.load of %t[%i]
loop.kernel @k(%y: !loop.buffer<[4], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.for %j = 0 to 0 {
    %w = loop.load %t[%j] : !loop.buffer<[4], f32>
    loop.store %w, %y[%j] : !loop.buffer<[4], f32>
  }
  loop.for %i = 0 to 4 {
    %u = loop.load %t[%i] : !loop.buffer<[4], f32>
    loop.store %u, %y[%i] : !loop.buffer<[4], f32>
  }
}
