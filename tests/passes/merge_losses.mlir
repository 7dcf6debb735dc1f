// RUN: dmc-opt %s -p 'dm-merge-losses' --split-input-file | %FileCheck %s

// What the gradient of the loss is computed from is computed before.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[LOGITS:[^:]+]]: tensor<32x256xbf16>, %[[TARGET:[^:]+]]: tensor<32xi64>, %[[COUNT:[^:]+]]: tensor<f32>)
// CHECK: %[[DLOSS:.*]] = linalg.generic {{.*}} ins(%[[COUNT]] : tensor<f32>)
// CHECK: %[[BOTH:.*]]:3 = "dm.composite"(%[[DLOSS]], %[[LOGITS]], %[[TARGET]])
// CHECK-SAME: {decomposition = @loss_both, kind = "softmax_cross_entropy_both", parameters = {ignore_index = -100 : i64, label_smoothing = 0.000000e+00 : f64}}
// CHECK-SAME: (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>, tensor<32x256xbf16>)
// CHECK-NOT: "dm.composite"
// CHECK: return %[[BOTH]]#0, %[[BOTH]]#2
// CHECK: func.func private @loss_both(%[[D:[^:]+]]: tensor<f32>, %[[X:[^:]+]]: tensor<32x256xbf16>, %[[T:[^:]+]]: tensor<32xi64>)
// CHECK: %[[TOTAL:.*]] = tensor.empty() : tensor<f32>
// CHECK: %[[LEVEL:.*]] = tensor.empty() : tensor<32xf32>
// CHECK: %[[SLOPE:.*]] = linalg.generic {{.*}} ins(%[[LEVEL]], %[[D]] : tensor<32xf32>, tensor<f32>) outs(%[[X]] :
// CHECK: return %[[TOTAL]], %[[LEVEL]], %[[SLOPE]]

#scalar = affine_map<() -> ()>
#none = affine_map<(i, j) -> ()>
#row = affine_map<(i, j) -> (i)>
#same = affine_map<(i, j) -> (i, j)>
func.func @step(%logits: tensor<32x256xbf16>, %target: tensor<32xi64>, %count: tensor<f32>)
    -> (tensor<f32>, tensor<32x256xbf16>) {
  %loss, %level = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<32x256xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %empty = tensor.empty() : tensor<f32>
  %dloss = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%count : tensor<f32>) outs(%empty : tensor<f32>) {
    ^bb0(%a: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %b = arith.divf %one, %a : f32
      linalg.yield %b : f32
  } -> tensor<f32>
  %gradient = "dm.composite"(%dloss, %logits, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
  return %loss, %gradient : tensor<f32>, tensor<32x256xbf16>
}
func.func private @loss(%x: tensor<32x256xbf16>, %t: tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>) {
  %0 = tensor.empty() : tensor<f32>
  %1 = tensor.empty() : tensor<32xf32>
  return %0, %1 : tensor<f32>, tensor<32xf32>
}
func.func private @gradient(%l: tensor<f32>, %x: tensor<32x256xbf16>, %t: tensor<32xi64>, %n: tensor<32xf32>)
    -> tensor<32x256xbf16> {
  %0 = linalg.generic {indexing_maps = [#row, #none, #same], iterator_types = ["parallel", "parallel"]}
      ins(%n, %l : tensor<32xf32>, tensor<f32>) outs(%x : tensor<32x256xbf16>) {
    ^bb0(%a: f32, %b: f32, %c: bf16):
      linalg.yield %c : bf16
  } -> tensor<32x256xbf16>
  return %0 : tensor<32x256xbf16>
}

// -----

// A gradient that the loss scales, one of other logits, and one that ignores other targets are computed apart.
// CHECK-LABEL: func.func @step
// CHECK-NOT: softmax_cross_entropy_both
func.func @step(%logits: tensor<32x256xbf16>, %others: tensor<32x256xbf16>, %target: tensor<32xi64>, %one: tensor<f32>)
    -> (tensor<32x256xbf16>, tensor<32x256xbf16>, tensor<32x256xbf16>) {
  %loss, %level = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<32x256xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %empty = tensor.empty() : tensor<f32>
  %squared = linalg.mul ins(%loss, %loss : tensor<f32>, tensor<f32>) outs(%empty : tensor<f32>) -> tensor<f32>
  %first = "dm.composite"(%squared, %logits, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
  %second = "dm.composite"(%one, %others, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
  %third = "dm.composite"(%one, %logits, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = 0 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
  return %first, %second, %third : tensor<32x256xbf16>, tensor<32x256xbf16>, tensor<32x256xbf16>
}
func.func private @loss(%x: tensor<32x256xbf16>, %t: tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>) {
  %0 = tensor.empty() : tensor<f32>
  %1 = tensor.empty() : tensor<32xf32>
  return %0, %1 : tensor<f32>, tensor<32xf32>
}
func.func private @gradient(%l: tensor<f32>, %x: tensor<32x256xbf16>, %t: tensor<32xi64>, %n: tensor<32xf32>)
    -> tensor<32x256xbf16> {
  return %x : tensor<32x256xbf16>
}

// -----

// The gradient of a product of two losses: each waits for the other loss, so that only one is computed with its own. The
// second loss comes first then.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<32x256xbf16>, %[[Y:[^:]+]]: tensor<32x256xbf16>,
// CHECK: %[[SECOND:.*]]:2 = "dm.composite"(%[[Y]], %{{.*}}) {decomposition = @loss, kind = "softmax_cross_entropy",
// CHECK: %[[BOTH:.*]]:3 = "dm.composite"(%[[SECOND]]#0, %[[X]], %{{.*}}) {{.*}} kind = "softmax_cross_entropy_both"
// CHECK: %[[SLOPE:.*]] = "dm.composite"(%[[BOTH]]#0, %[[Y]], %{{.*}}, %[[SECOND]]#1) {{.*}} kind = "softmax_cross_entropy_backward"
// CHECK: return %[[BOTH]]#2, %[[SLOPE]]
func.func @step(%x: tensor<32x256xbf16>, %y: tensor<32x256xbf16>, %target: tensor<32xi64>)
    -> (tensor<32x256xbf16>, tensor<32x256xbf16>) {
  %first, %level = "dm.composite"(%x, %target) {kind = "softmax_cross_entropy", decomposition = @loss,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<32x256xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %second, %other = "dm.composite"(%y, %target) {kind = "softmax_cross_entropy", decomposition = @loss,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<32x256xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %of_first = "dm.composite"(%second, %x, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
  %of_second = "dm.composite"(%first, %y, %target, %other) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
  return %of_first, %of_second : tensor<32x256xbf16>, tensor<32x256xbf16>
}
func.func private @loss(%x: tensor<32x256xbf16>, %t: tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>) {
  %0 = tensor.empty() : tensor<f32>
  %1 = tensor.empty() : tensor<32xf32>
  return %0, %1 : tensor<f32>, tensor<32xf32>
}
func.func private @gradient(%l: tensor<f32>, %x: tensor<32x256xbf16>, %t: tensor<32xi64>, %n: tensor<32xf32>)
    -> tensor<32x256xbf16> {
  return %x : tensor<32x256xbf16>
}
