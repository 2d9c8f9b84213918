// RUN: weft-opt %s --split-input-file --verify-diagnostics -p 'weft-stage-accumulators{kernel=k source=y at=i}' | filecheck %s

// Each block of terms is added up in registers before it joins the sums.
// CHECK-LABEL: loop.kernel @k
// CHECK-NEXT: loop.for %i = 0 to 4 {
// CHECK-NEXT: %y_r = loop.alloc registers : !loop.buffer<[8], f32>
// CHECK-NEXT: loop.for %in0 = 0 to 8 {
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: loop.store %[[ZERO]], %y_r[%in0]
// CHECK: loop.for %k = 0 to 16 reduction(add) {
// CHECK-NOT: %y[
// CHECK: loop.store %{{.*}}, %y_r[%m]
// CHECK: loop.for %st0 = 0 to 8 {
// CHECK-NEXT: %[[S:.*]] = loop.load %y[%st0]
// CHECK-NEXT: %[[P:.*]] = loop.load %y_r[%st0]
// CHECK-NEXT: %[[T:.*]] = arith.addf %[[S]], %[[P]]
// CHECK-NEXT: loop.store %[[T]], %y[%st0]
loop.kernel @k(%x: !loop.buffer<[64, 8], f32>, %y: !loop.buffer<[8], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 16 reduction(add) {
      loop.for %m = 0 to 8 {
        %s = loop.load %y[%m] : !loop.buffer<[8], f32>
        %v = loop.load %x[16 * %i + %k, %m] : !loop.buffer<[64, 8], f32>
        %t = arith.addf %s, %v : f32
        loop.store %t, %y[%m] : !loop.buffer<[8], f32>
      }
    }
  }
}

// -----

// A maximum starts from what is no larger than anything.
// CHECK-LABEL: loop.kernel @k
// CHECK: arith.constant 0xff800000
// CHECK: arith.maximumf
// CHECK: arith.maximumf
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 16 reduction(max) {
      %s = loop.load %y[0] : !loop.buffer<[1], f32>
      %v = loop.load %x[%i, %k] : !loop.buffer<[4, 16], f32>
      %t = arith.maximumf %s, %v : f32
      loop.store %t, %y[0] : !loop.buffer<[1], f32>
    }
  }
}

// -----

// Without the mark, no permission.
// CHECK: stage_accumulators requires reductions of the updates' kind (add), got loop.load of %y[0]
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 16 {
      %s = loop.load %y[0] : !loop.buffer<[1], f32>
      %v = loop.load %x[%i, %k] : !loop.buffer<[4, 16], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[0] : !loop.buffer<[1], f32>
    }
  }
}

// -----

// What is read between updates is the sum so far.
// CHECK: stage_accumulators requires reductions of the updates' kind (add), got loop.load of %y[0]
loop.kernel @k(%x: !loop.buffer<[4, 16], f32>, %y: !loop.buffer<[1], f32>, %z: !loop.buffer<[4], f32>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 16 reduction(add) {
      %s = loop.load %y[0] : !loop.buffer<[1], f32>
      %v = loop.load %x[%i, %k] : !loop.buffer<[4, 16], f32>
      %t = arith.addf %s, %v : f32
      loop.store %t, %y[0] : !loop.buffer<[1], f32>
    }
    %u = loop.load %y[0] : !loop.buffer<[1], f32>
    loop.store %u, %z[%i] : !loop.buffer<[4], f32>
  }
}

// -----

// Two updates of one element in an iteration are two terms: the loop itself has to allow it.
// CHECK: stage_accumulators requires reductions of the updates' kind (add), got loop.load of %y[0]
loop.kernel @k(%x: !loop.buffer<[4], f32>, %y: !loop.buffer<[1], f32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : !loop.buffer<[4], f32>
    %s = loop.load %y[0] : !loop.buffer<[1], f32>
    %t = arith.addf %s, %v : f32
    loop.store %t, %y[0] : !loop.buffer<[1], f32>
    %s2 = loop.load %y[0] : !loop.buffer<[1], f32>
    %t2 = arith.addf %s2, %v : f32
    loop.store %t2, %y[0] : !loop.buffer<[1], f32>
  }
}
