// RUN: dmc-opt %s --from=imported --to=placed | %FileCheck %s --implicit-check-not=dm.reshard --implicit-check-not=dm.used

// One rank's program: its rows of %x; the gradient, a sum over rows, is reduced; every end says how it lies.
// CHECK: dm.mesh
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, {{\[\[\]\]}}, {}>}
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, {{\[\["dp"\], \[\]\]}}, {}>}
// CHECK-SAME: -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, {{\[\[\]\]}}, {}>}, tensor<4xf32> {dm.name = "loss", dm.sharding = #dm.sharding<@mesh, {{\[\[\]\]}}, {}>})
// CHECK: %[[PART:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x4xf32>)
// CHECK: %[[SUM:.+]] = "dm.all_reduce"(%[[PART]])
// CHECK: %[[NEW:.+]] = "dm.composite"(%[[W]], %[[SUM]], %{{.+}})
// CHECK: return %[[NEW]], %[[SUM]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %lr: tensor<f32> {dm.name = "lr", dm.role = "control"},
    %x: tensor<8x4xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<8x4xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%a: f32, %total: f32):
    %0 = arith.addf %total, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %new = "dm.composite"(%w, %sum, %lr) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %new, %sum : tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>, %lr: tensor<f32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}
