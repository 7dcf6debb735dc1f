// RUN: dmc-opt %s -p dm-propagate-sharding --split-input-file --verify-diagnostics

// expected-error @+1 {{builtin.module: has 2 meshes}}
module {
  "dm.mesh"() {sym_name = "a", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  "dm.mesh"() {sym_name = "b", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{math.exp: returns 1 tensors, but dm.sharding states 2}}
  %y = math.exp %x {dm.sharding = [#dm.sharding<@mesh, [[]], {}>, #dm.sharding<@mesh, [[]], {}>]} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  // expected-error @+1 {{tensor.extract_slice: tensor<?xf32> has no static shape}}
  %y = tensor.extract_slice %x[0] [%n] [1] : tensor<8xf32> to tensor<?xf32>
  %z = tensor.cast %y : tensor<?xf32> to tensor<8xf32>
  return %z : tensor<8xf32>
}
