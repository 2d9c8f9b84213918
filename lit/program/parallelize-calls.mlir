// RUN: weft-opt %s --split-input-file -p weft-parallelize-calls | filecheck %s
// RUN: weft-opt %s --split-input-file -p weft-parallelize-calls,weft-plan-memory | filecheck %s --check-prefix=PLAN

// Two chains of calls, each too small for two threads, are branches; a buffer that one of them uses alone goes with it.
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %p = loop.alloc workspace
// CHECK-NEXT: %q = loop.alloc workspace
// CHECK-NEXT: loop.concurrent 2 to 1024 {
// CHECK-NEXT:   %a = loop.alloc workspace
// CHECK-NEXT:   loop.call @work(%x, %a)
// CHECK-NEXT:   loop.call @work(%a, %p)
// CHECK-NEXT: } and {
// CHECK-NEXT:   %b = loop.alloc workspace
// CHECK-NEXT:   loop.call @work(%y, %b)
// CHECK-NEXT:   loop.call @work(%b, %q)
// CHECK-NEXT: }
// CHECK-NEXT: loop.call @join(%p, %q, %z)

// Buffers of branches lie apart, though their calls are not neighbours.
// PLAN-LABEL: loop.program @main
// PLAN: %p = loop.alloc workspace at 0 :
// PLAN: %q = loop.alloc workspace at 4096 :
// PLAN: %a = loop.alloc workspace at 8192 :
// PLAN: %b = loop.alloc workspace at 12288 :
loop.kernel @work(%x: !loop.buffer<[1024], f32>, %y: !loop.buffer<[1024], f32>) {
  loop.for %i = 0 to 1024 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[1024], f32>
    loop.for %j = 0 to 96 {
      %v = loop.load %x[%j] : !loop.buffer<[1024], f32>
      %s = loop.load %y[%i] : !loop.buffer<[1024], f32>
      %w = arith.mulf %v, %v : f32
      %t = arith.addf %s, %w : f32
      loop.store %t, %y[%i] : !loop.buffer<[1024], f32>
    }
  }
}
loop.kernel @join(%x: !loop.buffer<[1024], f32>, %y: !loop.buffer<[1024], f32>, %z: !loop.buffer<[1024], f32>) {
  loop.for %i = 0 to 1024 {
    %v = loop.load %x[%i] : !loop.buffer<[1024], f32>
    %w = loop.load %y[%i] : !loop.buffer<[1024], f32>
    %s = arith.addf %v, %w : f32
    loop.store %s, %z[%i] : !loop.buffer<[1024], f32>
  }
}
loop.program @main(%x: !loop.buffer<[1024], f32>, %y: !loop.buffer<[1024], f32>, %z: !loop.buffer<[1024], f32>) inputs 2 {
  %a = loop.alloc workspace : !loop.buffer<[1024], f32>
  loop.call @work(%x, %a) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  %p = loop.alloc workspace : !loop.buffer<[1024], f32>
  loop.call @work(%a, %p) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  %b = loop.alloc workspace : !loop.buffer<[1024], f32>
  loop.call @work(%y, %b) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  %q = loop.alloc workspace : !loop.buffer<[1024], f32>
  loop.call @work(%b, %q) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  loop.call @join(%p, %q, %z) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
}

// -----

// Calls that write what another one reads, before or after it, wait for each other; so do calls whose sizes vary.
// CHECK-LABEL: loop.program @main
// CHECK-NOT: loop.concurrent
loop.kernel @work(%x: !loop.buffer<[1024], f32>, %y: !loop.buffer<[1024], f32>) {
  loop.for %i = 0 to 1024 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %y[%i] : !loop.buffer<[1024], f32>
    loop.for %j = 0 to 96 {
      %v = loop.load %x[%j] : !loop.buffer<[1024], f32>
      %s = loop.load %y[%i] : !loop.buffer<[1024], f32>
      %w = arith.mulf %v, %v : f32
      %t = arith.addf %s, %w : f32
      loop.store %t, %y[%i] : !loop.buffer<[1024], f32>
    }
  }
}
loop.kernel @any[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    loop.store %v, %y[%i] : !loop.buffer<[n], f32>
  }
}
loop.program @main[n](%x: !loop.buffer<[1024], f32>, %v: !loop.buffer<[n], f32>, %y: !loop.buffer<[1024], f32>, %z: !loop.buffer<[1024], f32>, %p: !loop.buffer<[n], f32>, %q: !loop.buffer<[n], f32>) inputs 2 {
  %a = loop.alloc workspace : !loop.buffer<[1024], f32>
  loop.call @work(%x, %a) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  loop.call @work(%a, %y) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  loop.call @work(%x, %a) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  loop.call @work(%a, %z) : !loop.buffer<[1024], f32>, !loop.buffer<[1024], f32>
  loop.call @any[n](%v, %p) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
  loop.call @any[n](%v, %q) : !loop.buffer<[n], f32>, !loop.buffer<[n], f32>
}
