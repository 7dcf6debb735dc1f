// RUN: dmc-opt %s -p 'dm-absorb-casts,canonicalize' --split-input-file | %FileCheck %s

#same = affine_map<(i, j) -> (i, j)>
#cube = affine_map<(i, j, k) -> (i, j, k)>

// The logits are widened, before a reshape, for the loss alone; the gradient is narrowed.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[LOGITS:[^:]+]]: tensor<2x16x256xbf16>
// CHECK-NOT: arith.extf
// CHECK: "dm.composite"(%{{.*}}, %{{.*}}) {decomposition = @loss_narrow, kind = "softmax_cross_entropy"
// CHECK-SAME: (tensor<32x256xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
// CHECK: %[[G:.*]] = "dm.composite"({{.*}}) {decomposition = @gradient_narrow, kind = "softmax_cross_entropy_backward"
// CHECK-SAME: (tensor<f32>, tensor<32x256xbf16>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xbf16>
// CHECK-NOT: arith.truncf
// CHECK: return %{{.*}}, %[[G]]
// CHECK: func.func private @loss_narrow(%{{.*}}: tensor<32x256xbf16>
// CHECK: arith.extf
// CHECK: call @loss(
// CHECK: func.func private @gradient_narrow(
// CHECK: arith.extf
// CHECK: call @gradient(
// CHECK: arith.truncf

func.func @step(%logits: tensor<2x16x256xbf16>, %target: tensor<32xi64>) -> (tensor<f32>, tensor<32x256xbf16>) {
  %empty = tensor.empty() : tensor<2x16x256xf32>
  %wide = linalg.generic {indexing_maps = [#cube, #cube], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%logits : tensor<2x16x256xbf16>) outs(%empty : tensor<2x16x256xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<2x16x256xf32>
  %rows = tensor.collapse_shape %wide [[0, 1], [2]] : tensor<2x16x256xf32> into tensor<32x256xf32>
  %loss, %level = "dm.composite"(%rows, %target) {kind = "softmax_cross_entropy", decomposition = @loss,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<32x256xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %gradient = "dm.composite"(%loss, %rows, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xf32>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xf32>
  %out = tensor.empty() : tensor<32x256xbf16>
  %narrow = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%gradient : tensor<32x256xf32>) outs(%out : tensor<32x256xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<32x256xbf16>
  return %loss, %narrow : tensor<f32>, tensor<32x256xbf16>
}
func.func private @loss(%x: tensor<32x256xf32>, %t: tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>) {
  %0 = tensor.empty() : tensor<f32>
  %1 = tensor.empty() : tensor<32xf32>
  return %0, %1 : tensor<f32>, tensor<32xf32>
}
func.func private @gradient(%l: tensor<f32>, %x: tensor<32x256xf32>, %t: tensor<32xi64>, %n: tensor<32xf32>)
    -> tensor<32x256xf32> {
  return %x : tensor<32x256xf32>
}

// -----

#same = affine_map<(i, j) -> (i, j)>

// Near misses: what is widened is first computed with, and a gradient that somebody else reads is not narrowed alone.
// CHECK-LABEL: func.func @step
// CHECK-NOT: _narrow
// CHECK: decomposition = @loss,
// CHECK-NOT: _narrow
// CHECK: decomposition = @gradient,
// CHECK-NOT: _narrow
// CHECK: arith.truncf
func.func @step(%logits: tensor<32x256xbf16>, %target: tensor<32xi64>)
    -> (tensor<f32>, tensor<32x256xbf16>, tensor<32x256xf32>) {
  %empty = tensor.empty() : tensor<32x256xf32>
  %rows = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%logits : tensor<32x256xbf16>) outs(%empty : tensor<32x256xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      %c = arith.mulf %b, %b : f32
      linalg.yield %c : f32
  } -> tensor<32x256xf32>
  %loss, %level = "dm.composite"(%rows, %target) {kind = "softmax_cross_entropy", decomposition = @loss,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<32x256xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %gradient = "dm.composite"(%loss, %rows, %target, %level) {kind = "softmax_cross_entropy_backward",
      decomposition = @gradient, parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<32x256xf32>, tensor<32xi64>, tensor<32xf32>) -> tensor<32x256xf32>
  %other = arith.negf %gradient : tensor<32x256xf32>
  %out = tensor.empty() : tensor<32x256xbf16>
  %narrow = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%gradient : tensor<32x256xf32>) outs(%out : tensor<32x256xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<32x256xbf16>
  return %loss, %narrow, %other : tensor<f32>, tensor<32x256xbf16>, tensor<32x256xf32>
}
func.func private @loss(%x: tensor<32x256xf32>, %t: tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>) {
  %0 = tensor.empty() : tensor<f32>
  %1 = tensor.empty() : tensor<32xf32>
  return %0, %1 : tensor<f32>, tensor<32xf32>
}
func.func private @gradient(%l: tensor<f32>, %x: tensor<32x256xf32>, %t: tensor<32xi64>, %n: tensor<32xf32>)
    -> tensor<32x256xf32> {
  return %x : tensor<32x256xf32>
}
