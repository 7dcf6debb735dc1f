// RUN: dmc-opt %s -p dm-keep-rounding | %FileCheck %s

#id = affine_map<(i) -> (i)>

// Arithmetic in bf16 is done in f32 and rounded by integers, which IREE does not leave out.
// CHECK-LABEL: func.func @product
// CHECK: ^bb0(%[[A:[^:]+]]: bf16, %[[B:[^:]+]]: bf16
// CHECK: %[[WA:.+]] = arith.extf %[[A]] : bf16 to f32
// CHECK: %[[WB:.+]] = arith.extf %[[B]] : bf16 to f32
// CHECK: %[[P:.+]] = arith.mulf %[[WA]], %[[WB]] : f32
// CHECK: arith.bitcast %[[P]] : f32 to i32
// CHECK: %[[ROUNDED:.+]] = arith.bitcast %{{.+}} : i16 to bf16
// CHECK: %[[AGAIN:.+]] = arith.extf %[[ROUNDED]] : bf16 to f32
// CHECK: linalg.yield %[[AGAIN]]
func.func @product(%x: tensor<4xbf16>, %y: tensor<4xbf16>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<4xbf16>, tensor<4xbf16>) outs(%out : tensor<4xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %1 = arith.mulf %a, %b : bf16
    %2 = arith.extf %1 : bf16 to f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Memory holds a rounded number in any case.
// CHECK-LABEL: func.func @written
// CHECK: arith.truncf
// CHECK-NOT: arith.bitcast
func.func @written(%x: tensor<4xf32>, %out: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%out : tensor<4xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %1 = arith.truncf %a : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
