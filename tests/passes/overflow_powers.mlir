// RUN: dmc-opt %s -p dm-overflow-powers | %FileCheck %s

#id = affine_map<(i) -> (i)>

// What a power is added to meets infinity where it overflows.
// CHECK-LABEL: func.func @added
// CHECK: ^bb0(%[[X:[^:]+]]: f32
// CHECK: %[[POWER:.+]] = math.exp %[[X]]
// CHECK: %[[LARGE:.+]] = arith.cmpf ogt, %[[X]], %
// CHECK: %[[GUARDED:.+]] = arith.select %[[LARGE]], %{{.+}}, %[[POWER]]
// CHECK: arith.subf %[[GUARDED]], %[[X]]
func.func @added(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%out : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = math.exp %a : f32
    %2 = arith.subf %1, %a : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A sum over a dimension is infinite either way.
// CHECK-LABEL: func.func @summed
// CHECK-NOT: arith.select
func.func @summed(%x: tensor<4xf32>, %out: tensor<f32>) -> tensor<f32> {
  %0 = linalg.generic {indexing_maps = [#id, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<4xf32>) outs(%out : tensor<f32>) {
  ^bb0(%a: f32, %sum: f32):
    %1 = math.exp %a : f32
    %2 = arith.addf %1, %sum : f32
    linalg.yield %2 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}
