// RUN: dmc-opt %s -p 'dm-form-kernels{fusion=optimal}' | %FileCheck %s
// RUN: dmc-opt %s -p dm-form-kernels | %FileCheck %s --check-prefix=GREEDY
// RUN: dmc-opt %s -p 'dm-form-kernels{fusion=optimal reasons}' -o %t 2>&1 | %FileCheck %s --check-prefix=REASONS

// What is written between %a and %b is the largest, so that the greedy fusion begins there. But then the loops of that
// kernel are those of no reduction, and %x is read twice, and %b is written.

// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]:
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]]) {body = @reduce_0
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"(%[[A]]) {body = @reduce_1
// CHECK-NEXT: return %[[C]]

// GREEDY-LABEL: func.func @step
// GREEDY-SAME: (%[[X:[^:]+]]:
// GREEDY-NEXT: %[[R:.+]] = "dm.kernel"(%[[X]]) {body = @reduce_0
// GREEDY-NEXT: %[[B:.+]] = "dm.kernel"(%[[X]], %[[R]]) {body = @elementwise_0
// GREEDY-NEXT: %[[C:.+]] = "dm.kernel"(%[[B]]) {body = @reduce_1
// GREEDY-NEXT: return %[[C]]

// REASONS: 1 pieces of the step, 1 distinct, 0 left as fused greedily: 32.9% cheaper, and at most 0.0% above the best of the candidates
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#whole = affine_map<(h, i, j) -> (h, i, j)>
#matrix = affine_map<(h, i, j) -> (i, j)>
#rows = affine_map<(h, i, j) -> (h, i)>
func.func @step(%x: tensor<32x64xf32> {dm.name = "x"}) -> (tensor<3x32xi8> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i8
  %empty_r = tensor.empty() : tensor<32xf32>
  %zeros_r = linalg.fill ins(%zero : f32) outs(%empty_r : tensor<32xf32>) -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<32x64xf32>) outs(%zeros_r : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %empty_a = tensor.empty() : tensor<32x64xf32>
  %a = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %r : tensor<32x64xf32>, tensor<32xf32>) outs(%empty_a : tensor<32x64xf32>) {
    ^bb0(%in: f32, %sum: f32, %out: f32):
      %s = arith.mulf %in, %sum : f32
      linalg.yield %s : f32
  } -> tensor<32x64xf32>
  %empty_b = tensor.empty() : tensor<3x32x64xi8>
  %b = linalg.generic {indexing_maps = [#matrix, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a : tensor<32x64xf32>) outs(%empty_b : tensor<3x32x64xi8>) {
    ^bb0(%in: f32, %out: i8):
      %h = linalg.index 0 : index
      %i = arith.index_cast %h : index to i8
      %n = arith.fptosi %in : f32 to i8
      %s = arith.addi %n, %i : i8
      linalg.yield %s : i8
  } -> tensor<3x32x64xi8>
  %empty_c = tensor.empty() : tensor<3x32xi8>
  %zeros_c = linalg.fill ins(%none : i8) outs(%empty_c : tensor<3x32xi8>) -> tensor<3x32xi8>
  %c = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%b : tensor<3x32x64xi8>) outs(%zeros_c : tensor<3x32xi8>) {
    ^bb0(%in: i8, %out: i8):
      %s = arith.addi %in, %out : i8
      linalg.yield %s : i8
  } -> tensor<3x32xi8>
  return %c : tensor<3x32xi8>
}
