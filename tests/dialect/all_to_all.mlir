// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @transpose_shards
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x4xf32>)
// CHECK: %[[Y:[^ ]+]] = "dm.all_to_all"(%[[X]]) {concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>, split_dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
// CHECK: return %[[Y]]
func.func @transpose_shards(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Along one dimension the slices change places and the shape stays.
// CHECK-LABEL: func.func @one_dimension
// CHECK: "dm.all_to_all"(%{{[^)]+}}) {channel = @experts, concat_dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>, split_dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @one_dimension(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>, channel = @experts} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
