// RUN: weft-opt %s --split-input-file -t weft-llvm | filecheck %s

// A parallel loop becomes a function of a range, handed to the run time with the work's grain.
// CHECK-LABEL: define hidden void @"weft.double"(ptr %{{.*}}, i64 %{{.*}}, ptr %{{.*}}, ptr %{{.*}})
// CHECK:       call void @"weft.parallel_for"({{.*}}, i64 4096, {{.*}} @"weft.double.parallel"
// CHECK:       define internal void @"weft.double.parallel"(ptr %{{.*}}, i64 %{{.*}}, i64 %{{.*}})
// CHECK:       load float
// CHECK-NEXT:  fadd float
loop.kernel @double[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {
  loop.for %i = 0 to n parallel {
    %v = loop.load %x[%i] : !loop.buffer<[n], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %y[%i] : !loop.buffer<[n], f32>
  }
}

// -----

// A vector loop runs whole vectors and then a masked one over what is left.
// CHECK-LABEL: define hidden void @"weft.copy"
// CHECK:       load <8 x float>, ptr %{{.*}}, align 4
// CHECK-NEXT:  getelementptr
// CHECK-NEXT:  store <8 x float>
// CHECK:       call <8 x float> @"llvm.masked.load.v8f32.p0"({{.*}} <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0>
// CHECK:       call void @"llvm.masked.store.v8f32.p0"
loop.kernel @copy(%x: !loop.buffer<[20], f32>, %y: !loop.buffer<[20], f32>) {
  loop.for %i = 0 to 20 vector(8) {
    %v = loop.load %x[%i] : !loop.buffer<[20], f32>
    loop.store %v, %y[%i] : !loop.buffer<[20], f32>
  }
}

// -----

// The first lanes of a stride are loaded as shorter vectors, which read nothing behind the last.
// CHECK-LABEL: define hidden void @"weft.halve"
// CHECK:       load <4 x float>
// CHECK:       load <4 x float>
// CHECK:       load <2 x float>
// CHECK:       load <2 x float>
// CHECK-NOT:   insertelement <8 x float>
// CHECK:       call void @"llvm.masked.store.v8f32.p0"
loop.kernel @halve(%x: !loop.buffer<[11], f32>, %y: !loop.buffer<[6], f32>) {
  loop.for %i = 0 to 6 vector(8) {
    %v = loop.load %x[2 * %i] : !loop.buffer<[11], f32>
    loop.store %v, %y[%i] : !loop.buffer<[6], f32>
  }
}

// -----

// A vector loop of one iteration at most is a branch: what it stores to need not vary with it.
// CHECK-LABEL: define hidden void @"weft.last"
// CHECK-NOT:   <8 x
// CHECK:       fadd float
// CHECK:       ret void
loop.kernel @last[n](%x: !loop.buffer<[1], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to min(n, 1) vector(8) {
    %v = loop.load %x[%i] : !loop.buffer<[1], f32>
    %t = loop.load %y[0] : !loop.buffer<[1], f32>
    %w = arith.addf %v, %t : f32
    loop.store %w, %y[0] : !loop.buffer<[1], f32>
  }
}

// -----

// An unrolled loop is written out, and its index is a constant in each copy.
// CHECK-LABEL: define hidden void @"weft.pair"
// CHECK-NOT:   phi
// CHECK:       store float %[[V:.*]], ptr %{{.*}}
// CHECK:       getelementptr float, ptr %{{.*}}, i64 1
// CHECK:       store float
// CHECK:       ret void
loop.kernel @pair(%x: !loop.buffer<[2], f32>, %y: !loop.buffer<[2], f32>) {
  loop.for %i = 0 to 2 unroll {
    %v = loop.load %x[%i] : !loop.buffer<[2], f32>
    loop.store %v, %y[%i] : !loop.buffer<[2], f32>
  }
}

// -----

// A program calls its kernels on pointers of the caller's and on places in the caller's workspace, and
// says before which call that is, and behind the last that no kernel runs.
// CHECK-LABEL: define hidden i64 @"weft.workspace"
// CHECK:       ret i64 96
// CHECK:       define hidden i32 @"weft.program"
// CHECK:       %[[T:.*]] = getelementptr i8, ptr %{{.*}}, i64 64
// CHECK-NEXT:  call void @"weft.profile.enter"(ptr %".1", i32 0, ptr @"profile.name.k")
// CHECK-NEXT:  call void @"weft.k"(ptr %{{.*}}, ptr %{{.*}}, ptr %[[T]])
// CHECK-NEXT:  call void @"weft.profile.enter"(ptr %".1", i32 -2, ptr @"profile.name.other")
loop.program @main(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) inputs 1 {
  %t = loop.alloc workspace at 64 : !loop.buffer<[8], f32>
  loop.call @k(%x, %t) : !loop.buffer<[8], f32>, !loop.buffer<[8], f32>
}

// -----

// A buffer on the stack takes the room of one of its type that nothing uses any more; one that is still read keeps its own.
// CHECK-LABEL: define hidden void @"weft.rooms"
// CHECK:       %[[T:.*]] = alloca [101 x float]
// CHECK:       %[[U:.*]] = alloca [101 x float]
// CHECK-NOT:   alloca
// CHECK:       fadd
// CHECK-NEXT:  getelementptr float, ptr %[[T]]
loop.kernel @rooms(%x: !loop.buffer<[100], f32>, %y: !loop.buffer<[100], f32>) {
  %t = loop.alloc scratch : !loop.buffer<[100], f32>
  loop.for %i = 0 to 100 {
    %v = loop.load %x[%i] : !loop.buffer<[100], f32>
    loop.store %v, %t[%i] : !loop.buffer<[100], f32>
  }
  %u = loop.alloc scratch : !loop.buffer<[100], f32>
  loop.for %i = 0 to 100 {
    %v = loop.load %t[%i] : !loop.buffer<[100], f32>
    %w = arith.mulf %v, %v : f32
    loop.store %w, %u[%i] : !loop.buffer<[100], f32>
  }
  %r = loop.alloc scratch : !loop.buffer<[100], f32>
  loop.for %i = 0 to 100 {
    %v = loop.load %u[%i] : !loop.buffer<[100], f32>
    %w = arith.addf %v, %v : f32
    loop.store %w, %r[%i] : !loop.buffer<[100], f32>
  }
  loop.for %i = 0 to 100 {
    %v = loop.load %r[%i] : !loop.buffer<[100], f32>
    loop.store %v, %y[%i] : !loop.buffer<[100], f32>
  }
}

// -----

// A loop over three dims of a call's sizes counts each of them: only its first iteration divides.
// CHECK-LABEL: define hidden void @"weft.turn"
// CHECK:       udiv i64
// CHECK:       urem i64
// CHECK:       udiv i64
// CHECK:       urem i64
// CHECK:       loop:
// CHECK-COUNT-5: phi i64
// CHECK-NOT:   {{div|rem}}
// CHECK:       load float
// CHECK:       store float
// CHECK-COUNT-2: select i1 %{{.*}}, i64 0
// CHECK:       br i1
loop.kernel @turn[n, m, k](%x: !loop.buffer<[n, m, k], f32>, %y: !loop.buffer<[k, m, n], f32>) {
  loop.for %i = 0 to n * m * k {
    %v = loop.load %x[((%i floordiv n) floordiv m), ((%i floordiv n) mod m), (%i mod n)] : !loop.buffer<[n, m, k], f32>
    loop.store %v, %y[(%i mod n), ((%i floordiv n) mod m), ((%i floordiv n) floordiv m)] : !loop.buffer<[k, m, n], f32>
  }
}
