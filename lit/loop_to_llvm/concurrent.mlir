// RUN: weft-opt %s -t weft-llvm | filecheck %s

// A context with as many threads runs the branches by number, and kernels without it; else they are called in order.
// A profile is told of each kernel on the thread that runs it, and of the end of a branch.
// CHECK-LABEL: define hidden i32 @"weft.program"
// CHECK: %[[N:.*]] = load i64, ptr
// CHECK: icmp uge i64 %[[N]], 2
// CHECK: icmp ule i64 %[[N]], 4
// CHECK: call void @"weft.parallel_for"(ptr %".1", i64 2, i64 1, void (ptr, i64, i64)* @"weft.program.branches", ptr %{{.*}})
// CHECK: call void @"weft.k"(ptr %".1"
// CHECK-NEXT: call void @"weft.profile.enter"(ptr %".1", i32 1, ptr @"weft.name.l")
// CHECK-NEXT: call void @"weft.l"(ptr %".1"
// CHECK-NEXT: call void @"weft.profile.enter"(ptr %".1", i32 -2, ptr @"profile.name.other")
// CHECK-LABEL: define internal void @"weft.program.branches"
// CHECK: switch i64
// CHECK: call void @"weft.profile.enter"(ptr %[[CONTEXT:.*]], i32 0, ptr @"weft.name.k")
// CHECK-NEXT: call void @"weft.k"(ptr null
// CHECK-NEXT: call void @"weft.profile.enter"(ptr %[[CONTEXT]], i32 -2
// CHECK: call void @"weft.profile.enter"(ptr %[[CONTEXT]], i32 1
// CHECK-NEXT: call void @"weft.l"(ptr null
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) { }
loop.kernel @l(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>) { }
loop.program @main(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[4], f32>, %z: !loop.buffer<[4], f32>) inputs 1 {
  loop.concurrent 2 to 4 {
    loop.call @k(%x, %y) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  } and {
    loop.call @l(%x, %z) : !loop.buffer<[4], f32>, !loop.buffer<[4], f32>
  }
}
