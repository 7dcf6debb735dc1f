// RUN: dmc-opt %s -p 'dm-form-kernels{reasons}' -o %t 2>&1 | %FileCheck %s

// A product and what follows it are one kernel, which neither writes nor reads the 512 bytes between the two; what is
// computed for a product is read from memory.
// CHECK: 3 computations, 1,536 bytes through device memory
// CHECK-NEXT: 2 kernels, 1,024 bytes through device memory (33.3% less)
// CHECK-EMPTY:
// CHECK-NEXT: kind         kernels  flops  bytes
// CHECK-NEXT: elementwise  1        64     512
// CHECK-NEXT: matmul       1        1,088  512
// CHECK-EMPTY:
// CHECK-NEXT: bytes  kernel with            and kernel with                 are not fused because of
// CHECK-NEXT: 512    linalg.generic (fc.0)  linalg.matmul (fc.1, backward)  read by a product
#id = affine_map<(i, j) -> (i, j)>
func.func @step(%x: tensor<8x8xf32> {dm.name = "x"}) -> (tensor<8x8xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32> loc("fc.0#aten.tanh")
  %p = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zeros : tensor<8x8xf32>) -> tensor<8x8xf32>
      loc("fc.1#aten.mm, backward")
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
