// RUN: dmc-opt %s -p 'dm-exchange-sums{machine=h200x4}' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-exchange-sums{machine=cpu}' --split-input-file | %FileCheck %s --check-prefix=STAYS

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// Two ranks give each other what they hold, and add; the movement keeps its label.
// CHECK-LABEL: func.func @all_reduced
// CHECK-SAME: (%[[X:[^:]+]]: tensor<512x2048xbf16>)
// CHECK: %[[O:.+]] = "dm.permute"(%[[X]]) {dm.tensor = "w", {{.*}}source_target_pairs = dense<{{\[\[}}0, 1], [1, 0]]>
// CHECK: %[[S:.+]] = linalg.generic {{.*}} ins(%[[X]], %[[O]] : tensor<512x2048xbf16>, tensor<512x2048xbf16>)
// CHECK: %[[A:.+]] = arith.extf
// CHECK: %[[B:.+]] = arith.extf
// CHECK: %[[C:.+]] = arith.addf %[[A]], %[[B]] : f32
// CHECK: arith.truncf %[[C]]
// CHECK: return %[[S]]
// STAYS-LABEL: func.func @all_reduced
// STAYS: dm.all_reduce
func.func @all_reduced(%x: tensor<512x2048xbf16>) -> tensor<512x2048xbf16> {
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "w",
      group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xbf16>) -> tensor<512x2048xbf16>
  return %y : tensor<512x2048xbf16>
}

// Each rank gets its piece from all, and adds.
// CHECK-LABEL: func.func @scattered
// CHECK: %[[P:.+]] = "dm.all_to_all"(%{{.+}}) {concat_dim = 0 : i64, {{.*}}split_dim = 1 : i64} : (tensor<512x2048xf32>) -> tensor<1024x1024xf32>
// CHECK: %[[A:.+]] = tensor.extract_slice %[[P]][0, 0] [512, 1024] [1, 1]
// CHECK: %[[B:.+]] = tensor.extract_slice %[[P]][512, 0] [512, 1024] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]] :
// CHECK-NEXT: ^bb0(%[[E:.+]]: f32, %[[F:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: arith.addf %[[E]], %[[F]] : f32
// STAYS-LABEL: func.func @scattered
// STAYS: dm.reduce_scatter
func.func @scattered(%x: tensor<512x2048xf32>) -> tensor<512x1024xf32> {
  %y = "dm.reduce_scatter"(%x) {dim = 1 : i64, reduction = #dm.reduction<"sum">, accumulate = f32,
      group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xf32>) -> tensor<512x1024xf32>
  return %y : tensor<512x1024xf32>
}

// Small ones, other reductions, and integers stay.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: dm.all_reduce
func.func @others(%x: tensor<512xf32>, %y: tensor<512x2048xf32>, %z: tensor<512x2048xi32>)
    -> (tensor<512xf32>, tensor<512x2048xf32>, tensor<512x2048xi32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512xf32>) -> tensor<512xf32>
  %b = "dm.all_reduce"(%y) {reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %c = "dm.all_reduce"(%z) {reduction = #dm.reduction<"sum">, accumulate = i32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xi32>) -> tensor<512x2048xi32>
  return %a, %b, %c : tensor<512xf32>, tensor<512x2048xf32>, tensor<512x2048xi32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// More ranks add pieces, along a dimension that they divide, and gather them; what they do not divide stays.
// CHECK-LABEL: func.func @of_four
// CHECK: "dm.all_to_all"(%{{.+}}) {concat_dim = 0 : i64, {{.*}}split_dim = 1 : i64} : (tensor<513x2048xf32>) -> tensor<2052x512xf32>
// CHECK-COUNT-4: tensor.extract_slice
// CHECK: "dm.all_gather"(%{{.+}}) {dim = 1 : i64, {{.*}} : (tensor<513x512xf32>) -> tensor<513x2048xf32>
// CHECK: dm.all_reduce
// STAYS-LABEL: func.func @of_four
// STAYS-COUNT-2: dm.all_reduce
func.func @of_four(%x: tensor<513x2048xf32>, %y: tensor<513x2047xf32>) -> (tensor<513x2048xf32>, tensor<513x2047xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<513x2048xf32>) -> tensor<513x2048xf32>
  %b = "dm.all_reduce"(%y) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<513x2047xf32>) -> tensor<513x2047xf32>
  return %a, %b : tensor<513x2048xf32>, tensor<513x2047xf32>
}
