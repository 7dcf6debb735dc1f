// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-pad-classes' --split-input-file | %FileCheck %s

#row = affine_map<(i, j) -> (i, j)>

// The product has 128 columns, and the loss reads a slice of it. Its gradient is padded: one product sums over the zeros,
// the other is narrowed and then sliced. Who reads logits and gradient besides has slices, too.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x16xbf16>, %[[W:[^:]+]]: tensor<67x16xbf16>
// CHECK: %[[PADDED:.*]] = tensor.pad %[[W]] low[0, 0] high[61, 0]
// CHECK: arith.constant 0.000000e+00 : bf16
// CHECK: %[[TURNED:.*]] = linalg.transpose ins(%[[PADDED]] : tensor<128x16xbf16>)
// CHECK: %[[LOGITS:.*]] = linalg.matmul ins(%[[X]], %[[TURNED]] : {{.*}} -> tensor<8x128xf32>
// CHECK: %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[LOGITS]]
// CHECK: arith.truncf
// CHECK: %[[SLICE:.*]] = tensor.extract_slice %[[NARROW]][0, 0] [8, 67] [1, 1]
// CHECK: "dm.composite"(%[[SLICE]],
// CHECK: %[[G:.*]] = "dm.composite"({{.*}}, %[[SLICE]],
// CHECK: %[[WIDE:.*]] = tensor.pad %[[G]] low[0, 0] high[0, 61]
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[WIDE]][0, 0] [8, 67] [1, 1]
// CHECK: %[[DX:.*]] = linalg.matmul ins(%[[WIDE]], %[[PADDED]] : tensor<8x128xbf16>, tensor<128x16xbf16>)
// CHECK: %[[BACK:.*]] = linalg.transpose ins(%[[WIDE]]
// CHECK: %[[PRODUCT:.*]] = linalg.matmul ins(%[[BACK]], %[[X]] : {{.*}} -> tensor<128x16xf32>
// CHECK: %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[PRODUCT]] : tensor<128x16xf32>)
// CHECK: %[[DW:.*]] = tensor.extract_slice %[[ROUNDED]][0, 0] [67, 16] [1, 1]
// CHECK: return %{{.*}}, %[[SLICE]], %[[READ]], %[[DX]], %[[DW]]
func.func @step(%x: tensor<8x16xbf16>, %w: tensor<67x16xbf16>, %target: tensor<8xi64>, %one: tensor<f32>)
    -> (tensor<f32>, tensor<8x67xbf16>, tensor<8x67xbf16>, tensor<8x16xf32>, tensor<67x16xbf16>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<16x67xbf16>
  %t = linalg.transpose ins(%w : tensor<67x16xbf16>) outs(%0 : tensor<16x67xbf16>) permutation = [1, 0]
  %1 = tensor.empty() : tensor<8x67xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x67xf32>) -> tensor<8x67xf32>
  %p = linalg.matmul ins(%x, %t : tensor<8x16xbf16>, tensor<16x67xbf16>) outs(%2 : tensor<8x67xf32>) -> tensor<8x67xf32>
  %3 = tensor.empty() : tensor<8x67xbf16>
  %logits = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<8x67xf32>) outs(%3 : tensor<8x67xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x67xbf16>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x67xbf16>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x67xbf16>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x67xbf16>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %w : tensor<8x67xbf16>, tensor<67x16xbf16>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = tensor.empty() : tensor<67x8xbf16>
  %gt = linalg.transpose ins(%g : tensor<8x67xbf16>) outs(%6 : tensor<67x8xbf16>) permutation = [1, 0]
  %7 = tensor.empty() : tensor<67x16xf32>
  %8 = linalg.fill ins(%zero : f32) outs(%7 : tensor<67x16xf32>) -> tensor<67x16xf32>
  %q = linalg.matmul ins(%gt, %x : tensor<67x8xbf16>, tensor<8x16xbf16>) outs(%8 : tensor<67x16xf32>) -> tensor<67x16xf32>
  %9 = tensor.empty() : tensor<67x16xbf16>
  %dw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<67x16xf32>) outs(%9 : tensor<67x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<67x16xbf16>
  return %loss#0, %logits, %g, %dx, %dw
      : tensor<f32>, tensor<8x67xbf16>, tensor<8x67xbf16>, tensor<8x16xf32>, tensor<67x16xbf16>
}
func.func private @loss(tensor<8x67xbf16>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @backward(tensor<f32>, tensor<8x67xbf16>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x67xbf16>

// -----

// Rows of 72 numbers are aligned, 10 classes would be many more, and what is no product is left alone.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.pad
// CHECK-NOT: tensor.extract_slice
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x72xf32>, %v: tensor<16x10xf32>, %given: tensor<8x67xf32>,
    %target: tensor<8xi64>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8x72xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8x72xf32>) -> tensor<8x72xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x72xf32>) outs(%1 : tensor<8x72xf32>) -> tensor<8x72xf32>
  %2 = tensor.empty() : tensor<8x10xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<8x10xf32>) -> tensor<8x10xf32>
  %q = linalg.matmul ins(%x, %v : tensor<8x16xf32>, tensor<16x10xf32>) outs(%3 : tensor<8x10xf32>) -> tensor<8x10xf32>
  %aligned:2 = "dm.composite"(%p, %target) {kind = "softmax_cross_entropy", decomposition = @a, parameters = {}}
      : (tensor<8x72xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %few:2 = "dm.composite"(%q, %target) {kind = "softmax_cross_entropy", decomposition = @b, parameters = {}}
      : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %other:2 = "dm.composite"(%given, %target) {kind = "softmax_cross_entropy", decomposition = @c, parameters = {}}
      : (tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return %aligned#0, %few#0, %other#0 : tensor<f32>, tensor<f32>, tensor<f32>
}
func.func private @a(tensor<8x72xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @b(tensor<8x10xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @c(tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)

// -----

#row = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// A bias is padded as the weight is. Logits that are made of a second tensor as large are left alone.
// CHECK-LABEL: func.func @step
// CHECK: %[[BIAS:.*]] = tensor.pad %{{.*}} low[0] high[61]
// CHECK: %[[WEIGHT:.*]] = tensor.pad %{{.*}} low[0, 0] high[0, 61]
// CHECK: %[[PRODUCT:.*]] = linalg.matmul ins(%{{.*}}, %[[WEIGHT]]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[PRODUCT]], %[[BIAS]] : tensor<8x128xf32>, tensor<128xf32>)
// CHECK: tensor.extract_slice %[[SUM]][0, 0] [8, 67] [1, 1]
// CHECK-NOT: tensor.pad
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x67xf32>, %b: tensor<67xf32>, %mask: tensor<8x67xf32>,
    %target: tensor<8xi64>) -> (tensor<f32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8x67xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8x67xf32>) -> tensor<8x67xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x67xf32>) outs(%1 : tensor<8x67xf32>) -> tensor<8x67xf32>
  %sum = linalg.generic {indexing_maps = [#row, #column, #row], iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<8x67xf32>, tensor<67xf32>) outs(%0 : tensor<8x67xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %s = arith.addf %a, %c : f32
      linalg.yield %s : f32
  } -> tensor<8x67xf32>
  %masked = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%p, %mask : tensor<8x67xf32>, tensor<8x67xf32>) outs(%0 : tensor<8x67xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %s = arith.mulf %a, %c : f32
      linalg.yield %s : f32
  } -> tensor<8x67xf32>
  %first:2 = "dm.composite"(%sum, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %second:2 = "dm.composite"(%masked, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return %first#0, %second#0 : tensor<f32>, tensor<f32>
}
func.func private @loss(tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)

// -----

#row = affine_map<(i, j) -> (i, j)>

// A weight is padded before it is narrowed, so that one kernel does both.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[WIDE:[^:]+]]: tensor<16x67xf32>
// CHECK: %[[PADDED:.*]] = tensor.pad %[[WIDE]] low[0, 0] high[0, 61]
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: %[[WEIGHT:.*]] = linalg.generic {{.*}} ins(%[[PADDED]] : tensor<16x128xf32>)
// CHECK: arith.truncf
// CHECK: linalg.matmul ins(%{{.*}}, %[[WEIGHT]]
func.func @step(%x: tensor<8x16xbf16>, %w: tensor<16x67xf32>, %target: tensor<8xi64>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<16x67xbf16>
  %narrow = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<16x67xf32>) outs(%0 : tensor<16x67xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x67xbf16>
  %1 = tensor.empty() : tensor<8x67xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x67xf32>) -> tensor<8x67xf32>
  %p = linalg.matmul ins(%x, %narrow : tensor<8x16xbf16>, tensor<16x67xbf16>) outs(%2 : tensor<8x67xf32>)
      -> tensor<8x67xf32>
  %loss:2 = "dm.composite"(%p, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return %loss#0 : tensor<f32>
}
func.func private @loss(tensor<8x67xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
