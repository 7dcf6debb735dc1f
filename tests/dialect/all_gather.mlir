// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[PIECE:[^:]+]]: tensor<4x8xf32>)
// CHECK: %[[FULL:[^ ]+]] = "dm.all_gather"(%[[PIECE]]) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK: return %[[FULL]]
func.func @rows(%piece: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %full = "dm.all_gather"(%piece) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %full : tensor<8x8xf32>
}

// On a channel, along two axes and another dimension; an attribute of another dialect may ride along.
// CHECK-LABEL: func.func @columns
// CHECK: "dm.all_gather"(%{{[^)]+}}) {channel = @weights, dim = 1 : i64, dmx.note = "kept", group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<4x8xbf16>) -> tensor<4x64xbf16>
func.func @columns(%piece: tensor<4x8xbf16>) -> tensor<4x64xbf16> {
  %full = "dm.all_gather"(%piece) {dim = 1 : i64, group = #dm.group<@mesh, ["dp", "tp"]>, channel = @weights, dmx.note = "kept"} : (tensor<4x8xbf16>) -> tensor<4x64xbf16>
  return %full : tensor<4x64xbf16>
}

// Nothing gathered is nothing.
// CHECK-LABEL: func.func @empty
// CHECK: "dm.all_gather"(%{{[^)]+}}) {{.*}} : (tensor<0x8xf32>) -> tensor<0x8xf32>
func.func @empty(%piece: tensor<0x8xf32>) -> tensor<0x8xf32> {
  %full = "dm.all_gather"(%piece) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<0x8xf32>) -> tensor<0x8xf32>
  return %full : tensor<0x8xf32>
}
