// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// Repeated layers share one decomposition.
// CHECK-LABEL: func.func @two_layers
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>, %[[W:[^:]+]]: tensor<8xf32>)
// CHECK: %[[A:[^ ]+]] = "dm.composite"(%[[X]], %[[W]]) {decomposition = @rms_norm_0, kind = "rms_norm", parameters = {eps = 1.000000e-05 : f64}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK: %[[B:[^ ]+]] = "dm.composite"(%[[A]], %[[W]]) {decomposition = @rms_norm_0, kind = "rms_norm", parameters = {eps = 1.000000e-05 : f64}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK: return %[[B]]
func.func @two_layers(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %a = "dm.composite"(%x, %w) {kind = "rms_norm", decomposition = @rms_norm_0, parameters = {eps = 1.0e-05 : f64}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %b = "dm.composite"(%a, %w) {kind = "rms_norm", decomposition = @rms_norm_0, parameters = {eps = 1.0e-05 : f64}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// CHECK-LABEL: func.func private @rms_norm_0
func.func private @rms_norm_0(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// Scalars in, several results out, no parameter.
// CHECK-LABEL: func.func @dropout
// CHECK: "dm.composite"({{.*}}) {decomposition = @dropout_0, kind = "dropout", parameters = {}} : (tensor<8xf32>, i64) -> (tensor<8xf32>, tensor<8xi1>)
func.func @dropout(%x: tensor<8xf32>, %seed: i64) -> tensor<8xf32> {
  %y:2 = "dm.composite"(%x, %seed) {kind = "dropout", decomposition = @dropout_0, parameters = {}} : (tensor<8xf32>, i64) -> (tensor<8xf32>, tensor<8xi1>)
  return %y#0 : tensor<8xf32>
}
