// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @to_the_next_stage
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: "dm.send"(%[[X]]) {group = #dm.group<@mesh, ["pp"]>, instance = 7 : i64, target = 1 : i64} : (tensor<8xf32>) -> ()
// CHECK: "dm.send"(%[[X]]) {channel = @c, group = #dm.group<@mesh, ["pp"]>, instance = 8 : i64, target = 0 : i64} : (tensor<8xf32>) -> ()
func.func @to_the_next_stage(%x: tensor<8xf32>) {
  "dm.send"(%x) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
  "dm.send"(%x) {target = 0 : i64, instance = 8 : i64, group = #dm.group<@mesh, ["pp"]>, channel = @c} : (tensor<8xf32>) -> ()
  return
}
