// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @ring
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: %[[Y:[^ ]+]] = "dm.permute"(%[[X]]) {group = #dm.group<@mesh, ["dp"]>, source_target_pairs = dense<{{\[}}[0, 1], [1, 2], [2, 0]]> : tensor<3x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[Z:[^ ]+]] = "dm.permute"(%[[Y]]) {channel = @c, group = #dm.group<@mesh, ["dp"]>, source_target_pairs = dense<{{\[}}[0, 1]]> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: return %[[Z]]
func.func @ring(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 2], [2, 0]]> : tensor<3x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %z = "dm.permute"(%y) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, group = #dm.group<@mesh, ["dp"]>, channel = @c} : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
