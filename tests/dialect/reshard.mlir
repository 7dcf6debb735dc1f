// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// Types are those of a rank's part: with two ranks along each axis, both are parts of tensor<16x8xf32>.
// CHECK-LABEL: func.func @complete_and_scatter
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xf32>)
// CHECK: %[[Y:[^ ]+]] = "dm.reshard"(%[[X]]) {source = #dm.sharding<@mesh, {{\[}}["dp"], []], {tp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, {{\[}}["dp", "tp"], []], {}>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
// CHECK: return %[[Y]]
func.func @complete_and_scatter(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], []], {tp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [["dp", "tp"], []], {}>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A value may stay partial while it is split otherwise; a scalar has no dimension to split.
// CHECK-LABEL: func.func @stays_partial
// CHECK: target = #dm.sharding<@mesh, {{\[}}["dp"]], {tp = #dm.reduction<"max">}>
// CHECK: source = #dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [], {}>
func.func @stays_partial(%x: tensor<8xf32>, %s: tensor<f32>) {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"max">}>, target = #dm.sharding<@mesh, [["dp"]], {tp = #dm.reduction<"max">}>} : (tensor<8xf32>) -> tensor<4xf32>
  %z = "dm.reshard"(%s) {source = #dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [], {}>} : (tensor<f32>) -> tensor<f32>
  return
}

// A value may become partial by sum; sum and mean may be mixed.
// CHECK-LABEL: func.func @becomes_partial
// CHECK: target = #dm.sharding<@mesh, {{\[}}[]], {dp = #dm.reduction<"mean">, tp = #dm.reduction<"sum">}>
func.func @becomes_partial(%x: tensor<8xf32>) {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"mean">}>, target = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"mean">, tp = #dm.reduction<"sum">}>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
