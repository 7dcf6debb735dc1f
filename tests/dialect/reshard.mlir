// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @complete_and_gather
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xf32>)
// CHECK: %[[Y:[^ ]+]] = "dm.reshard"(%[[X]]) {source = #dm.sharding<@mesh, {{\[}}["dp"], []], {tp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, {{\[}}["dp", "tp"], []], {}>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: return %[[Y]]
func.func @complete_and_gather(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], []], {tp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [["dp", "tp"], []], {}>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// A value may stay partial while it is split otherwise; a scalar has no dimension to split.
// CHECK-LABEL: func.func @stays_partial
// CHECK: target = #dm.sharding<@mesh, {{\[}}["dp"]], {tp = #dm.reduction<"max">}>
// CHECK: source = #dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [], {}>
func.func @stays_partial(%x: tensor<8xf32>, %s: tensor<f32>) {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"max">}>, target = #dm.sharding<@mesh, [["dp"]], {tp = #dm.reduction<"max">}>} : (tensor<8xf32>) -> tensor<8xf32>
  %z = "dm.reshard"(%s) {source = #dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [], {}>} : (tensor<f32>) -> tensor<f32>
  return
}
