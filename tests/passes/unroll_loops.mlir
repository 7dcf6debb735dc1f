// RUN: dmc-opt %s -p dm-unroll-loops --split-input-file | %FileCheck %s --implicit-check-not=scf.for

// Each iteration takes what the one before gave, and knows its number, also inside of an operation.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>
// CHECK: %[[I0:.+]] = arith.constant 1 : index
// CHECK: %[[N0:.+]] = arith.index_cast %[[I0]]
// CHECK: %[[Y0:.+]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: arith.sitofp %[[N0]]
// CHECK: %[[I1:.+]] = arith.constant 3 : index
// CHECK: %[[N1:.+]] = arith.index_cast %[[I1]]
// CHECK: %[[Y1:.+]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK: arith.sitofp %[[N1]]
// CHECK: return %[[Y1]]
func.func @step(%x: tensor<4xf32> {dm.name = "x"}) -> (tensor<4xf32> {dm.name = "y"}) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %empty = tensor.empty() : tensor<4xf32>
  %y = scf.for %i = %c1 to %c5 step %c2 iter_args(%a = %x) -> tensor<4xf32> {
    %n = arith.index_cast %i : index to i32
    %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
      ^bb0(%in: f32, %out: f32):
        %f = arith.sitofp %n : i32 to f32
        %s = arith.addf %in, %f : f32
        linalg.yield %s : f32
    } -> tensor<4xf32>
    scf.yield %b : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// A loop in a loop: both carry on.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>
// CHECK: %[[A:.+]] = arith.addf %[[X]], %[[X]]
// CHECK: %[[B:.+]] = arith.addf %[[A]], %[[X]]
// CHECK: %[[C:.+]] = arith.addf %[[B]], %[[B]]
// CHECK: %[[D:.+]] = arith.addf %[[C]], %[[B]]
// CHECK: return %[[D]]
func.func @step(%x: tensor<4xf32> {dm.name = "x"}) -> (tensor<4xf32> {dm.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x) -> tensor<4xf32> {
    %z = scf.for %j = %c0 to %c2 step %c1 iter_args(%b = %a) -> tensor<4xf32> {
      %s = arith.addf %b, %a : tensor<4xf32>
      scf.yield %s : tensor<4xf32>
    }
    scf.yield %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// No iteration at all; what is carried may change places.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32> {{.+}}, %[[Y:[^:]+]]: tensor<4xf32>
// CHECK: return %[[X]], %[[Y]], %[[Y]], %[[X]]
func.func @step(%x: tensor<4xf32> {dm.name = "x"}, %y: tensor<4xf32> {dm.name = "y"})
    -> (tensor<4xf32> {dm.name = "a"}, tensor<4xf32> {dm.name = "b"}, tensor<4xf32> {dm.name = "c"},
        tensor<4xf32> {dm.name = "d"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r:2 = scf.for %i = %c0 to %c0 step %c1 iter_args(%a = %x, %b = %y) -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  %s:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %b = %y) -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1, %s#0, %s#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
