// RUN: weft-opt -p weft-place-halos,weft-name-variants --split-input-file %s | filecheck %s

// What a kernel would copy to pad it lies within its border from the start: the border is filled before, the producer
// writes the inside through a view, and the copy is gone.
// CHECK-LABEL: loop.kernel @border_
// CHECK-SAME: (%a0: !loop.buffer<[2, 10], f32>)
// CHECK-NEXT: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK-NEXT: %[[ZERO:[a-z_0-9]+]] = arith.constant 0.0
// CHECK-NEXT: loop.store %[[ZERO]], %a0[%[[I]], 0]
// CHECK: loop.for %[[I:[a-z_0-9]+]] = 0 to 2 {
// CHECK: loop.store %{{.*}}, %a0[%[[I]], 9]
// CHECK-LABEL: loop.kernel @double
// CHECK-SAME: %a1: !loop.buffer<[2, 8], f32, [d0, d1 + 1] in [2, 10]>
// CHECK-LABEL: loop.kernel @difference
// CHECK-SAME: %a0: !loop.buffer<[2, 10], f32>, %a1: !loop.buffer<[2, 9], f32>)
// CHECK-NOT: loop.alloc
// CHECK: loop.load %a0[%i, %j + 1]
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %[[ALL:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[2, 10], f32>
// CHECK-NEXT: %[[IN:[a-z_0-9]+]] = loop.view %[[ALL]]
// CHECK-NEXT: loop.call @border_{{[0-9a-f]+}}(%[[ALL]])
// CHECK-NEXT: loop.call @double_1_{{[0-9a-f]+}}(%in, %[[IN]])
// CHECK-NEXT: loop.call @difference_1_{{[0-9a-f]+}}(%[[ALL]], %out)
loop.kernel @double_1(%x: !loop.buffer<[2, 8], f32>, %y: !loop.buffer<[2, 8], f32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[2, 8], f32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[2, 8], f32>
    }
  }
}
loop.kernel @difference_1(%x: !loop.buffer<[2, 8], f32>, %y: !loop.buffer<[2, 9], f32>) {
  %padded = loop.alloc workspace : !loop.buffer<[2, 10], f32>
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 10 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %padded[%i, %j] : !loop.buffer<[2, 10], f32>
    }
  }
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[2, 8], f32>
      loop.store %v, %padded[%i, %j + 1] : !loop.buffer<[2, 10], f32>
    }
  }
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 9 {
      %a = loop.load %padded[%i, %j] : !loop.buffer<[2, 10], f32>
      %b = loop.load %padded[%i, %j + 1] : !loop.buffer<[2, 10], f32>
      %d = arith.subf %b, %a : f32
      loop.store %d, %y[%i, %j] : !loop.buffer<[2, 9], f32>
    }
  }
}
loop.program @main(%in: !loop.buffer<[2, 8], f32>, %out: !loop.buffer<[2, 9], f32>) inputs 1 {
  %x = loop.alloc workspace : !loop.buffer<[2, 8], f32>
  loop.call @double_1(%in, %x) : !loop.buffer<[2, 8], f32>, !loop.buffer<[2, 8], f32>
  loop.call @difference_1(%x, %out) : !loop.buffer<[2, 8], f32>, !loop.buffer<[2, 9], f32>
}

// -----

// The caller's input has no border, and is copied.
// CHECK-LABEL: loop.kernel @shift_1
// CHECK: loop.alloc workspace : !loop.buffer<[10], f32>
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: loop.call @shift_1(%in, %out)
loop.kernel @shift_1(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %padded = loop.alloc workspace : !loop.buffer<[10], f32>
  loop.for %j = 0 to 10 {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %padded[%j] : !loop.buffer<[10], f32>
  }
  loop.for %j = 0 to 8 {
    %v = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %v, %padded[%j + 1] : !loop.buffer<[10], f32>
  }
  loop.for %j = 0 to 8 {
    %a = loop.load %padded[%j] : !loop.buffer<[10], f32>
    loop.store %a, %y[%j] : !loop.buffer<[8], f32>
  }
}
loop.program @main(%in: !loop.buffer<[8], f32>, %out: !loop.buffer<[8], f32>) inputs 1 {
  loop.call @shift_1(%in, %out) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
}

// -----

// So it is in a branch, all of whose uses of the buffer are there.
// CHECK-LABEL: loop.program @main
// CHECK: loop.if
// CHECK-NEXT: %[[ALL:[a-z_0-9]+]] = loop.alloc workspace : !loop.buffer<[2, 10], f32>
// CHECK-NEXT: %[[IN:[a-z_0-9]+]] = loop.view %[[ALL]]
// CHECK-NEXT: loop.call @border_{{[0-9a-f]+}}(%[[ALL]])
// CHECK-NEXT: loop.call @double_1_{{[0-9a-f]+}}(%in, %[[IN]])
// CHECK-NEXT: loop.call @difference_1_{{[0-9a-f]+}}(%[[ALL]], %out)
loop.kernel @double_1(%x: !loop.buffer<[2, 8], f32>, %y: !loop.buffer<[2, 8], f32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[2, 8], f32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %y[%i, %j] : !loop.buffer<[2, 8], f32>
    }
  }
}
loop.kernel @difference_1(%x: !loop.buffer<[2, 8], f32>, %y: !loop.buffer<[2, 9], f32>) {
  %padded = loop.alloc workspace : !loop.buffer<[2, 10], f32>
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 10 {
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %padded[%i, %j] : !loop.buffer<[2, 10], f32>
    }
  }
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[2, 8], f32>
      loop.store %v, %padded[%i, %j + 1] : !loop.buffer<[2, 10], f32>
    }
  }
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 9 {
      %a = loop.load %padded[%i, %j] : !loop.buffer<[2, 10], f32>
      %b = loop.load %padded[%i, %j + 1] : !loop.buffer<[2, 10], f32>
      %d = arith.subf %b, %a : f32
      loop.store %d, %y[%i, %j] : !loop.buffer<[2, 9], f32>
    }
  }
}
loop.program @main(%in: !loop.buffer<[2, 8], f32>, %c: !loop.buffer<[], i1>, %out: !loop.buffer<[2, 9], f32>) inputs 2 {
  %t = loop.load %c[] : !loop.buffer<[], i1>
  loop.if %t {
    %x = loop.alloc workspace : !loop.buffer<[2, 8], f32>
    loop.call @double_1(%in, %x) : !loop.buffer<[2, 8], f32>, !loop.buffer<[2, 8], f32>
    loop.call @difference_1(%x, %out) : !loop.buffer<[2, 8], f32>, !loop.buffer<[2, 9], f32>
  } else {
    loop.call @difference_1(%in, %out) : !loop.buffer<[2, 8], f32>, !loop.buffer<[2, 9], f32>
  }
}
