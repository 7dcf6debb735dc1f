// RUN: dmc-opt %s -p 'dm-exchange-sums{machine=node8}' --split-input-file | %FileCheck %s

// Ranks of a node reach each other's memory; those of two nodes only over the network.
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 8>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
// CHECK-LABEL: func.func @nodes
// CHECK: dm.all_reduce
// CHECK-NOT: dm.all_reduce
// CHECK: dm.all_to_all
func.func @nodes(%x: tensor<512x2048xf32>) -> (tensor<512x2048xf32>, tensor<512x2048xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %b = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
  return %a, %b : tensor<512x2048xf32>, tensor<512x2048xf32>
}

// -----

// What is on a channel is as somebody wrote it.
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "c", group = #dm.group<@mesh, ["dp"]>} : () -> ()
// CHECK-LABEL: func.func @channel
// CHECK: dm.all_reduce
func.func @channel(%x: tensor<512x2048xf32>) -> tensor<512x2048xf32> {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, channel = @c, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
  return %a : tensor<512x2048xf32>
}
