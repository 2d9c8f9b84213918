// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-eliminate-dead-stores{kernel=k loop=w}' | filecheck %s

// What is filled in the middle is filled again; the columns beside it stay.
// CHECK-LABEL: loop.kernel @k
// CHECK: loop.for %h = 0 to 4 {
// CHECK-NEXT: loop.for %l = 0 to 1 {
// CHECK: loop.store %z, %t[%h + 1, %l]
// CHECK-NOT: loop.for %w
// CHECK: loop.for %i = 0 to 4 {
loop.kernel @k(%x: !loop.buffer<[4, n], f32>, %t: !loop.buffer<[6, n + 1], f32>) {
  loop.for %h = 0 to 4 {
    loop.for %l = 0 to 1 {
      %z = arith.constant 0.0 : f32
      loop.store %z, %t[%h + 1, %l] : !loop.buffer<[6, n + 1], f32>
    }
    loop.for %w = 0 to n {
      %z = arith.constant 0.0 : f32
      loop.store %z, %t[%h + 1, %w + 1] : !loop.buffer<[6, n + 1], f32>
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to n {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, n], f32>
      loop.store %v, %t[%i + 1, %j + 1] : !loop.buffer<[6, n + 1], f32>
    }
  }
}

// -----

// CHECK: eliminate_dead_stores requires a later nest that stores all that is stored, unread until then, got loop.store of %t[%w]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %t: !loop.buffer<[9], f32>) {
  loop.for %w = 0 to 9 {
    %z = arith.constant 0.0 : f32
    loop.store %z, %t[%w] : !loop.buffer<[9], f32>
  }
  loop.for %j = 0 to 8 {
    %v = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %v, %t[%j] : !loop.buffer<[9], f32>
  }
}

// -----

// CHECK: eliminate_dead_stores requires a later nest that stores all that is stored, unread until then, got loop.store of %t[%w]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %t: !loop.buffer<[8], f32>) {
  loop.for %w = 0 to 8 {
    %z = arith.constant 0.0 : f32
    loop.store %z, %t[%w] : !loop.buffer<[8], f32>
  }
  loop.for %j = 0 to 8 {
    %v = loop.load %t[7 - %j] : !loop.buffer<[8], f32>
    loop.store %v, %t[%j] : !loop.buffer<[8], f32>
  }
}

// -----

// Every second element is not all of them.
// CHECK: eliminate_dead_stores requires a later nest that stores all that is stored, unread until then, got loop.store of %t[%w]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %t: !loop.buffer<[8], f32>) {
  loop.for %w = 0 to 8 {
    %z = arith.constant 0.0 : f32
    loop.store %z, %t[%w] : !loop.buffer<[8], f32>
  }
  loop.for %j = 0 to 8 step 2 {
    %v = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %v, %t[%j] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: eliminate_dead_stores requires a nest of loops around one store, got loop %w
loop.kernel @k(%x: !loop.buffer<[8], f32>, %t: !loop.buffer<[8], f32>) {
  loop.for %w = 0 to 8 {
    %z = arith.constant 0.0 : f32
    loop.store %z, %t[%w] : !loop.buffer<[8], f32>
    loop.store %z, %x[%w] : !loop.buffer<[8], f32>
  }
}
