// RUN: weft-opt %s -t weft-llvm | filecheck %s

// Work is counted down; what is asked when it is done may end the program.
// CHECK-LABEL: define hidden i32 @"weft.program"
// CHECK: store i64 1048576, ptr %[[LEFT:.*]]
// CHECK: %[[BEFORE:.*]] = load atomic i32, ptr %{{.*}} monotonic
// CHECK: %[[WORK:.*]] = call i64 @"llvm.umin.i64"(i64 100, i64 1048577)
// CHECK: %[[NEW:.*]] = sub i64 %{{.*}}, %[[WORK]]
// CHECK: store i64 %[[NEW]], ptr %[[LEFT]]
// CHECK: icmp slt i64 %[[NEW]], 0
// CHECK: %[[STATUS:.*]] = call i32 @"weft.ask_to_go_on"(ptr %".1", i32 %[[BEFORE]])
// CHECK: icmp ne i32 %[[STATUS]], 0
// CHECK: ret i32 %[[STATUS]]
loop.program @main[n](%x: !loop.buffer<[n], f32>) inputs 1 {
  loop.for %i = 0 to n {
    loop.poll [100]
  }
}
