// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @from_the_first
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: %[[Y:[^ ]+]] = "dm.broadcast"(%[[X]]) {group = #dm.group<@mesh, ["dp"]>, root = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[Z:[^ ]+]] = "dm.broadcast"(%[[Y]]) {channel = @c, group = #dm.group<@mesh, ["dp"]>, root = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: return %[[Z]]
func.func @from_the_first(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %z = "dm.broadcast"(%y) {root = 1 : i64, group = #dm.group<@mesh, ["dp"]>, channel = @c} : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
