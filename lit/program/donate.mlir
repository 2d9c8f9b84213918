// RUN: weft-opt -p weft-donate --split-input-file %s | filecheck %s

// What is updated element by element, behind all other reads, is written to the output at once.
// CHECK-LABEL: loop.program @main
// CHECK-NOT:  loop.alloc
// CHECK:      loop.call @product(%w, %y)
// CHECK-NEXT: loop.call @double(%w, %w2)
// CHECK-NOT:  loop.copy
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.kernel @product(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.mulf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %w2: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  loop.call @product(%w, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// An input that is read after its output is there: the output is computed beside, and copied last.
// CHECK-LABEL: loop.program @main
// CHECK:      [[OWN:%.+]] = loop.alloc workspace
// CHECK-NEXT: loop.call @double(%w, [[OWN]])
// CHECK-NEXT: loop.call @double(%w, %y)
// CHECK-NEXT: loop.copy [[OWN]], %w2
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %w2: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  loop.call @double(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%w, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// A kernel that reads other elements than it writes cannot work in place.
// CHECK-LABEL: loop.program @main
// CHECK:      [[OWN:%.+]] = loop.alloc workspace
// CHECK-NEXT: loop.call @reverse(%w, [[OWN]])
// CHECK-NEXT: loop.copy [[OWN]], %w2
loop.kernel @reverse(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[31 - %i] : !loop.buffer<[32], f32>
    loop.store %v, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %w2: !loop.buffer<[32], f32>) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  loop.call @reverse(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// Reads of the output behind its write change nothing.
// CHECK-LABEL: loop.program @main
// CHECK-NOT:  loop.alloc
// CHECK:      loop.call @double(%w, %w2)
// CHECK-NEXT: loop.call @double(%w2, %y)
// CHECK-NOT:  loop.copy
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %w2: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  loop.call @double(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  loop.call @double(%w2, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// Programs that nothing is donated to stay as they are.
// CHECK-LABEL: loop.program @main
// CHECK-NOT:  loop.copy
loop.kernel @reverse(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[31 - %i] : !loop.buffer<[32], f32>
    loop.store %v, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %w2: !loop.buffer<[32], f32>) inputs 1 {
  loop.call @reverse(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}

// -----

// A call that reads the input through a view as well may not write in place.
// CHECK-LABEL: loop.program @main
// CHECK:      [[OWN:%.+]] = loop.alloc workspace
// CHECK:      loop.call @add(%w, %v, [[OWN]])
// CHECK-NEXT: loop.copy [[OWN]], %w2
loop.kernel @add(%x: !loop.buffer<[4, 2], f32>, %t: !loop.buffer<[2, 4], f32>, %y: !loop.buffer<[4, 2], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 2 {
      %a = loop.load %x[%i, %j] : !loop.buffer<[4, 2], f32>
      %b = loop.load %t[%j, %i] : !loop.buffer<[2, 4], f32>
      %c = arith.addf %a, %b : f32
      loop.store %c, %y[%i, %j] : !loop.buffer<[4, 2], f32>
    }
  }
}
loop.program @main(%w: !loop.buffer<[4, 2], f32>, %w2: !loop.buffer<[4, 2], f32>) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  %v = loop.view %w : !loop.buffer<[4, 2], f32> to !loop.buffer<[2, 4], f32>
  loop.call @add(%w, %v, %w2) : !loop.buffer<[4, 2], f32>, !loop.buffer<[2, 4], f32>, !loop.buffer<[4, 2], f32>
}

// -----

// In each of two branches the input is read no more when the output is written; what runs in the other is no reader.
// CHECK-LABEL: loop.program @main
// CHECK-NOT:  loop.alloc workspace : !loop.buffer<[32], f32>
// CHECK:      loop.copy %w, %w2
// CHECK:      loop.call @double(%w, %w2)
// CHECK-NOT:  loop.copy
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %c: !loop.buffer<[], i1>, %w2: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) inputs 2 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  %t = loop.load %c[] : !loop.buffer<[], i1>
  loop.if %t {
    loop.copy %w, %w2 : !loop.buffer<[32], f32>
  } else {
    loop.call @double(%w, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
    loop.call @double(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  }
}

// -----

// An input that is read behind a branch that writes its output is still needed.
// CHECK-LABEL: loop.program @main
// CHECK:      [[OWN:%.+]] = loop.alloc workspace
// CHECK:      loop.call @double(%w, [[OWN]])
// CHECK:      loop.copy [[OWN]], %w2
loop.kernel @double(%a: !loop.buffer<[32], f32>, %b: !loop.buffer<[32], f32>) {
  loop.for %i = 0 to 32 {
    %v = loop.load %a[%i] : !loop.buffer<[32], f32>
    %s = arith.addf %v, %v : f32
    loop.store %s, %b[%i] : !loop.buffer<[32], f32>
  }
}
loop.program @main(%w: !loop.buffer<[32], f32>, %c: !loop.buffer<[], i1>, %w2: !loop.buffer<[32], f32>, %y: !loop.buffer<[32], f32>) inputs 2 attributes {donated = [[#builtin.int<0>, #builtin.int<0>]]} {
  %t = loop.load %c[] : !loop.buffer<[], i1>
  loop.if %t {
    loop.copy %w, %w2 : !loop.buffer<[32], f32>
  } else {
    loop.call @double(%w, %w2) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
  }
  loop.call @double(%w, %y) : !loop.buffer<[32], f32>, !loop.buffer<[32], f32>
}
