// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-chunk-head{chunks=2}' --split-input-file | %FileCheck %s
// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-chunk-head' --split-input-file | %FileCheck %s --check-prefix=SAME
// SAME-NOT: tensor.extract_slice
// SAME-NOT: tensor.concat

// The second product waits for all that is computed of the first four rows. Its loss and gradient of weights are added.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x16xf32>, %[[W:[^:]+]]: tensor<16x64xf32>, %[[V:[^:]+]]: tensor<64x16xf32>, %[[T:[^:]+]]: tensor<8xi64>, %[[ONE:[^:]+]]: tensor<f32>
// CHECK: %[[X0:.*]] = tensor.extract_slice %[[X]][0, 0] [4, 16] [1, 1]
// CHECK: %[[L0:.*]] = linalg.matmul ins(%[[X0]], %[[W]] : {{.*}} -> tensor<4x64xf32>
// CHECK: %[[T0:.*]] = tensor.extract_slice %[[T]][0] [4] [1]
// CHECK: %[[LOSS0:.*]]:2 = "dm.composite"(%[[L0]], %[[T0]]) {decomposition = @loss_chunk,
// CHECK: %[[G0:.*]] = "dm.composite"(%[[ONE]], %[[L0]], %[[T0]], %[[LOSS0]]#1) {decomposition = @backward_chunk,
// CHECK: %[[DX0:.*]] = linalg.matmul ins(%[[G0]], %[[V]] : {{.*}} -> tensor<4x16xf32>
// CHECK: %[[B0:.*]] = linalg.transpose ins(%[[G0]]
// CHECK: %[[DW0:.*]] = linalg.matmul ins(%[[B0]], %[[X0]] : {{.*}} -> tensor<64x16xf32>
// CHECK: %[[S1:.*]] = tensor.extract_slice %[[X]][4, 0] [4, 16] [1, 1]
// CHECK: %[[A:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[S1]], %[[LOSS0]]#0)
// CHECK: %[[B:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[A]], %[[DW0]])
// CHECK: %[[X1:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[B]], %[[DX0]])
// CHECK: %[[L1:.*]] = linalg.matmul ins(%[[X1]], %[[W]] :
// CHECK: %[[LOSS1:.*]]:2 = "dm.composite"(%[[L1]],
// CHECK: %[[LOSS:.*]] = linalg.generic {{.*}} ins(%[[LOSS0]]#0, %[[LOSS1]]#0 : tensor<f32>, tensor<f32>)
// CHECK: %[[G1:.*]] = "dm.composite"(%[[ONE]], %[[L1]],
// CHECK: %[[DX1:.*]] = linalg.matmul ins(%[[G1]], %[[V]] :
// CHECK: %[[B1:.*]] = linalg.transpose ins(%[[G1]]
// CHECK: %[[DW1:.*]] = linalg.matmul ins(%[[B1]], %[[X1]] :
// CHECK: %[[DW:.*]] = linalg.generic {{.*}} ins(%[[DW0]], %[[DW1]] : tensor<64x16xf32>, tensor<64x16xf32>)
// CHECK: arith.addf
// CHECK: %[[DX:.*]] = tensor.concat dim(0) %[[DX0]], %[[DX1]] :
// CHECK: return %[[LOSS]], %[[DX]], %[[DW]]
// CHECK: func.func private @loss_chunk(%{{.*}}: tensor<4x64xf32>, %{{.*}}: tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>) -> (tensor<f32>, tensor<8x16xf32>, tensor<64x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<8x64xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %logits = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = tensor.empty() : tensor<64x8xf32>
  %gt = linalg.transpose ins(%g : tensor<8x64xf32>) outs(%6 : tensor<64x8xf32>) permutation = [1, 0]
  %7 = tensor.empty() : tensor<64x16xf32>
  %8 = linalg.fill ins(%zero : f32) outs(%7 : tensor<64x16xf32>) -> tensor<64x16xf32>
  %dw = linalg.matmul ins(%gt, %x : tensor<64x8xf32>, tensor<8x16xf32>) outs(%8 : tensor<64x16xf32>) -> tensor<64x16xf32>
  return %loss#0, %dx, %dw : tensor<f32>, tensor<8x16xf32>, tensor<64x16xf32>
}
#row = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>
#all = affine_map<(i) -> ()>
#one = affine_map<(i) -> (i)>
func.func private @loss(%l: tensor<8x64xf32>, %t: tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#row, #first], iterator_types = ["parallel", "reduction"]}
      ins(%l : tensor<8x64xf32>) outs(%1 : tensor<8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<8xf32>
  %2 = tensor.empty() : tensor<f32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [#one, #all], iterator_types = ["reduction"]}
      ins(%s : tensor<8xf32>) outs(%3 : tensor<f32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<f32>
  return %sum, %s : tensor<f32>, tensor<8xf32>
}
func.func private @backward(%d: tensor<f32>, %l: tensor<8x64xf32>, %t: tensor<8xi64>, %s: tensor<8xf32>)
    -> tensor<8x64xf32> {
  %0 = tensor.empty() : tensor<8x64xf32>
  %g = linalg.generic {indexing_maps = [#row, #first, #row], iterator_types = ["parallel", "parallel"]}
      ins(%l, %s : tensor<8x64xf32>, tensor<8xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.subf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x64xf32>
  return %g : tensor<8x64xf32>
}

// -----

// The gradient's largest element is no sum, and a sum that does not begin with zero would begin twice.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.extract_slice
// CHECK: "dm.composite"
// CHECK-NOT: tensor.extract_slice
// CHECK: return
#row = affine_map<(i, j) -> (i, j)>
#all = affine_map<(i, j) -> ()>
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>) -> (tensor<f32>, tensor<8x16xf32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<8x64xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %logits = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = tensor.empty() : tensor<f32>
  %7 = linalg.fill ins(%zero : f32) outs(%6 : tensor<f32>) -> tensor<f32>
  %most = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["reduction", "reduction"]}
      ins(%g : tensor<8x64xf32>) outs(%7 : tensor<f32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.maximumf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<f32>
  return %loss#0, %dx, %most : tensor<f32>, tensor<8x16xf32>, tensor<f32>
}
func.func private @loss(tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @backward(tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>

// -----

// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>, %before: tensor<16x64xf32>) -> (tensor<f32>, tensor<8x16xf32>, tensor<16x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<8x64xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %logits = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = tensor.empty() : tensor<16x8xf32>
  %xt = linalg.transpose ins(%x : tensor<8x16xf32>) outs(%6 : tensor<16x8xf32>) permutation = [1, 0]
  %dw = linalg.matmul ins(%xt, %g : tensor<16x8xf32>, tensor<8x64xf32>) outs(%before : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %loss#0, %dx, %dw : tensor<f32>, tensor<8x16xf32>, tensor<16x64xf32>
}
func.func private @loss(tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @backward(tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>

// -----

// Pieces are narrowed before they stand side by side: one kernel computes a product and its cast.
// CHECK-LABEL: func.func @step
// CHECK: arith.truncf
// CHECK: arith.truncf
// CHECK: tensor.concat dim(0) %{{.*}} : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<8x16xbf16>
#row = affine_map<(i, j) -> (i, j)>
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>) -> (tensor<f32>, tensor<8x16xbf16>) {
  %zero = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<8x64xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %logits = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = tensor.empty() : tensor<8x16xbf16>
  %narrow = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%dx : tensor<8x16xf32>) outs(%6 : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  return %loss#0, %narrow : tensor<f32>, tensor<8x16xbf16>
}
func.func private @loss(%l: tensor<8x64xf32>, %t: tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  %1 = tensor.empty() : tensor<f32>
  %sum = linalg.fill ins(%zero : f32) outs(%1 : tensor<f32>) -> tensor<f32>
  return %sum, %s : tensor<f32>, tensor<8xf32>
}
func.func private @backward(%d: tensor<f32>, %l: tensor<8x64xf32>, %t: tensor<8xi64>, %s: tensor<8xf32>)
    -> tensor<8x64xf32> {
  return %l : tensor<8x64xf32>
}

// -----

// The logarithms of the sums are read.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>) -> (tensor<8xf32>, tensor<8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<8x64xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %logits = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %loss#1, %dx : tensor<8xf32>, tensor<8x16xf32>
}
func.func private @loss(tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @backward(tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
