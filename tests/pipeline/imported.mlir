// RUN: dmc-opt %s --from=imported --to=imported | %FileCheck %s

// A module in the form goes through unchanged: composites, names and roles stay.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}
// CHECK-SAME: %[[N:[^:]+]]: tensor<i64> {dm.name = "step", dm.role = "counter"}
// CHECK-SAME: %[[LR:[^:]+]]: tensor<1xf32> {dm.name = "lr", dm.role = "control"}
// CHECK-SAME: %[[X:[^:]+]]: tensor<4xf32> {dm.name = "x", dm.role = "batch"}
// CHECK-SAME: -> (tensor<4xf32> {dm.name = "w"}, tensor<i64> {dm.name = "step"}, tensor<4xf32> {dm.name = "loss"})
// CHECK: %[[Y:.+]] = "dm.composite"(%[[X]]) {{.*}}decomposition = @gelu_0
// CHECK: %[[UNUSED:.+]] = arith.negf
// CHECK: return %[[Y]], %[[N]], %[[X]]
// CHECK-LABEL: func.func private @gelu_0
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %n: tensor<i64> {dm.name = "step", dm.role = "counter"},
    %lr: tensor<1xf32> {dm.name = "lr", dm.role = "control"},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<i64> {dm.name = "step"}, tensor<4xf32> {dm.name = "loss"}) {
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  %unused = arith.negf %y : tensor<4xf32>
  return %y, %n, %x : tensor<4xf32>, tensor<i64>, tensor<4xf32>
}
func.func private @gelu_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.erf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
