// RUN: dmc-opt %s -p dm-keep-rounding --split-input-file | %FileCheck %s

#id = affine_map<(d0) -> (d0)>

// IREE would join the two loops, and leave out both casts.
// CHECK-LABEL: func.func @read
// CHECK: %[[BITS:.+]] = arith.bitcast %[[X:.+]] : f32 to i32
// CHECK: %[[UP:.+]] = arith.addi %[[BITS]], %{{.+}} : i32
// CHECK: %[[NEAREST:.+]] = arith.addi %[[UP]], %{{.+}} : i32
// CHECK: %[[NAN:.+]] = arith.cmpf uno, %[[X]], %[[X]] : f32
// CHECK: %[[HIGH:.+]] = arith.shrui %[[NEAREST]], %{{.+}} : i32
// CHECK: %[[WORD:.+]] = arith.select %[[NAN]], %{{.+}}, %[[HIGH]] : i32
// CHECK: %[[HALF:.+]] = arith.trunci %[[WORD]] : i32 to i16
// CHECK: %[[ROUNDED:.+]] = arith.bitcast %[[HALF]] : i16 to bf16
// CHECK: linalg.yield %[[ROUNDED]]
// CHECK-NOT: arith.truncf
// CHECK: return
func.func @read(%x: tensor<4xf32>) -> tensor<4xf32> {
  %narrow = tensor.empty() : tensor<4xbf16>
  %wide = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%narrow : tensor<4xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %cast = arith.truncf %in : f32 to bf16
    linalg.yield %cast : bf16
  } -> tensor<4xbf16>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<4xbf16>) outs(%wide : tensor<4xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %cast = arith.extf %in : bf16 to f32
    linalg.yield %cast : f32
  } -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Near misses: memory holds a rounded number in any case, and IREE keeps casts of other types.
// CHECK-LABEL: func.func @left_alone
// CHECK: arith.truncf %{{.+}} : f32 to bf16
// CHECK: arith.truncf %{{.+}} : f32 to f16
// CHECK-NOT: arith.bitcast
// CHECK: return
func.func @left_alone(%x: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %narrow = tensor.empty() : tensor<4xbf16>
  %wide = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%narrow : tensor<4xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %cast = arith.truncf %in : f32 to bf16
    linalg.yield %cast : bf16
  } -> tensor<4xbf16>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%wide : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %half = arith.truncf %in : f32 to f16
    %cast = arith.extf %half : f16 to f32
    linalg.yield %cast : f32
  } -> tensor<4xf32>
  return %a, %b : tensor<4xbf16>, tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A number is rounded here and now: IREE would go on with it as it was.
// CHECK-LABEL: func.func @number
// CHECK: arith.constant 1.296880e+00 : bf16
// CHECK-NOT: arith.truncf {{.*}} : f64
// CHECK: return
func.func @number(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %empty = tensor.empty() : tensor<4xbf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xbf16>) outs(%empty : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %wide = arith.constant 1.3 : f64
    %number = arith.truncf %wide : f64 to bf16
    %sum = arith.addf %in, %number : bf16
    linalg.yield %sum : bf16
  } -> tensor<4xbf16>
  return %a : tensor<4xbf16>
}
