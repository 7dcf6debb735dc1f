// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xbf16>)
// CHECK: %[[Y:[^ ]+]] = "dm.all_slice"(%[[X]]) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xbf16>) -> tensor<4x8xbf16>
// CHECK: return %[[Y]]
func.func @rows(%x: tensor<8x8xbf16>) -> tensor<4x8xbf16> {
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// Elements of any type are sliced, over several axes at once.
// CHECK-LABEL: func.func @several_axes
// CHECK: "dm.all_slice"(%{{[^)]+}}) {dim = 1 : i64, group = #dm.group<@mesh, ["tp", "dp"]>} : (tensor<2x8xi1>) -> tensor<2x1xi1>
func.func @several_axes(%x: tensor<2x8xi1>) -> tensor<2x1xi1> {
  %y = "dm.all_slice"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["tp", "dp"]>} : (tensor<2x8xi1>) -> tensor<2x1xi1>
  return %y : tensor<2x1xi1>
}
