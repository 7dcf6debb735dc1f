// RUN: dmc-opt %s -p "dm-propagate-sharding,dm-partition" --split-input-file | %FileCheck %s

// A value and its transposition, both needed whole, are moved once: the view is made again of what was moved.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x6xf32>
// CHECK-COUNT-1: dm.reshard
// CHECK-NOT: dm.reshard
// CHECK: return
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>})
    -> (tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, tensor<6x8xf32> {dm.sharding = #dm.sharding<@mesh, [[], []], {}>}) {
  %y = math.exp %x : tensor<8x6xf32>
  %e = tensor.empty() : tensor<6x8xf32>
  %t = linalg.transpose ins(%y : tensor<8x6xf32>) outs(%e : tensor<6x8xf32>) permutation = [1, 0]
  return %y, %t : tensor<8x6xf32>, tensor<6x8xf32>
}

// -----

// Also through reshapes, split within blocks.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: dm.reshard
// CHECK-NOT: dm.reshard
// CHECK: tensor.collapse_shape %{{[^ ]+}} {{.*}} : tensor<2x4x6xf32> into tensor<8x6xf32>
// CHECK: return
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<2x4x6xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["tp"], []], {}>})
    -> (tensor<2x4x6xf32> {dm.sharding = #dm.sharding<@mesh, [[], [], []], {}>}, tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [[], []], {}>}) {
  %y = math.exp %x : tensor<2x4x6xf32>
  %c = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x4x6xf32> into tensor<8x6xf32>
  return %y, %c : tensor<2x4x6xf32>, tensor<8x6xf32>
}
