// RUN: weft-opt %s --split-input-file -p weft-plan-memory --verify-diagnostics | filecheck %s

// A module says what it is compiled for, and by which options: passes read both, and they print as they are read.
// CHECK-LABEL: builtin.module attributes {weft.target = "x86-64-v4", weft.options = {guarded = "after", max_iterations = 10 : i64, schedules = {k = ["tile{loop=\22i\22 size=4}"]}}}
// CHECK: loop.alloc workspace at 131008 :
builtin.module attributes {weft.target = "x86-64-v4", weft.options = {guarded = "after", max_iterations = 10 : i64, schedules = {k = ["tile{loop=\"i\" size=4}"]}}} {
  loop.kernel @k(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) { }
  loop.program @chain(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[16], f32>) inputs 1 {
    %a = loop.alloc workspace : !loop.buffer<[16], f32>
    loop.call @k(%x, %a) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
    loop.call @k(%a, %y) : !loop.buffer<[16], f32>, !loop.buffer<[16], f32>
  }
}

// -----

// CHECK: weft.target requires one of x86-64, {{.*}}, generic, got vax
builtin.module attributes {weft.target = "vax"} { }

// -----

// CHECK: weft.target requires name, triple, cpu, features, vector_bytes, vector_registers, has_fma, got {cores = 2 : i64}
builtin.module attributes {weft.target = {cores = 2 : i64}} { }

// -----

// CHECK: weft.options requires a dictionary of prefix: str, {{.*}}, max_iterations: int | None, {{.*}}, got fast = true, naive = "no"
builtin.module attributes {weft.options = {fast = true, naive = "no"}} { }

// -----

// CHECK: a module requires attributes out of weft.graph_version, weft.options, weft.target, weft.unoptimised, weft.weights_sha256, got weft.tarjet
builtin.module attributes {weft.tarjet = "x86-64"} { }
