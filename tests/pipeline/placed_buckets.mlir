// RUN: dmc-opt %s --from=placed --to=placed --split-input-file --verify-diagnostics

// Two gradients that ranks add in one bucket are the same on all of them.
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<64xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
                %v: tensor<64xf32> {dm.name = "v", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
                %x: tensor<64xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<64xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
        tensor<64xf32> {dm.name = "v", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %g = arith.negf %x : tensor<64xf32>
  %p = "dm.pack"(%x, %g) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %s = "dm.all_reduce"(%p) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<128xf32>) -> tensor<128xf32>
  %u:2 = "dm.unpack"(%s) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %a = arith.subf %w, %u#0 : tensor<64xf32>
  %b = arith.subf %v, %u#1 : tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

// What is only packed and unpacked is not.
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<64xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>},
                %x: tensor<64xf32> {dm.name = "x", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<64xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %p = "dm.pack"(%w, %x) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %u:2 = "dm.unpack"(%p) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  // expected-error @+1 {{'w' may differ between ranks along dp, but is declared replicated}}
  %a = arith.subf %w, %u#1 : tensor<64xf32>
  return %a : tensor<64xf32>
}
