// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// A narrow product, and a wide sum with it, which one kernel reads: that makes the sum, and the product is plain.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: tensor<128x64xbf16> {{.*}}, %[[B:[^:]+]]: tensor<64x256xbf16> {{.*}}, %[[G:[^:]+]]: tensor<128x256xf32>
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[A]], %[[B]]) {body = @matmul_0
// CHECK-SAME: -> tensor<128x256xbf16>
// CHECK-NEXT: %[[Y:.+]] = "dm.kernel"(%[[P]], %[[G]]) {body = @reduce_0
// CHECK-NEXT: return %[[Y]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {dm.target = "cuda"} {
func.func @step(%a: tensor<128x64xbf16> {dm.name = "a"}, %b: tensor<64x256xbf16> {dm.name = "b"},
    %g: tensor<128x256xf32> {dm.name = "g"}) -> (tensor<128x256xbf16> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<128x256xf32>
  %short = tensor.empty() : tensor<128x256xbf16>
  %few = tensor.empty() : tensor<128xf32>
  %none = linalg.fill ins(%zero : f32) outs(%wide : tensor<128x256xf32>) -> tensor<128x256xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%few : tensor<128xf32>) -> tensor<128xf32>
  %p = linalg.matmul ins(%a, %b : tensor<128x64xbf16>, tensor<64x256xbf16>) outs(%none : tensor<128x256xf32>)
      -> tensor<128x256xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<128x256xf32>) outs(%short : tensor<128x256xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %v = arith.truncf %in : f32 to bf16
      linalg.yield %v : bf16
  } -> tensor<128x256xbf16>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%n, %g : tensor<128x256xbf16>, tensor<128x256xf32>) outs(%wide : tensor<128x256xf32>) {
    ^bb0(%in: bf16, %other: f32, %out: f32):
      %w = arith.extf %in : bf16 to f32
      %v = arith.addf %w, %other : f32
      linalg.yield %v : f32
  } -> tensor<128x256xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<128x256xf32>) outs(%zeros : tensor<128xf32>) {
    ^bb0(%in: f32, %out: f32):
      %v = arith.addf %in, %out : f32
      linalg.yield %v : f32
  } -> tensor<128xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s, %t : tensor<128x256xf32>, tensor<128xf32>) outs(%short : tensor<128x256xbf16>) {
    ^bb0(%in: f32, %sum: f32, %out: bf16):
      %d = arith.subf %in, %sum : f32
      %v = arith.truncf %d : f32 to bf16
      linalg.yield %v : bf16
  } -> tensor<128x256xbf16>
  return %y : tensor<128x256xbf16>
}
}

// -----

// The step returns the sum, so that it is in memory anyway: it is made behind the product.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: tensor<128x64xbf16> {{.*}}, %[[B:[^:]+]]: tensor<64x256xbf16> {{.*}}, %[[G:[^:]+]]: tensor<128x256xf32>
// CHECK-NEXT: %[[S:.+]] = "dm.kernel"(%[[A]], %[[B]], %[[G]]) {body = @matmul_0
// CHECK-SAME: -> tensor<128x256xf32>
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[S]]) {body = @reduce_0
// CHECK-NEXT: return %[[S]], %[[T]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {dm.target = "cuda"} {
func.func @step(%a: tensor<128x64xbf16> {dm.name = "a"}, %b: tensor<64x256xbf16> {dm.name = "b"},
    %g: tensor<128x256xf32> {dm.name = "g"}) -> (tensor<128x256xf32> {dm.name = "s"}, tensor<128xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<128x256xf32>
  %short = tensor.empty() : tensor<128x256xbf16>
  %few = tensor.empty() : tensor<128xf32>
  %none = linalg.fill ins(%zero : f32) outs(%wide : tensor<128x256xf32>) -> tensor<128x256xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%few : tensor<128xf32>) -> tensor<128xf32>
  %p = linalg.matmul ins(%a, %b : tensor<128x64xbf16>, tensor<64x256xbf16>) outs(%none : tensor<128x256xf32>)
      -> tensor<128x256xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<128x256xf32>) outs(%short : tensor<128x256xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %v = arith.truncf %in : f32 to bf16
      linalg.yield %v : bf16
  } -> tensor<128x256xbf16>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%n, %g : tensor<128x256xbf16>, tensor<128x256xf32>) outs(%wide : tensor<128x256xf32>) {
    ^bb0(%in: bf16, %other: f32, %out: f32):
      %w = arith.extf %in : bf16 to f32
      %v = arith.addf %w, %other : f32
      linalg.yield %v : f32
  } -> tensor<128x256xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<128x256xf32>) outs(%zeros : tensor<128xf32>) {
    ^bb0(%in: f32, %out: f32):
      %v = arith.addf %in, %out : f32
      linalg.yield %v : f32
  } -> tensor<128xf32>
  return %s, %t : tensor<128x256xf32>, tensor<128xf32>
}
}
