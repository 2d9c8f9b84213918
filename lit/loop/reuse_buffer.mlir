// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-reuse-buffer{kernel=k allocation=t store="l:2"}' | filecheck %s

// Each row of the temporary is stored in the row of the result, which is stored for good behind it.
// CHECK-LABEL: loop.kernel @k
// CHECK-NOT: loop.alloc
// CHECK: loop.store %{{.*}}, %y[%i, %j]
// CHECK: %{{.*}} = loop.load %y[%i, %k]
// CHECK: %{{.*}} = loop.load %y[%i, %l]
// CHECK: loop.store %{{.*}}, %y[%i, %l]
loop.kernel @k(%x: !loop.buffer<[4, n], f32>, %s: !loop.buffer<[], f32>, %y: !loop.buffer<[4, n], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[4, n], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to n {
      %a = loop.load %x[%i, %j] : !loop.buffer<[4, n], f32>
      loop.store %a, %t[%i, %j] : !loop.buffer<[4, n], f32>
    }
    loop.for %k = 0 to n reduction(add) {
      %b = loop.load %t[%i, %k] : !loop.buffer<[4, n], f32>
      %c = loop.load %s[] : !loop.buffer<[], f32>
      %d = arith.addf %c, %b : f32
      loop.store %d, %s[] : !loop.buffer<[], f32>
    }
    loop.for %l = 0 to n {
      %e = loop.load %t[%i, %l] : !loop.buffer<[4, n], f32>
      %f = arith.addf %e, %e : f32
      loop.store %f, %y[%i, %l] : !loop.buffer<[4, n], f32>
    }
  }
}

// -----

// CHECK: reuse_buffer requires buffers of one plain type, got loop.store of %y[%i, %l]
loop.kernel @k(%x: !loop.buffer<[4, 8], f32>, %y: !loop.buffer<[4, 8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %a = loop.load %x[%i, %j] : !loop.buffer<[4, 8], f32>
      loop.store %a, %t[%j] : !loop.buffer<[8], f32>
    }
    loop.for %l = 0 to 8 {
      %e = loop.load %t[%l] : !loop.buffer<[8], f32>
      %f = arith.addf %e, %e : f32
      loop.store %f, %y[%i, %l] : !loop.buffer<[4, 8], f32>
    }
  }
}

// -----

// What is read after it is stored would be the result.
// CHECK: reuse_buffer requires that the result is stored behind all uses of the temporary, got loop.load of %t[-%l + 7]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.for %j = 0 to 8 {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %a, %t[%j] : !loop.buffer<[8], f32>
  }
  loop.for %l = 0 to 8 {
    %e = loop.load %t[7 - %l] : !loop.buffer<[8], f32>
    %f = arith.addf %e, %e : f32
    loop.store %f, %y[%l] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: reuse_buffer requires that the result is stored behind all uses of the temporary, got loop.load of %t[%m]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>, %z: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.for %j = 0 to 8 {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %a, %t[%j] : !loop.buffer<[8], f32>
  }
  loop.for %l = 0 to 8 {
    %e = loop.load %t[%l] : !loop.buffer<[8], f32>
    %f = arith.addf %e, %e : f32
    loop.store %f, %y[%l] : !loop.buffer<[8], f32>
  }
  loop.for %m = 0 to 8 {
    %g = loop.load %t[%m] : !loop.buffer<[8], f32>
    loop.store %g, %z[%m] : !loop.buffer<[8], f32>
  }
}

// -----

// What is stored for good leaves the last element out, which would keep the temporary's.
// CHECK: reuse_buffer requires that each element is stored in the last nest too, got loop.store of %t[%j]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.for %j = 0 to 8 {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %a, %t[%j] : !loop.buffer<[8], f32>
  }
  loop.for %l = 0 to 7 {
    %e = loop.load %t[%l] : !loop.buffer<[8], f32>
    %f = arith.addf %e, %e : f32
    loop.store %f, %y[%l] : !loop.buffer<[8], f32>
  }
}

// -----

// CHECK: reuse_buffer requires that only one operation accesses the result, got loop.store of %y[%l]
loop.kernel @k(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>) {
  %t = loop.alloc workspace : !loop.buffer<[8], f32>
  loop.for %j = 0 to 8 {
    %a = loop.load %x[%j] : !loop.buffer<[8], f32>
    loop.store %a, %t[%j] : !loop.buffer<[8], f32>
  }
  loop.for %l = 0 to 8 {
    %e = loop.load %t[%l] : !loop.buffer<[8], f32>
    %h = loop.load %y[%l] : !loop.buffer<[8], f32>
    loop.store %e, %y[%l] : !loop.buffer<[8], f32>
  }
}
