// RUN: dmc-opt %s -p dm-drop-empty | %FileCheck %s

// State without elements leaves as it came; a sum over nothing stays a sum.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[NONE:[^:]+]]: tensor<0x3xf32>
// CHECK-SAME: %[[W:[^:]+]]: tensor<2xf32>
// CHECK-NOT: arith.addf %[[NONE]]
// CHECK: %[[EMPTY:.+]] = tensor.empty() : tensor<0x3xf32>
// CHECK: linalg.reduce ins(%[[EMPTY]] : tensor<0x3xf32>)
// CHECK: %[[NEW:.+]] = arith.addf %[[W]], %[[W]]
// CHECK: return %[[NONE]], %[[NEW]]
func.func @step(%none: tensor<0x3xf32> {dm.name = "none", dm.role = "parameter"}, %w: tensor<2xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<0x3xf32> {dm.name = "none"}, tensor<2xf32> {dm.name = "w"}, tensor<3xf32> {dm.name = "loss"}) {
  %zeros = arith.constant dense<0.0> : tensor<3xf32>
  %moved = arith.addf %none, %none : tensor<0x3xf32>
  %sum = linalg.reduce ins(%none : tensor<0x3xf32>) outs(%zeros : tensor<3xf32>) dimensions = [0]
    (%a: f32, %b: f32) {
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    }
  %new = arith.addf %w, %w : tensor<2xf32>
  return %moved, %new, %sum : tensor<0x3xf32>, tensor<2xf32>, tensor<3xf32>
}
