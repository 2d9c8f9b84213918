// RUN: weft-opt -p weft-drop-copies,weft-write-states --split-input-file %s | filecheck %s

// An iteration writes a row of what it carries: the copies in front of it and behind it are gone.
// CHECK-LABEL: loop.kernel @scatter_{{[0-9a-f]+}}(%a0: !loop.buffer<[], i64>, %a1: !loop.buffer<[8], f32>, %a2: !loop.buffer<[4, 8], f32>)
// CHECK-NEXT: loop.load %a0[]
// CHECK-LABEL: loop.program @main
// CHECK: loop.for
// CHECK-NEXT: loop.call @scatter_{{[0-9a-f]+}}(%k, %u, %s)
// CHECK-NEXT: }
loop.kernel @scatter_0(%x: !loop.buffer<[4, 8], f32>, %k: !loop.buffer<[], i64>, %u: !loop.buffer<[8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
  %place = loop.load %k[] : !loop.buffer<[], i64>
  %row = arith.index_cast %place : i64 to index
  loop.for %j = 0 to 8 {
    %w = loop.load %u[%j] : !loop.buffer<[8], f32>
    loop.store %w, %y[%row, %j] : !loop.buffer<[4, 8], f32>
  }
}
loop.program @main[n](%k: !loop.buffer<[], i64>, %u: !loop.buffer<[8], f32>, %s: !loop.buffer<[4, 8], f32>) inputs 2 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[4, 8], f32>
    loop.call @scatter_0(%s, %k, %u, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[], i64>, !loop.buffer<[8], f32>, !loop.buffer<[4, 8], f32>
    loop.copy %t, %s : !loop.buffer<[4, 8], f32>
  }
}

// -----

// What an iteration carries is read again after the call that computes the next one: nothing changes.
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @double(%s, %t)
// CHECK-NEXT: loop.call @double(%s, %y)
// CHECK-NEXT: loop.copy %t, %s
loop.kernel @double(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.program @main[n](%s: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) inputs 0 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[4], f32>
    loop.call @double(%s, %t) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
    loop.call @double(%s, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
    loop.copy %t, %s : !loop.buffer<[4], f32>
  }
}

// -----

// A kernel that reads an element before it writes it may have one buffer for both; one that reads
// the elements in another order may not.
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @double(%s, %s)
// CHECK-NEXT: %u = loop.alloc
// CHECK-NEXT: loop.call @reverse(%s, %u)
// CHECK-NEXT: loop.copy %u, %s
loop.kernel @double(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.kernel @reverse(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[3 - %i] : !loop.buffer<[4], f32>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.program @main[n](%s: !loop.buffer<[4], f32>) inputs 0 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[4], f32>
    loop.call @double(%s, %t) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
    loop.copy %t, %s : !loop.buffer<[4], f32>
    %u = loop.alloc workspace : !loop.buffer<[4], f32>
    loop.call @reverse(%s, %u) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
    loop.copy %u, %s : !loop.buffer<[4], f32>
  }
}

// -----

// An operand that ends with the call is written to as well; an input of the caller's is not.
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @keep_{{[0-9a-f]+}}(%a)
// CHECK: %b = loop.alloc
// CHECK-NEXT: loop.call @keep_0(%x, %b)
loop.kernel @keep_0(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %y[0] : !loop.buffer<[4], f32>
}
loop.kernel @add(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.program @main(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>, %z: !loop.buffer<[4], f32>) inputs 1 {
  %a = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.call @add(%x, %a) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  %t = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.call @keep_0(%a, %t) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  loop.call @add(%t, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  %b = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.call @keep_0(%x, %b) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  loop.call @add(%b, %z) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
}

// -----

// A buffer that is allocated behind the call whose result it takes over moves in front of it.
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: %s = loop.alloc workspace
// CHECK-NEXT: loop.call @fill(%x, %s)
// CHECK-NEXT: loop.call @fill(%s, %y)
loop.kernel @fill(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    loop.store %v, %y[%i] : !loop.buffer<[4], f32>
  }
}
loop.program @main[](%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) inputs 1 {
  %t = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.call @fill(%x, %t) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  %s = loop.alloc workspace : !loop.buffer<[4], f32>
  loop.copy %t, %s : !loop.buffer<[4], f32>
  loop.call @fill(%s, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
}

// -----

// Copies of what lies around a row that is replaced are left out as well.
// CHECK-LABEL: loop.kernel @insert_{{[0-9a-f]+}}(%a0: !loop.buffer<[8], f32>, %a1: !loop.buffer<[4, 8], f32>)
// CHECK-NEXT: loop.for %j = 0 to 8 {
// CHECK-NEXT: loop.load %a0[%j]
// CHECK-NEXT: loop.store %{{.*}}, %a1[2, %j]
// CHECK-LABEL: loop.program @main
// CHECK: loop.for
// CHECK-NEXT: loop.call @insert_{{[0-9a-f]+}}(%u, %s)
// CHECK-NEXT: }
loop.kernel @insert_0(%x: !loop.buffer<[4, 8], f32>, %u: !loop.buffer<[8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
  loop.for %j = 0 to 8 {
    %v = loop.load %x[3, %j] : !loop.buffer<[4, 8], f32>
    loop.store %v, %y[3, %j] : !loop.buffer<[4, 8], f32>
  }
  loop.for %j = 0 to 8 {
    %w = loop.load %u[%j] : !loop.buffer<[8], f32>
    loop.store %w, %y[2, %j] : !loop.buffer<[4, 8], f32>
  }
}
loop.program @main[n](%u: !loop.buffer<[8], f32>, %s: !loop.buffer<[4, 8], f32>) inputs 1 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[4, 8], f32>
    loop.call @insert_0(%s, %u, %t) : !loop.buffer<[4, 8], f32>, !loop.buffer<[8], f32>, !loop.buffer<[4, 8], f32>
    loop.copy %t, %s : !loop.buffer<[4, 8], f32>
  }
}

// -----

// A donated input is copied to its output, which is nothing where they share memory, and the kernel
// writes the row.
// CHECK-LABEL: loop.program @main
// CHECK-NEXT: loop.copy %s, %y
// CHECK-NEXT: loop.call @scatter_{{[0-9a-f]+}}(%k, %u, %y)
loop.kernel @scatter_0(%x: !loop.buffer<[4, 8], f32>, %k: !loop.buffer<[], i64>, %u: !loop.buffer<[8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
  %place = loop.load %k[] : !loop.buffer<[], i64>
  %row = arith.index_cast %place : i64 to index
  loop.for %j = 0 to 8 {
    %w = loop.load %u[%j] : !loop.buffer<[8], f32>
    loop.store %w, %y[%row, %j] : !loop.buffer<[4, 8], f32>
  }
}
loop.program @main(%k: !loop.buffer<[], i64>, %u: !loop.buffer<[8], f32>, %s: !loop.buffer<[4, 8], f32>, %y: !loop.buffer<[4, 8], f32>) inputs 3 attributes {donated = [[#builtin.int<2>, #builtin.int<0>]]} {
  loop.call @scatter_0(%s, %k, %u, %y) : !loop.buffer<[4, 8], f32>, !loop.buffer<[], i64>, !loop.buffer<[8], f32>, !loop.buffer<[4, 8], f32>
}

// -----

// Nobody donates: the kernel copies its operand.
// CHECK-LABEL: loop.program @main
// CHECK-NOT: loop.copy
// CHECK: loop.call @scatter_0(%s, %k, %u, %y)
loop.kernel @scatter_0(%x: !loop.buffer<[4, 8], f32>, %k: !loop.buffer<[], i64>, %u: !loop.buffer<[8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %v, %y[%i, %j] : !loop.buffer<[4, 8], f32>
    }
  }
  %place = loop.load %k[] : !loop.buffer<[], i64>
  %row = arith.index_cast %place : i64 to index
  loop.for %j = 0 to 8 {
    %w = loop.load %u[%j] : !loop.buffer<[8], f32>
    loop.store %w, %y[%row, %j] : !loop.buffer<[4, 8], f32>
  }
}
loop.program @main(%k: !loop.buffer<[], i64>, %u: !loop.buffer<[8], f32>, %s: !loop.buffer<[4, 8], f32>, %y: !loop.buffer<[4, 8], f32>) inputs 3 {
  loop.call @scatter_0(%s, %k, %u, %y) : !loop.buffer<[4, 8], f32>, !loop.buffer<[], i64>, !loop.buffer<[8], f32>, !loop.buffer<[4, 8], f32>
}

// -----

// What is read before a small part is changed is read where the result is.
// CHECK-LABEL: loop.kernel @part_{{[0-9a-f]+}}(%a0: !loop.buffer<[8], f32>)
// CHECK: loop.load %a0[%i + 1]
// CHECK: loop.store %w_1, %a0[%k]
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @part_{{[0-9a-f]+}}(%s)
// CHECK-NEXT: }
loop.kernel @part_0(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[3], f32>
  loop.for %i = 0 to 3 {
    %v = loop.load %x[%i + 1] : !loop.buffer<[8], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %t[%i] : !loop.buffer<[3], f32>
  }
  loop.for %j = 0 to 5 {
    %v = loop.load %x[%j + 3] : !loop.buffer<[8], f32>
    loop.store %v, %y[%j + 3] : !loop.buffer<[8], f32>
  }
  loop.for %k = 0 to 3 {
    %w = loop.load %t[%k] : !loop.buffer<[3], f32>
    loop.store %w, %y[%k] : !loop.buffer<[8], f32>
  }
}
loop.program @main[n](%s: !loop.buffer<[8], f32>) inputs 0 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[8], f32>
    loop.call @part_0(%s, %t) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
    loop.copy %t, %s : !loop.buffer<[8], f32>
  }
}

// -----

// Where most is changed, the copy of the rest costs less than keeping what is read apart.
// CHECK-LABEL: loop.program @main
// CHECK: loop.call @most_0(%s, %t)
// CHECK-NEXT: loop.copy %t, %s
loop.kernel @most_0(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[5], f32>
  loop.for %i = 0 to 5 {
    %v = loop.load %x[%i + 1] : !loop.buffer<[8], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %t[%i] : !loop.buffer<[5], f32>
  }
  loop.for %j = 0 to 3 {
    %v = loop.load %x[%j + 5] : !loop.buffer<[8], f32>
    loop.store %v, %y[%j + 5] : !loop.buffer<[8], f32>
  }
  loop.for %k = 0 to 5 {
    %w = loop.load %t[%k] : !loop.buffer<[5], f32>
    loop.store %w, %y[%k] : !loop.buffer<[8], f32>
  }
}
loop.program @main[n](%s: !loop.buffer<[8], f32>) inputs 0 {
  loop.for %i = 0 to n {
    %t = loop.alloc workspace : !loop.buffer<[8], f32>
    loop.call @most_0(%s, %t) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
    loop.copy %t, %s : !loop.buffer<[8], f32>
  }
}
