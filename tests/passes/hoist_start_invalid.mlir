// RUN: dmc-opt %s -p dm-hoist-start --verify-diagnostics
// RUN: dmc-opt %s -p dm-sink-wait --verify-diagnostics
// RUN: dmc-opt %s -p dm-bucket --verify-diagnostics

// Before dm-async there is nothing to move.
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{dm.all_reduce: is not started, so it has no start and wait to move}}
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
