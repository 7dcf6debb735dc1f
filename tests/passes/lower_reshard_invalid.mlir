// RUN: dmc-opt --allow-undefined-symbols %s -p dm-lower-reshard --split-input-file --verify-diagnostics

func.func @no_mesh(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{dm.reshard: #dm.sharding<@mesh, [[]], {}>: @mesh is not defined; declare a dm.mesh}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [["dp"]], {}>} : (tensor<8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @other_whole(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{dm.reshard: dimension 0 of the whole is 8 by 'source' but 16 by 'target'}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [["dp"]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @no_reduction(%x: tensor<8xindex>) -> tensor<8xindex> {
  // expected-error @+1 {{dm.all_reduce: elements of type index cannot be reduced; they must be floating point or integers}}
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xindex>) -> tensor<8xindex>
  return %y : tensor<8xindex>
}
