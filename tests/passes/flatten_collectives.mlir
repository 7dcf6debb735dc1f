// RUN: dmc-opt %s -p dm-flatten-collectives | %FileCheck %s

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()

// Gathered along columns: pieces come one behind the other and are interleaved afterwards.
// CHECK-LABEL: func.func @all_gather
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>)
// CHECK: %[[E:.+]] = tensor.expand_shape %[[X]] {{\[\[}}0, 1], [2]] {{.*}} into tensor<1x4x8xf32>
// CHECK: %[[G:.+]] = "dm.all_gather"(%[[E]]) {channel = @dp, dim = 0 : i64, dm.tensor = "w", group = #dm.group<@mesh, ["dp"]>} : (tensor<1x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK: %[[T:.+]] = linalg.transpose ins(%[[G]] : {{.+}}) outs({{.+}} : tensor<4x2x8xf32>) permutation = [1, 0, 2]
// CHECK: %[[Y:.+]] = tensor.collapse_shape %[[T]] {{\[\[}}0], [1, 2]] : tensor<4x2x8xf32> into tensor<4x16xf32>
// CHECK: return %[[Y]]
func.func @all_gather(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %y = "dm.all_gather"(%x) {dim = 1 : i64, channel = @dp, dm.tensor = "w", group = #dm.group<@mesh, ["dp"]>}
      : (tensor<4x8xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @reduce_scatter
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xbf16>)
// CHECK: %[[E:.+]] = tensor.expand_shape %[[X]] {{.*}} into tensor<4x2x4xbf16>
// CHECK: %[[T:.+]] = linalg.transpose ins(%[[E]] : {{.+}}) outs({{.+}} : tensor<2x4x4xbf16>) permutation = [1, 0, 2]
// CHECK: %[[S:.+]] = "dm.reduce_scatter"(%[[T]]) {accumulate = f32, dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<2x4x4xbf16>) -> tensor<1x4x4xbf16>
// CHECK: %[[Y:.+]] = tensor.collapse_shape %[[S]] {{.*}} into tensor<4x4xbf16>
// CHECK: return %[[Y]]
func.func @reduce_scatter(%x: tensor<4x8xbf16>) -> tensor<4x4xbf16> {
  %y = "dm.reduce_scatter"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>, accumulate = f32,
                                reduction = #dm.reduction<"sum">} : (tensor<4x8xbf16>) -> tensor<4x4xbf16>
  return %y : tensor<4x4xbf16>
}

// Cut along columns, joined along rows: the pieces that arrive need no transposition.
// CHECK-LABEL: func.func @all_to_all
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>)
// CHECK: %[[T:.+]] = linalg.transpose
// CHECK-NOT: linalg.transpose
// CHECK: %[[A:.+]] = "dm.all_to_all"(%[[T]]) {concat_dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, split_dim = 0 : i64} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
// CHECK-NOT: linalg.transpose
// CHECK: tensor.collapse_shape %[[A]] {{\[\[}}0, 1], [2]] : tensor<2x4x4xf32> into tensor<8x4xf32>
func.func @all_to_all(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %y = "dm.all_to_all"(%x) {split_dim = 1 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>}
      : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// Near miss: with nothing before the dimension, pieces are contiguous already.
// CHECK-LABEL: func.func @behind_ones
// CHECK-NOT: linalg.transpose
// CHECK: "dm.all_gather"{{.*}}dim = 0 : i64{{.*}} : (tensor<1x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NOT: linalg.transpose
// CHECK: return %{{.+}} : tensor<1x16xf32>
func.func @behind_ones(%x: tensor<1x8xf32>) -> tensor<1x16xf32> {
  %y = "dm.all_gather"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<1x8xf32>) -> tensor<1x16xf32>
  return %y : tensor<1x16xf32>
}

// Near misses: what acts on dimension 0, on whole tensors, or moves nothing.
// CHECK-LABEL: func.func @others
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>)
// CHECK-NEXT: "dm.all_gather"(%[[X]])
// CHECK-NEXT: "dm.all_reduce"(%[[X]])
// CHECK-NEXT: "dm.all_slice"(%[[X]]) {dim = 1
// CHECK-NEXT: return
func.func @others(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>) {
  %a = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %b = "dm.all_reduce"(%x) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = "dm.all_slice"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return %a, %b, %c : tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>
}
