// RUN: dmc-opt %s -p 'dm-channels-last{least=1}' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-channels-last' --split-input-file | %FileCheck %s --check-prefix=STAYS
// STAYS-NOT: permutation = [2, 3, 0, 1]
// STAYS-NOT: linalg.generic

// A convolution sums products over rows and columns of the filter and over channels, which lie last in both operands. What
// pads its result, or reads it elementwise, does so where it lies; the caller receives it as it was.
// CHECK-DAG: #[[$READ:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0 * 2 + d4, d1 * 2 + d5, d2, d6)>
// CHECK-DAG: #[[$FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d3, d6)>
// CHECK-DAG: #[[$WRITTEN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[$CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<2x3x9x9xbf16>, %[[W:[^:]+]]: tensor<8x3x3x3xbf16>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK: %[[LAST:.*]] = linalg.transpose ins(%[[X]] : {{.*}}) outs({{.*}} : tensor<9x9x2x3xbf16>) permutation = [2, 3, 0, 1]
// CHECK: %[[FILTERS:.*]] = linalg.transpose ins(%[[W]] : {{.*}}) outs({{.*}} : tensor<3x3x8x3xbf16>) permutation = [2, 3, 0, 1]
// CHECK: %[[SUMS:.*]] = linalg.generic {indexing_maps = [#[[$READ]], #[[$FILTER]], #[[$WRITTEN]]]
// CHECK-SAME: ins(%[[LAST]], %[[FILTERS]]
// CHECK: %[[BIASED:.*]] = linalg.generic {indexing_maps = [{{.*}}, #[[$CHANNEL]], {{.*}}]{{.*}} ins(%[[SUMS]], %[[B]]
// CHECK: %[[PADDED:.*]] = tensor.pad %[[BIASED]] low[1, 1, 0, 0] high[1, 1, 0, 0]
// CHECK: %[[BACK:.*]] = linalg.transpose ins(%[[PADDED]] : {{.*}}) outs({{.*}} : tensor<2x8x6x6xf32>) permutation = [2, 3, 0, 1]
// CHECK: return %[[BACK]]
func.func @step(%x: tensor<2x3x9x9xbf16>, %w: tensor<8x3x3x3xbf16>, %b: tensor<8xf32>) -> tensor<2x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x4x4xf32>
  %start = linalg.broadcast ins(%b : tensor<8xf32>) outs(%e : tensor<2x8x4x4xf32>) dimensions = [0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<2x3x9x9xbf16>, tensor<8x3x3x3xbf16>) outs(%start : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %p = tensor.pad %y low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
  } : tensor<2x8x4x4xf32> to tensor<2x8x6x6xf32>
  return %p : tensor<2x8x6x6xf32>
}

// -----

// However a result is read, its channels are last; only a gradient of filters lies with batch and channels exchanged.
// CHECK-LABEL: func.func @step
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<4x4x2x8xf32>)
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<4x4x8x2xf32>)
// CHECK: linalg.transpose ins({{.*}} : tensor<4x4x2x8xf32>) outs({{.*}} : tensor<2x4x4x8xf32>) permutation = [2, 0, 1, 3]
// CHECK: linalg.transpose ins({{.*}} : tensor<4x4x8x2xf32>) outs({{.*}} : tensor<8x2x4x4xf32>) permutation = [2, 3, 0, 1]
func.func @step(%x: tensor<2x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) -> (tensor<2x4x4x8xf32>, tensor<8x2x4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x4x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<2x3x9x9xf32>, tensor<8x3x3x3xf32>) outs(%z : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %p = tensor.empty() : tensor<2x4x4x8xf32>
  %t = linalg.transpose ins(%y : tensor<2x8x4x4xf32>) outs(%p : tensor<2x4x4x8xf32>) permutation = [0, 2, 3, 1]
  %v = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<2x3x9x9xf32>, tensor<8x3x3x3xf32>) outs(%z : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %q = tensor.empty() : tensor<8x2x4x4xf32>
  %u = linalg.transpose ins(%v : tensor<2x8x4x4xf32>) outs(%q : tensor<8x2x4x4xf32>) permutation = [1, 0, 2, 3]
  return %t, %u : tensor<2x4x4x8xf32>, tensor<8x2x4x4xf32>
}

// -----

// With other convolutions beside them, plain ones stay as they are.
// CHECK-LABEL: func.func @step
// CHECK-NOT: linalg.transpose
// CHECK: linalg.conv_2d_nchw_fchw
// CHECK: linalg.depthwise_conv_2d_nchw_chw
func.func @step(%x: tensor<2x4x9x9xf32>, %w: tensor<4x4x1x1xf32>, %d: tensor<4x3x3xf32>) -> tensor<2x4x7x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x9x9xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x9x9xf32>) -> tensor<2x4x9x9xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%x, %w : tensor<2x4x9x9xf32>, tensor<4x4x1x1xf32>) outs(%z : tensor<2x4x9x9xf32>) -> tensor<2x4x9x9xf32>
  %f = tensor.empty() : tensor<2x4x7x7xf32>
  %o = linalg.fill ins(%zero : f32) outs(%f : tensor<2x4x7x7xf32>) -> tensor<2x4x7x7xf32>
  %v = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%y, %d : tensor<2x4x9x9xf32>, tensor<4x3x3xf32>) outs(%o : tensor<2x4x7x7xf32>) -> tensor<2x4x7x7xf32>
  return %v : tensor<2x4x7x7xf32>
}
