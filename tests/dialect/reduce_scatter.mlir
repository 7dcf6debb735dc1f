// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xbf16>)
// CHECK: %[[Y:[^ ]+]] = "dm.reduce_scatter"(%[[X]]) {accumulate = f32, dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<8x8xbf16>) -> tensor<4x8xbf16>
// CHECK: return %[[Y]]
func.func @rows(%x: tensor<8x8xbf16>) -> tensor<4x8xbf16> {
  %y = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// Integers accumulate in integers; a channel may be given.
// CHECK-LABEL: func.func @integers
// CHECK: "dm.reduce_scatter"(%{{[^)]+}}) {accumulate = i32, channel = @counts, dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"max">} : (tensor<2x8xi8>) -> tensor<2x4xi8>
func.func @integers(%x: tensor<2x8xi8>) -> tensor<2x4xi8> {
  %y = "dm.reduce_scatter"(%x) {dim = 1 : i64, reduction = #dm.reduction<"max">, accumulate = i32, group = #dm.group<@mesh, ["dp"]>, channel = @counts} : (tensor<2x8xi8>) -> tensor<2x4xi8>
  return %y : tensor<2x4xi8>
}
