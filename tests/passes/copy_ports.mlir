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

// -----

// State that waits in host memory: it comes right before its first reader, here a view, and its new value goes back right behind what
// computes it. An output of the old value is of its copy.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4xf32> {{.*}}, %[[M:[^:]+]]: tensor<4xf32>
// CHECK-NEXT: %[[A:[^ ]+]] = arith.addf %[[W]], %[[W]]
// CHECK-NEXT: %[[MD:[^ ]+]] = "dm.copy"(%[[M]]) {dm.tensor = "w.m", source = #dm.space<"host">, target = #dm.space<"device">}
// CHECK-NEXT: %[[V:[^ ]+]] = tensor.expand_shape %[[MD]]
// CHECK-NEXT: %[[B:[^ ]+]] = arith.addf %[[MD]], %[[A]]
// CHECK-NEXT: %[[MH:[^ ]+]] = "dm.copy"(%[[B]]) {dm.tensor = "w.m", source = #dm.space<"device">, target = #dm.space<"host">}
// CHECK-NEXT: %[[C:[^ ]+]] = arith.subf %[[W]], %[[B]]
// CHECK-NEXT: %[[OLD:[^ ]+]] = "dm.copy"(%[[MD]]) {dm.tensor = "old", source = #dm.space<"device">, target = #dm.space<"pinned_host">}
// CHECK-NEXT: return %[[C]], %[[MH]], %[[OLD]]
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
                %m: tensor<4xf32> {dm.name = "w.m", dm.role = "optimizer", dm.space = #dm.space<"host">})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "w.m"}, tensor<4xf32> {dm.name = "old"}) {
  %a = arith.addf %w, %w : tensor<4xf32>
  %v = tensor.expand_shape %m [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %b = arith.addf %m, %a : tensor<4xf32>
  %c = arith.subf %w, %b : tensor<4xf32>
  return %c, %b, %m : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A new value that does not depend on the old one goes back behind the copy of the old one: it takes its place. One that is an argument is
// copied, too. State that is read, but does not change, is returned as it came; what nothing reads is not copied.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4xf32> {{.*}}, %[[M:[^:]+]]: tensor<4xf32> {{.*}}, %[[N:[^:]+]]: tensor<4xf32> {{.*}}, %[[S:[^:]+]]: tensor<4xf32> {{.*}}, %[[T:[^:]+]]: tensor<4xf32>
// CHECK-NEXT: %[[B:[^ ]+]] = arith.addf %[[W]], %[[W]]
// CHECK-NEXT: %[[MD:[^ ]+]] = "dm.copy"(%[[M]]) {dm.tensor = "w.m"
// CHECK-NEXT: %[[MH:[^ ]+]] = "dm.copy"(%[[B]]) {dm.tensor = "w.m", source = #dm.space<"device">, target = #dm.space<"host">}
// CHECK-NEXT: %[[SD:[^ ]+]] = "dm.copy"(%[[S]]) {dm.tensor = "w.s"
// CHECK-NEXT: %[[C:[^ ]+]] = arith.subf %[[MD]], %[[SD]]
// CHECK-NEXT: %[[NH:[^ ]+]] = "dm.copy"(%[[W]]) {dm.tensor = "w.n", source = #dm.space<"device">, target = #dm.space<"host">}
// CHECK-NEXT: return %[[C]], %[[MH]], %[[NH]], %[[S]], %[[T]]
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
                %m: tensor<4xf32> {dm.name = "w.m", dm.role = "optimizer", dm.space = #dm.space<"host">},
                %n: tensor<4xf32> {dm.name = "w.n", dm.role = "optimizer", dm.space = #dm.space<"host">},
                %s: tensor<4xf32> {dm.name = "w.s", dm.role = "optimizer", dm.space = #dm.space<"host">},
                %t: tensor<4xf32> {dm.name = "w.t", dm.role = "optimizer", dm.space = #dm.space<"host">})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "w.m"}, tensor<4xf32> {dm.name = "w.n"}, tensor<4xf32> {dm.name = "w.s"}, tensor<4xf32> {dm.name = "w.t"}) {
  %b = arith.addf %w, %w : tensor<4xf32>
  %c = arith.subf %m, %s : tensor<4xf32>
  return %c, %b, %w, %s, %t : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
