// RUN: weft-opt %s --split-input-file -p weft-note-kernels,weft-summarize-kernels | filecheck %s

// What passes over programs have to know of a kernel stands on it: what a call computes, its workspace, which are
// arguments from here on, what it writes, which results may take an operand's place, and what threads share.
// CHECK-LABEL: loop.kernel @square(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>, %t: !loop.buffer<[8], f32>)
// CHECK-SAME: flops = #loop.exprs<[8]>
// CHECK-SAME: shares = array<i64: 33>
// CHECK-SAME: temporaries = #builtin.int<1>
// CHECK-SAME: writes = [#builtin.int<1>, #builtin.int<2>]
// CHECK-SAME: in_place = array<i64: 0, 1, 0, 2>
// CHECK-NOT: loop.alloc
loop.kernel @square(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : !loop.buffer<[8], f32>
    %b = arith.mulf %a, %a : f32
    loop.store %b, %t[%i] : !loop.buffer<[8], f32>
    loop.store %b, %y[%i] : !loop.buffer<[8], f32>
  }
}

// -----

// One thread has 40 stores and a constant; of the section, which runs twice, a chunk is a task of 16,384 operations and more. Of
// what varies nothing is said.
// CHECK-LABEL: loop.kernel @parallel
// CHECK-SAME: shares = array<i64: 41, 2, 9, 9, 32796>
// CHECK-LABEL: loop.kernel @varying
// CHECK-NOT: shares
loop.kernel @parallel(%y: !loop.buffer<[9, 1821], f32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 40 {
    loop.store %one, %y[0, %i] : !loop.buffer<[9, 1821], f32>
  }
  loop.for %t = 0 to 2 {
    loop.for %i = 0 to 9 parallel {
      loop.for %j = 0 to 1821 {
        loop.store %one, %y[%i, %j] : !loop.buffer<[9, 1821], f32>
      }
    }
  }
}
loop.kernel @varying[n](%y: !loop.buffer<[n], f32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to n parallel {
    loop.store %one, %y[%i] : !loop.buffer<[n], f32>
  }
}

// -----

// A kernel that waits for a layout gets none.
// CHECK-LABEL: loop.kernel @waiting
// CHECK-NOT: writes
// CHECK-LABEL: loop.program @main
// CHECK-NOT: repeats
loop.kernel @waiting(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) attributes {awaits_layout} { }
loop.program @main(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) inputs 1 {
  loop.call @waiting(%x, %y) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
}

// -----

// A program with a loop may run something as often as values say.
// CHECK-LABEL: loop.program @again
// CHECK-SAME: attributes {repeats}
loop.program @again(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) inputs 1 {
  loop.for %i = 0 to 3 { }
}

// -----

// Kernels of a program that computes next to nothing, which it is too, are brief where that is asked for. They work on nothing in
// place where all that they read are inputs, which stay.
// CHECK-LABEL: loop.kernel @few(
// CHECK-SAME: brief
// CHECK-SAME: in_place = array<i64>
// CHECK-LABEL: loop.program @main
// CHECK-SAME: attributes {brief}
builtin.module attributes {weft.options = {brief = true}} {
loop.kernel @few(%x: !loop.buffer<[2000], f32>, %y: !loop.buffer<[2000], f32>) {
  loop.for %i = 0 to 2000 {
    %a = loop.load %x[%i] : !loop.buffer<[2000], f32>
    loop.store %a, %y[%i] : !loop.buffer<[2000], f32>
  }
}
loop.program @main(%x: !loop.buffer<[2000], f32>, %y: !loop.buffer<[2000], f32>) inputs 1 {
  loop.call @few(%x, %y) : !loop.buffer<[2000], f32>, !loop.buffer<[2000], f32>
  loop.call @few(%x, %y) : !loop.buffer<[2000], f32>, !loop.buffer<[2000], f32>
}
}

// -----

// What a program has allocated, and an input that it is given, may be overwritten.
// CHECK-LABEL: loop.kernel @of_temporary(
// CHECK-SAME: in_place = array<i64: 0, 1>
builtin.module attributes {weft.options = {brief = true}} {
loop.kernel @of_temporary(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %a, %y[%i] : !loop.buffer<[8], f32>
  }
}
loop.program @main(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) inputs 1 {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.call @of_temporary(%x, %t) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
  loop.call @of_temporary(%t, %y) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
}
}

// -----

// CHECK-LABEL: loop.kernel @of_donated(
// CHECK-SAME: in_place = array<i64: 0, 1>
builtin.module attributes {weft.options = {brief = true}} {
loop.kernel @of_donated(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : !loop.buffer<[8], f32>
    loop.store %a, %y[%i] : !loop.buffer<[8], f32>
  }
}
loop.program @main(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) inputs 1 attributes {donated = [[#builtin.int<0>, #builtin.int<1>]]} {
  loop.call @of_donated(%x, %y) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
}
}

// -----

// All calls count, and those of sizes that vary are not few.
// CHECK-LABEL: loop.kernel @few(
// CHECK-NOT: brief{{[,}]}}
builtin.module attributes {weft.options = {brief = true}} {
loop.kernel @few(%x: !loop.buffer<[5000], f32>, %y: !loop.buffer<[5000], f32>) {
  loop.for %i = 0 to 5000 {
    %a = loop.load %x[%i] : !loop.buffer<[5000], f32>
    loop.store %a, %y[%i] : !loop.buffer<[5000], f32>
  }
}
loop.program @main(%x: !loop.buffer<[5000], f32>, %y: !loop.buffer<[5000], f32>) inputs 1 {
  loop.call @few(%x, %y) : !loop.buffer<[5000], f32>, !loop.buffer<[5000], f32>
  loop.call @few(%x, %y) : !loop.buffer<[5000], f32>, !loop.buffer<[5000], f32>
}
}

// -----

// CHECK-LABEL: loop.kernel @varying[n](
// CHECK-NOT: brief{{[,}]}}
builtin.module attributes {weft.options = {brief = true}} {
loop.kernel @varying[n](%y: !loop.buffer<[n], f32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to n {
    loop.store %one, %y[%i] : !loop.buffer<[n], f32>
  }
}
loop.program @main[n](%y: !loop.buffer<[n], f32>) inputs 0 {
  loop.call @varying[n](%y) : !loop.buffer<[n], f32>
}
}

// -----

// Code that others may call is as fast as it can be, however little it computes.
// CHECK-LABEL: loop.kernel @asked_by_nobody(
// CHECK-NOT: brief{{[,}]}}
loop.kernel @asked_by_nobody(%x: !loop.buffer<[2000], f32>, %y: !loop.buffer<[2000], f32>) {
  loop.for %i = 0 to 2000 {
    %a = loop.load %x[%i] : !loop.buffer<[2000], f32>
    loop.store %a, %y[%i] : !loop.buffer<[2000], f32>
  }
}
loop.program @main(%x: !loop.buffer<[2000], f32>, %y: !loop.buffer<[2000], f32>) inputs 1 {
  loop.call @asked_by_nobody(%x, %y) : !loop.buffer<[2000], f32>, !loop.buffer<[2000], f32>
}
