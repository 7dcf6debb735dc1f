// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @sum
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xbf16>)
// CHECK: %[[Y:[^ ]+]] = "dm.all_reduce"(%[[X]]) {accumulate = f32, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<8xbf16>) -> tensor<8xbf16>
// CHECK: return %[[Y]]
func.func @sum(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// CHECK-LABEL: func.func @kinds
// CHECK: reduction = #dm.reduction<"mean">
// CHECK: reduction = #dm.reduction<"prod">
// CHECK: reduction = #dm.reduction<"min">
// CHECK: channel = @scalars
// CHECK-SAME: reduction = #dm.reduction<"max">
func.func @kinds(%x: tensor<f64>) -> tensor<f64> {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"mean">, accumulate = f64, group = #dm.group<@mesh, ["dp"]>} : (tensor<f64>) -> tensor<f64>
  %b = "dm.all_reduce"(%a) {reduction = #dm.reduction<"prod">, accumulate = f64, group = #dm.group<@mesh, ["dp"]>} : (tensor<f64>) -> tensor<f64>
  %c = "dm.all_reduce"(%b) {reduction = #dm.reduction<"min">, accumulate = f64, group = #dm.group<@mesh, ["dp"]>} : (tensor<f64>) -> tensor<f64>
  %d = "dm.all_reduce"(%c) {reduction = #dm.reduction<"max">, accumulate = f64, group = #dm.group<@mesh, ["dp"]>, channel = @scalars} : (tensor<f64>) -> tensor<f64>
  return %d : tensor<f64>
}
