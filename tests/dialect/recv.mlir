// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @from_the_stage_before
// CHECK: %[[X:[^ ]+]] = "dm.recv"() {group = #dm.group<@mesh, ["pp"]>, instance = 7 : i64, source = 0 : i64} : () -> tensor<8xf32>
// CHECK: "dm.recv"() {channel = @c, group = #dm.group<@mesh, ["pp"]>, instance = 8 : i64, source = 1 : i64} : () -> tensor<8xf32>
// CHECK: return %[[X]]
func.func @from_the_stage_before() -> tensor<8xf32> {
  %x = "dm.recv"() {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
  %y = "dm.recv"() {source = 1 : i64, instance = 8 : i64, group = #dm.group<@mesh, ["pp"]>, channel = @c} : () -> tensor<8xf32>
  return %x : tensor<8xf32>
}
