// RUN: dmc-opt %s -p dm-count-traffic --split-input-file --verify-diagnostics

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
  // expected-error @+1 {{scf.if: holds a dm.all_reduce, whose runs are not counted}}
  %y = scf.if %p -> tensor<4xf32> {
    %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @helper(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{dm.all_gather: stands in @helper, but traffic is counted in @step only}}
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
