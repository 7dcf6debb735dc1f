// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-chunk-head{chunks=3}' --verify-diagnostics --split-input-file

func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>, %target: tensor<8xi64>,
    %one: tensor<f32>) -> (tensor<f32>, tensor<8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<8x64xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %logits = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss:2 = "dm.composite"(%logits, %target) {kind = "softmax_cross_entropy", decomposition = @loss, parameters = {}}
      : (tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  // expected-error @+1 {{has 8 rows of logits, which are not divisible by 3}}
  %g = "dm.composite"(%one, %logits, %target, %loss#1)
      {kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {}}
      : (tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul ins(%g, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %loss#0, %dx : tensor<f32>, tensor<8x16xf32>
}
func.func private @loss(tensor<8x64xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
func.func private @backward(tensor<f32>, tensor<8x64xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x64xf32>

// -----

func.func @step(%x: tensor<4xf32>, %a: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{waits for 2 values, and may wait for one}}
  %b = "iree_tensor_ext.compute_barrier_start"(%x, %a, %a) : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
