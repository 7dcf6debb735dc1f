// RUN: dmc-opt %s --from=imported --to=scheduled | %FileCheck %s
// RUN: dmc-opt %s --from=imported --to=planned | %FileCheck %s --check-prefix=PLAN --implicit-check-not=@step

// The batch arrives, a kernel adds it up, the sum is reduced between ranks, and the new state and the loss come of it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w"
// CHECK: "dm.copy"{{.*}}target = #dm.space<"device">
// CHECK: %[[X:.+]] = "dm.wait"
// CHECK: %[[PART:.+]] = "dm.kernel"(%[[X]]) {body = @[[SUM:[a-z_0-9]+]]
// CHECK: "dm.start"(%[[PART]])
// CHECK-NEXT: ^bb0
// CHECK-NEXT: "dm.all_reduce"{{.*}}channel = @dp
// CHECK: %[[ALL:.+]] = "dm.wait"
// CHECK: "dm.start"(%[[ALL]])
// CHECK: %[[NEW:.+]] = "dm.kernel"(%[[W]], %[[ALL]]) {body = @[[UPDATE:[a-z_0-9]+]]
// CHECK: %[[LOSS:.+]] = "dm.wait"
// CHECK: return %[[NEW]], %[[LOSS]]
// CHECK-DAG: func.func private @[[SUM]]
// CHECK-DAG: func.func private @[[UPDATE]]

// One program for both ranks; the update writes where the state lies.
// PLAN: "dm.program"() ({
// PLAN: "dm.slot"() {name = "w", range = [[SLOT:#dm.range<@device, \[[0-9]+, 16\]>]]
// PLAN: "dm.collective"{{.*}}lane = @dp
// PLAN: "dm.launch"{{.*}}writes = {{\[}}[[SLOT]]]
// PLAN: {ranks = array<i64: 0, 1>, sym_name = "program0"}
// PLAN-NOT: dm.program
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
