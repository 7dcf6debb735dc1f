// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @away_and_back
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: %[[P:[^ ]+]] = "dm.copy"(%[[X]]) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[H:[^ ]+]] = "dm.copy"(%[[P]]) {source = #dm.space<"pinned_host">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[D:[^ ]+]] = "dm.copy"(%[[H]]) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: return %[[D]]
func.func @away_and_back(%x: tensor<8xf32>) -> tensor<8xf32> {
  %p = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<8xf32>) -> tensor<8xf32>
  %h = "dm.copy"(%p) {source = #dm.space<"pinned_host">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
  %d = "dm.copy"(%h) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}
