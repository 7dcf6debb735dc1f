// RUN: dmc-opt %s --from=imported --to=lowered | %FileCheck %s --implicit-check-not=dm.composite --implicit-check-not=private

// The update is resolved in an arena, the state is tied, what nobody uses is gone, what stands twice stands once.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[T:[^:]+]]: tensor<4xf32> {dm.name = "table", dm.role = "frozen"}
// CHECK-SAME: %[[X:[^:]+]]: tensor<4xf32> {dm.name = "x", dm.role = "batch"}
// CHECK-SAME: %[[W:[^:]+]]: tensor<1024xf32> {dm.members = {w = 0 : i64}, dm.name = "arena:0.parameter", dm.role = "arena", iree.abi.output = 0 : index}
// CHECK-NOT: arith.negf
// CHECK: %[[SUM:.+]] = arith.addf %[[X]], %[[T]]
// CHECK-NOT: arith.addf
// CHECK: tensor.insert_slice %[[SUM]]
// CHECK: %[[NEW:.+]] = linalg.generic {{.*}} outs(%[[W]] : tensor<1024xf32>)
// CHECK: arith.subf
// CHECK: return %[[NEW]], %[[SUM]]
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %table: tensor<4xf32> {dm.name = "table", dm.role = "frozen"},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}) {
  %gradient = arith.addf %x, %table : tensor<4xf32>
  %loss = arith.addf %x, %table : tensor<4xf32>
  %unused = arith.negf %x : tensor<4xf32>
  %new = "dm.composite"(%w, %gradient) {kind = "optimizer_update.sgd", decomposition = @update_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new, %loss : tensor<4xf32>, tensor<4xf32>
}
func.func private @update_0(%w: tensor<4xf32>, %gradient: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %gradient : tensor<4xf32>
  return %0 : tensor<4xf32>
}
