// RUN: dmc-opt %s -p dm-isolate-update --split-input-file | %FileCheck %s

// The gradient, which is computed, is isolated; the old state, an argument, is read as it is.
// CHECK-LABEL: func.func @computed_operand
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4xf32>, %[[X:[^:]+]]: tensor<4xf32>)
// CHECK: %[[G:.+]] = arith.mulf %[[X]], %[[W]]
// CHECK: %[[BARRIER:.+]] = "util.optimization_barrier"(%[[G]])
// CHECK: "dm.composite"(%[[W]], %[[BARRIER]])
func.func @computed_operand(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %g = arith.mulf %x, %w : tensor<4xf32>
  %new = "dm.composite"(%w, %g) {kind = "optimizer_update.sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new : tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A value that two updates read has one barrier, and other users of the value keep it without.
// CHECK-LABEL: func.func @shared_operand
// CHECK-SAME: (%[[V:[^:]+]]: tensor<4xf32>, %[[W:[^:]+]]: tensor<4xf32>, %[[X:[^:]+]]: tensor<4xf32>)
// CHECK: %[[G:.+]] = math.tanh %[[X]]
// CHECK: %[[BARRIER:.+]] = "util.optimization_barrier"(%[[G]])
// CHECK-NOT: util.optimization_barrier
// CHECK: %[[NEW_V:.+]] = "dm.composite"(%[[V]], %[[BARRIER]])
// CHECK: %[[NEW_W:.+]] = "dm.composite"(%[[W]], %[[BARRIER]])
// CHECK: return %[[NEW_V]], %[[NEW_W]], %[[G]]
func.func @shared_operand(%v: tensor<4xf32>, %w: tensor<4xf32>, %x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %g = math.tanh %x : tensor<4xf32>
  %new_v = "dm.composite"(%v, %g) {kind = "optimizer_update.sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %new_w = "dm.composite"(%w, %g) {kind = "optimizer_update.sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new_v, %new_w, %g : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Near miss: a composite of another kind writes nobody's storage.
// CHECK-LABEL: func.func @other_kind
// CHECK-NOT: util.optimization_barrier
// CHECK: return
func.func @other_kind(%x: tensor<4xf32>) -> tensor<4xf32> {
  %g = math.tanh %x : tensor<4xf32>
  %y = "dm.composite"(%g) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @gelu_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Near miss: an update of arguments alone waits for nothing.
// CHECK-LABEL: func.func @arguments_only
// CHECK-NOT: util.optimization_barrier
// CHECK: return
func.func @arguments_only(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %new = "dm.composite"(%w, %g) {kind = "optimizer_update.sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new : tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}
