// RUN: dmc-opt %s --for-people | %FileCheck %s --strict-whitespace

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#turned = affine_map<(d0, d1) -> (d1, d0)>

// A short body is one expression; constants, empty and filled tensors stand where they are read.
// CHECK-LABEL: {{^}}  func @expression(%arg0: 2x4xf32, %arg1: 2xf32) -> (2x4xf32):
// CHECK-NEXT: {{^}}    %1: 2x4xf32 = each i, j: exp((%arg0[i, j] - %arg1[i]) * 0.5){{$}}
// CHECK-NEXT: {{^}}    return(%1){{$}}
func.func @expression(%x: tensor<2x4xf32>, %m: tensor<2xf32>) -> tensor<2x4xf32> {
  %half = arith.constant 0.5 : f32
  %empty = tensor.empty() : tensor<2x4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<2x4xf32>, tensor<2xf32>) outs(%empty : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %1 = arith.subf %a, %b : f32
    %2 = arith.mulf %1, %half : f32
    %3 = math.exp %2 : f32
    linalg.yield %3 : f32
  } -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// A sum says over what, and from what; what is read twice has a line; what is written in another order says where.
// CHECK-LABEL: func @sum(
// CHECK-NEXT: %[[SUM:[0-9]+]]: 2xf32 = each i over j from 0: out + %arg0[i, j]
// CHECK-NEXT: %[[TWO:[0-9]+]]#0, %[[TWO]]#1: 4x2xf32 = each i, j at [j, i] at [j, i]:
// CHECK-NEXT: {{^}}      %[[A:[0-9]+]] = extf(%arg0[i, j], f64)
// CHECK-NEXT: {{^}}      %[[N:[0-9]+]] = truncf(%[[A]] * %[[A]], f32)
// CHECK-NEXT: {{^}}      yield %[[N]], select(olt(%[[N]], %[[SUM]][i]), %[[N]], 1)
func.func @sum(%x: tensor<2x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %rows = tensor.empty() : tensor<2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<2xf32>) -> tensor<2xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x4xf32>) outs(%zeros : tensor<2xf32>) {
  ^bb0(%a: f32, %total: f32):
    %1 = arith.addf %total, %a : f32
    linalg.yield %1 : f32
  } -> tensor<2xf32>
  %empty = tensor.empty() : tensor<4x2xf32>
  %0:2 = linalg.generic {indexing_maps = [#id, #row, #turned, #turned], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<2x4xf32>, tensor<2xf32>) outs(%empty, %empty : tensor<4x2xf32>, tensor<4x2xf32>) {
  ^bb0(%a: f32, %b: f32, %out0: f32, %out1: f32):
    %1 = arith.extf %a : f32 to f64
    %2 = arith.mulf %1, %1 : f64
    %3 = arith.truncf %2 : f64 to f32
    %4 = arith.cmpf olt, %3, %b : f32
    %5 = arith.select %4, %3, %one : f32
    linalg.yield %3, %5 : f32, f32
  } -> (tensor<4x2xf32>, tensor<4x2xf32>)
  return %0#0, %0#1 : tensor<4x2xf32>, tensor<4x2xf32>
}

// Named operations of linalg say what they write onto, and hide the body that their name stands for.
// CHECK-LABEL: func @named(
// CHECK-NEXT: %transposed: 4x2xf32 = transpose(%arg0) {permutation=[1, 0]}
// CHECK-NEXT: %[[P:[0-9]+]]: 4x4xf32 = matmul(%transposed, %arg0) onto %arg1
// CHECK-NEXT: return(%[[P]])
func.func @named(%x: tensor<2x4xf32>, %sum: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %empty = tensor.empty() : tensor<4x2xf32>
  %turned = linalg.transpose ins(%x : tensor<2x4xf32>) outs(%empty : tensor<4x2xf32>) permutation = [1, 0]
  %0 = linalg.matmul ins(%turned, %x : tensor<4x2xf32>, tensor<2x4xf32>) outs(%sum : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// A loop keeps its body, with the names of its arguments.
// CHECK-LABEL: func @loop(
// CHECK-NEXT: %[[L:[0-9]+]]: f32 = for(0, 8, 1, %arg0)
// CHECK-NEXT: {{^}}      with %[[I:arg[0-9]]]: index, %[[X:arg[0-9]]]: f32:
// CHECK-NEXT: {{^}}      %[[N:[0-9]+]]: f32 = addf(%[[X]], %[[X]])
// CHECK-NEXT: {{^}}      yield(%[[N]])
func.func @loop(%x: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %0 = scf.for %i = %c0 to %c8 step %c1 iter_args(%each = %x) -> f32 {
    %1 = arith.addf %each, %each : f32
    scf.yield %1 : f32
  }
  return %0 : f32
}
