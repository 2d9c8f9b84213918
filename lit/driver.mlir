// RUN: weft-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics -p canonicalize | filecheck %s
// RUN: weft-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics --print-op-generic | filecheck %s --check-prefix=GENERIC

// Passes run on every case, those of xDSL as well.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: (%x: i32)
// CHECK-NEXT: func.return %x : i32
// GENERIC: "func.func"() <{sym_name = "sum"
// GENERIC: "arith.addi"
func.func @sum(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %y = arith.addi %x, %zero : i32
  func.return %y : i32
}

// -----

// What the verifier refuses is printed in place of the module.
// CHECK: Expected arguments to have the same types as the function output types
func.func @wrong_type(%x: i32) -> f32 {
  func.return %x : i32
}

// -----

// So is a syntax error.
// CHECK: driver.mlir:
// CHECK: expect symbol name
func.func no_at_sign() {

// -----

// The cases after it run.
// CHECK-LABEL: func.func @last
func.func @last() {
  func.return
}
