// RUN: dmc-opt %s -p dm-copy-ports --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p dm-copy-ports,dm-copy-ports --split-input-file | %FileCheck %s

// Inputs come, outputs go, each by its name; state and its new value stay. All use the one copy of an input.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4xf32> {{.*}}, %[[LR:[^:]+]]: tensor<f32> {{.*}}, %[[X:[^:]+]]: tensor<4xf32> {{.*}}, %[[UNUSED:[^:]+]]: tensor<4xf32> {{.*}})
// CHECK-NEXT: %[[LRD:[^ ]+]] = "dm.copy"(%[[LR]]) {dm.tensor = "lr", source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT: %[[XD:[^ ]+]] = "dm.copy"(%[[X]]) {dm.tensor = "x", source = #dm.space<"pinned_host">, target = #dm.space<"device">}
// CHECK-NEXT: %[[A:[^ ]+]] = arith.addf %[[XD]], %[[XD]]
// CHECK-NEXT: %[[B:[^ ]+]] = arith.addf %[[W]], %[[A]]
// CHECK-NEXT: %[[LOSS:[^ ]+]] = "dm.copy"(%[[A]]) {dm.tensor = "loss", source = #dm.space<"device">, target = #dm.space<"pinned_host">}
// CHECK-NEXT: %[[AGAIN:[^ ]+]] = "dm.copy"(%[[A]]) {dm.tensor = "again", source = #dm.space<"device">, target = #dm.space<"pinned_host">}
// CHECK-NEXT: %[[RATE:[^ ]+]] = "dm.copy"(%[[LRD]]) {dm.tensor = "rate", source = #dm.space<"device">, target = #dm.space<"pinned_host">}
// CHECK-NEXT: %[[OLD:[^ ]+]] = "dm.copy"(%[[W]]) {dm.tensor = "old", source = #dm.space<"device">, target = #dm.space<"pinned_host">}
// CHECK-NEXT: return %[[B]], %[[LOSS]], %[[AGAIN]], %[[RATE]], %[[OLD]]
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}, %lr: tensor<f32> {dm.name = "lr", dm.role = "control"},
                %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}, %unused: tensor<4xf32> {dm.name = "u", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}, tensor<4xf32> {dm.name = "again"},
        tensor<f32> {dm.name = "rate"}, tensor<4xf32> {dm.name = "old"}) {
  %a = arith.addf %x, %x : tensor<4xf32>
  %b = arith.addf %w, %a : tensor<4xf32>
  return %b, %a, %a, %lr, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>
}

// -----

// Near miss: nothing but state, which the step may also give back as it came.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dm.copy
// CHECK: return
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}, %v: tensor<4xf32> {dm.name = "v", dm.role = "frozen"})
    -> (tensor<4xf32> {dm.name = "w"}) {
  return %w : tensor<4xf32>
}
