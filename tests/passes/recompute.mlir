// RUN: dmc-opt %s -p 'dm-recompute' | %FileCheck %s

#row = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#sum = affine_map<(i, j) -> (i)>

// Each of the two readers widens the narrow value itself, behind its own reshape.
// CHECK-LABEL: func.func @step
// CHECK: %[[GIVEN:.*]] = arith.constant 0.0
// CHECK-NOT: arith.extf
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<512x256xbf16>)
// CHECK: arith.extf
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<512x256xbf16>)
// CHECK: arith.extf
// CHECK: tensor.expand_shape
// CHECK: linalg.generic
// CHECK: arith.addf

// The product reads the second one in memory, and so do all others.
// CHECK: arith.negf
// CHECK-NOT: arith.negf
// CHECK: linalg.matmul
// CHECK-NOT: arith.negf
// CHECK: arith.addf

func.func @step(%x: tensor<512x256xbf16>, %y: tensor<256x256xf32>)
    -> (tensor<512x256xf32>, tensor<2x256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<512x256xf32>
  %wide = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<512x256xbf16>) outs(%empty : tensor<512x256xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<512x256xf32>
  %grown = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%wide : tensor<512x256xf32>) outs(%empty : tensor<512x256xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = math.exp %a : f32
      linalg.yield %b : f32
  } -> tensor<512x256xf32>
  %halves = tensor.expand_shape %wide [[0, 1], [2]] output_shape [2, 256, 256]
      : tensor<512x256xf32> into tensor<2x256x256xf32>
  %twice = arith.addf %halves, %halves : tensor<2x256x256xf32>

  %small = tensor.empty() : tensor<256x256xf32>
  %negative = arith.negf %y : tensor<256x256xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%small : tensor<256x256xf32>) -> tensor<256x256xf32>
  %product = linalg.matmul ins(%negative, %y : tensor<256x256xf32>, tensor<256x256xf32>)
      outs(%filled : tensor<256x256xf32>) -> tensor<256x256xf32>
  %other = arith.addf %negative, %y : tensor<256x256xf32>
  return %grown, %twice, %product, %other
      : tensor<512x256xf32>, tensor<2x256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>
}
