// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-chunk-head{chunks=2}' | %FileCheck %s

// A product of narrow numbers that are widened, as one with a bias is, reads narrow rows: in memory they would be wide
// otherwise, and the product one of wide numbers. The second chunk waits with its narrow rows.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[N:[^:]+]]: tensor<8x16xbf16>
// CHECK: %[[N0:.*]] = tensor.extract_slice %[[N]][0, 0] [4, 16] [1, 1]
// CHECK: %[[X0:.*]] = linalg.generic {{.*}} ins(%[[N0]] : tensor<4x16xbf16>)
// CHECK: linalg.matmul ins(%[[X0]], %{{.*}} : tensor<4x16xf32>, tensor<16x64xf32>)
// CHECK: %[[N1:.*]] = tensor.extract_slice %[[N]][4, 0] [4, 16] [1, 1]
// CHECK: %[[A:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[N1]], %{{.*}}) : (tensor<4x16xbf16>,
// CHECK: %[[B:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[A]],
// CHECK: %[[C:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[B]],
// CHECK: %[[X1:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<4x16xbf16>)
// CHECK: linalg.matmul ins(%[[X1]], %{{.*}} : tensor<4x16xf32>, tensor<16x64xf32>)
#row = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>
#all = affine_map<(i) -> ()>
#one = affine_map<(i) -> (i)>
func.func @step(%n: tensor<8x16xbf16>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>) -> (tensor<f32>, tensor<8x16xf32>, tensor<64x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %x = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%n : tensor<8x16xbf16>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %wide = arith.extf %in : bf16 to f32
    linalg.yield %wide : f32
  } -> tensor<8x16xf32>
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
