// RUN: dmc-opt %s -p dm-link-ranks{order=port},dm-tie-state | %FileCheck %s

// State of all ranks stands before the batch of any, so that form lowered takes it.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[W0:[^:]+]]: tensor<4xf32> {dm.name = "w@0", dm.rank = 0 : i64, dm.role = "parameter", iree.abi.output = 0 : index}
// CHECK-SAME: %[[W1:[^:]+]]: tensor<4xf32> {dm.name = "w@1", dm.rank = 1 : i64, dm.role = "parameter", iree.abi.output = 1 : index}
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4xf32> {dm.name = "x@0", dm.rank = 0 : i64, dm.role = "batch"}
// CHECK-SAME: %[[X1:[^:]+]]: tensor<4xf32> {dm.name = "x@1", dm.rank = 1 : i64, dm.role = "batch"}
// CHECK-SAME: -> (tensor<4xf32> {dm.name = "w@0", dm.rank = 0 : i64}, tensor<4xf32> {dm.name = "w@1", dm.rank = 1 : i64}, tensor<4xf32> {dm.name = "y@0", dm.rank = 0 : i64}, tensor<4xf32> {dm.name = "y@1", dm.rank = 1 : i64})
// CHECK-NEXT: %[[S0:.+]] = arith.subf %[[W0]], %[[X0]] : tensor<4xf32>
// CHECK-NEXT: %[[S1:.+]] = arith.subf %[[W1]], %[[X1]] : tensor<4xf32>
// CHECK-NEXT: return %[[S0]], %[[S1]], %[[X0]], %[[X1]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}, %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "y"}) {
  %s = arith.subf %w, %x : tensor<4xf32>
  return %s, %x : tensor<4xf32>, tensor<4xf32>
}
