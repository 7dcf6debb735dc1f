// RUN: dmc-opt %s -p dm-widen-sums | %FileCheck %s

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// More than eight terms are added up in f64, and rounded once.
// CHECK-LABEL: func.func @many
// CHECK: %[[SUM:.+]] = linalg.generic {{.+}} outs(%{{.+}} : tensor<3xf64>)
// CHECK: arith.extf %{{.+}} : f32 to f64
// CHECK: arith.addf %{{.+}} : f64
// CHECK: arith.truncf %{{.+}} : {{.*}}f64{{.*}} to {{.*}}f32
func.func @many(%x: tensor<3x9xf32>, %start: tensor<3xf32>) -> tensor<3xf32> {
  %0 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x9xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %1 = arith.addf %a, %sum : f32
    linalg.yield %1 : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @few
// CHECK-NOT: f64
func.func @few(%x: tensor<3x8xf32>, %start: tensor<3xf32>) -> tensor<3xf32> {
  %0 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x8xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %1 = arith.addf %a, %sum : f32
    linalg.yield %1 : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
