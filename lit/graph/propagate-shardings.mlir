// RUN: weft-opt %s --split-input-file --verify-diagnostics -p weft-propagate-shardings | filecheck %s

// A product has the rows of one operand and the columns of the other; both reach what follows and, backwards, the bias.
// CHECK-LABEL: func.func @main
// CHECK-SAME: shardings = [#graph.sharding<[["data"], []]>, #graph.sharding<[[], ["model"]]>, #graph.sharding<[]>]
// CHECK-SAME: result_shardings = [#graph.sharding<[]>]
// CHECK: graph.matmul %x, %w attributes {shardings = [#graph.sharding<{{\[\[}}"data"], ["model"]]>]}
// CHECK: graph.relu {{.*}} attributes {shardings = [#graph.sharding<{{\[\[}}"data"], ["model"]]>]}
// CHECK: graph.neg %b attributes {shardings = [#graph.sharding<{{\[\[}}"model"]]>]}
// CHECK: graph.add {{.*}} attributes {shardings = [#graph.sharding<{{\[\[}}"data"], ["model"]]>]}
builtin.module attributes {weft.options = {mesh = "data=2,model=2", shard = ["x=data", "w=,model"]}} {
  func.func @main(%x: !graph.tensor<[4, 6], f32>, %w: !graph.tensor<[6, 8], f32>, %b: !graph.tensor<[8], f32>) -> !graph.tensor<[4, 8], f32> attributes {input_names = ["x", "w", "b"], output_names = ["y"]} {
    %y = graph.matmul %x, %w : (!graph.tensor<[4, 6], f32>, !graph.tensor<[6, 8], f32>) -> !graph.tensor<[4, 8], f32>
    %r = graph.relu %y : (!graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
    %n = graph.neg %b : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
    %s = graph.add %r, %n : (!graph.tensor<[4, 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[4, 8], f32>
    func.return %s : !graph.tensor<[4, 8], f32>
  }
}

// -----

// An axis cuts one factor of an operator: rows have it first, so what is summed over stays whole. Donated inputs take what reaches them.
// CHECK-LABEL: func.func @main
// CHECK-SAME: shardings = [#graph.sharding<[["data"], []]>, #graph.sharding<[["data"], []]>, #graph.sharding<[["data"], []]>]
// CHECK-SAME: result_shardings = [#graph.sharding<[["data"], []]>]
// CHECK: graph.matmul %x, %w attributes {shardings = [#graph.sharding<{{\[\[}}"data"], []]>]}
builtin.module attributes {weft.options = {mesh = "data=2", shard = ["x=data", "w=data"]}} {
  func.func @main(%x: !graph.tensor<[4, 6], f32>, %w: !graph.tensor<[6, 8], f32>, %m: !graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32> attributes {input_names = ["x", "w", "m"], output_names = ["y"], donated = [[#builtin.int<2>, #builtin.int<0>]]} {
    %y = graph.matmul %x, %w : (!graph.tensor<[4, 6], f32>, !graph.tensor<[6, 8], f32>) -> !graph.tensor<[4, 8], f32>
    %s = graph.add %y, %m : (!graph.tensor<[4, 8], f32>, !graph.tensor<[4, 8], f32>) -> !graph.tensor<[4, 8], f32>
    func.return %s : !graph.tensor<[4, 8], f32>
  }
}

// -----

// What the axes do not divide is not cut: neither 6 rows by 4 ranks, nor what a softmax goes along.
// CHECK-LABEL: func.func @main
// CHECK: graph.reshape %x {{.*}} : (!graph.tensor<[8, 3], f32>)
// CHECK-NOT: attributes
// CHECK: graph.softmax %x {axis = 0 : i64} : (!graph.tensor<[8, 3], f32>)
builtin.module attributes {weft.options = {mesh = "data=4", shard = ["x=data"]}} {
  func.func @main(%x: !graph.tensor<[8, 3], f32>) -> (!graph.tensor<[6, 4], f32>, !graph.tensor<[8, 3], f32>) attributes {input_names = ["x"], output_names = ["y", "z"]} {
    %y = graph.reshape %x {shape = #graph.shape<[6, 4]>} : (!graph.tensor<[8, 3], f32>) -> !graph.tensor<[6, 4], f32>
    %z = graph.softmax %x {axis = 0 : i64} : (!graph.tensor<[8, 3], f32>) -> !graph.tensor<[8, 3], f32>
    func.return %y, %z : !graph.tensor<[6, 4], f32>, !graph.tensor<[8, 3], f32>
  }
}

// -----

// CHECK: the sharding of x requires a dim that is a multiple of 4 (data), got 6
builtin.module attributes {weft.options = {mesh = "data=4", shard = ["x=data"]}} {
  func.func @main(%x: !graph.tensor<[6], f32>) -> !graph.tensor<[6], f32> attributes {input_names = ["x"], output_names = ["y"]} {
    func.return %x : !graph.tensor<[6], f32>
  }
}

// -----

// CHECK: shardings require inputs or outputs (x, y) or weights, got w
builtin.module attributes {weft.options = {mesh = "data=4", shard = ["w=data"]}} {
  func.func @main(%x: !graph.tensor<[6], f32>) -> !graph.tensor<[6], f32> attributes {input_names = ["x"], output_names = ["y"]} {
    func.return %x : !graph.tensor<[6], f32>
  }
}

// -----

// CHECK: the sharding of x requires axes of the mesh (data = 4), got model
builtin.module attributes {weft.options = {mesh = "data=4", shard = ["x=model"]}} {
  func.func @main(%x: !graph.tensor<[6], f32>) -> !graph.tensor<[6], f32> attributes {input_names = ["x"], output_names = ["y"]} {
    func.return %x : !graph.tensor<[6], f32>
  }
}
