#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> ()>
#map2 = affine_map<() -> ()>
module attributes {dm.machine = "cpu", dm.target = "cpu"} {
  "dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
  func.func private @optimizer_update_sgd_0(%arg0: tensor<8x4xf32>, %arg1: tensor<8x4xf32>, %arg2: tensor<f32>, %arg3: tensor<f32>, %arg4: tensor<i1>) -> tensor<8x4xf32> {
    %0 = tensor.empty() : tensor<8x4xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1, %arg2 : tensor<8x4xf32>, tensor<f32>) outs(%0 : tensor<8x4xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x4xf32>
    %2 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg3, %1 : tensor<f32>, tensor<8x4xf32>) outs(%0 : tensor<8x4xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x4xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %2 : tensor<8x4xf32>, tensor<8x4xf32>) outs(%0 : tensor<8x4xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.subf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x4xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg4, %3, %arg0 : tensor<i1>, tensor<8x4xf32>, tensor<8x4xf32>) outs(%0 : tensor<8x4xf32>) {
    ^bb0(%in: i1, %in_0: f32, %in_1: f32, %out: f32):
      %5 = arith.select %in, %in_0, %in_1 : f32
      linalg.yield %5 : f32
    } -> tensor<8x4xf32>
    return %4 : tensor<8x4xf32>
  }
  func.func private @optimizer_update_sgd_1(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<f32>, %arg3: tensor<f32>, %arg4: tensor<i1>) -> tensor<4x8xf32> {
    %0 = tensor.empty() : tensor<4x8xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1, %arg2 : tensor<4x8xf32>, tensor<f32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<4x8xf32>
    %2 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg3, %1 : tensor<f32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<4x8xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %2 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.subf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<4x8xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg4, %3, %arg0 : tensor<i1>, tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: i1, %in_0: f32, %in_1: f32, %out: f32):
      %5 = arith.select %in, %in_0, %in_1 : f32
      linalg.yield %5 : f32
    } -> tensor<4x8xf32>
    return %4 : tensor<4x8xf32>
  }
  func.func @step(%arg0: tensor<8x4xf32> {dm.name = "0.weight", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %arg1: tensor<4x8xf32> {dm.name = "2.weight", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %arg2: tensor<i64> {dm.name = "step", dm.role = "counter", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg3: tensor<i64> {dm.name = "seed", dm.role = "seed", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg4: tensor<1xf32> {dm.name = "lr", dm.role = "control"}, %arg5: tensor<i32> {dm.name = "guard", dm.role = "control"}, %arg6: tensor<4x4xf32> {dm.name = "input", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}, %arg7: tensor<4x4xf32> {dm.name = "targets", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<8x4xf32> {dm.name = "0.weight"}, tensor<4x8xf32> {dm.name = "2.weight"}, tensor<i64> {dm.name = "step"}, tensor<f32> {dm.name = "loss"}, tensor<i32> {dm.name = "finite"}) {
    %true = arith.constant true
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = arith.constant 0.000000e+00 : f64
    %cst_3 = arith.constant 1.600000e+01 : f32
    %cst_4 = arith.constant 1.250000e-01 : f32
    %0 = tensor.empty() : tensor<4x8xf32>
    %transposed = linalg.transpose ins(%arg0 : tensor<8x4xf32>) outs(%0 : tensor<4x8xf32>) permutation = [1, 0] 
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = linalg.matmul ins(%arg6, %transposed : tensor<4x4xf32>, tensor<4x8xf32>) outs(%1 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = tensor.empty() : tensor<4x8xi1>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<4x8xf32>) outs(%3 : tensor<4x8xi1>) {
    ^bb0(%in: f32, %out: i1):
      %37 = arith.extf %in : f32 to f64
      %38 = arith.cmpf olt, %37, %cst_2 : f64
      linalg.yield %38 : i1
    } -> tensor<4x8xi1>
    %5 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%4, %cst_1, %2 : tensor<4x8xi1>, tensor<f32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: i1, %in_8: f32, %in_9: f32, %out: f32):
      %37 = arith.select %in, %in_8, %in_9 : f32
      linalg.yield %37 : f32
    } -> tensor<4x8xf32>
    %6 = tensor.empty() : tensor<8x4xf32>
    %transposed_5 = linalg.transpose ins(%arg1 : tensor<4x8xf32>) outs(%6 : tensor<8x4xf32>) permutation = [1, 0] 
    %7 = tensor.empty() : tensor<4x4xf32>
    %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<4x4xf32>) -> tensor<4x4xf32>
    %9 = linalg.matmul ins(%5, %transposed_5 : tensor<4x8xf32>, tensor<8x4xf32>) outs(%8 : tensor<4x4xf32>) -> tensor<4x4xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %arg7 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%7 : tensor<4x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %37 = arith.subf %in, %in_8 : f32
      linalg.yield %37 : f32
    } -> tensor<4x4xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %10 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%7 : tensor<4x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %37 = arith.mulf %in, %in_8 : f32
      linalg.yield %37 : f32
    } -> tensor<4x4xf32>
    %12 = tensor.empty() : tensor<f32>
    %13 = linalg.fill ins(%cst : f32) outs(%12 : tensor<f32>) -> tensor<f32>
    %14 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "reduction"]} ins(%11 : tensor<4x4xf32>) outs(%13 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %37 = arith.addf %in, %out : f32
      linalg.yield %37 : f32
    } -> tensor<f32>
    %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%14 : tensor<f32>) outs(%12 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %37 = arith.divf %in, %cst_3 : f32
      linalg.yield %37 : f32
    } -> tensor<f32>
    %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<4x4xf32>) outs(%7 : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %37 = arith.mulf %in, %cst_4 : f32
      linalg.yield %37 : f32
    } -> tensor<4x4xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%16, %cst_0 : tensor<4x4xf32>, tensor<f32>) outs(%7 : tensor<4x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %37 = arith.mulf %in, %in_8 : f32
      linalg.yield %37 : f32
    } -> tensor<4x4xf32>
    %transposed_6 = linalg.transpose ins(%17 : tensor<4x4xf32>) outs(%7 : tensor<4x4xf32>) permutation = [1, 0] 
    %18 = linalg.matmul {dm.pin = [{along = ["dp"], at = #dm.sharding<@mesh, [[], []], {}>, brought = []}]} ins(%transposed_6, %5 : tensor<4x4xf32>, tensor<4x8xf32>) outs(%1 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %19 = linalg.matmul ins(%17, %arg1 : tensor<4x4xf32>, tensor<4x8xf32>) outs(%1 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %20 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<4x8xf32>) outs(%3 : tensor<4x8xi1>) {
    ^bb0(%in: f32, %out: i1):
      %37 = arith.extf %in : f32 to f64
      %38 = arith.cmpf ole, %37, %cst_2 : f64
      linalg.yield %38 : i1
    } -> tensor<4x8xi1>
    %21 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%20, %cst_1, %19 : tensor<4x8xi1>, tensor<f32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: i1, %in_8: f32, %in_9: f32, %out: f32):
      %37 = arith.select %in, %in_8, %in_9 : f32
      linalg.yield %37 : f32
    } -> tensor<4x8xf32>
    %transposed_7 = linalg.transpose ins(%21 : tensor<4x8xf32>) outs(%6 : tensor<8x4xf32>) permutation = [1, 0] 
    %22 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %23 = linalg.matmul {dm.pin = [{along = ["dp"], at = #dm.sharding<@mesh, [[], []], {}>, brought = []}]} ins(%transposed_7, %arg6 : tensor<8x4xf32>, tensor<4x4xf32>) outs(%22 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %24 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%15, %15 : tensor<f32>, tensor<f32>) outs(%12 : tensor<f32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %37 = arith.subf %in, %in_8 : f32
      linalg.yield %37 : f32
    } -> tensor<f32>
    %25 = tensor.empty() : tensor<i1>
    %26 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%24, %24 : tensor<f32>, tensor<f32>) outs(%25 : tensor<i1>) {
    ^bb0(%in: f32, %in_8: f32, %out: i1):
      %37 = arith.cmpf une, %in, %in_8 : f32
      linalg.yield %37 : i1
    } -> tensor<i1>
    %27 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%26 : tensor<i1>) outs(%25 : tensor<i1>) {
    ^bb0(%in: i1, %out: i1):
      %37 = arith.xori %in, %true : i1
      linalg.yield %37 : i1
    } -> tensor<i1>
    %28 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%arg5 : tensor<i32>) outs(%25 : tensor<i1>) {
    ^bb0(%in: i32, %out: i1):
      %37 = arith.extsi %in : i32 to i64
      %38 = arith.cmpi eq, %37, %c0_i64 : i64
      linalg.yield %38 : i1
    } -> tensor<i1>
    %29 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%27, %28 : tensor<i1>, tensor<i1>) outs(%25 : tensor<i1>) {
    ^bb0(%in: i1, %in_8: i1, %out: i1):
      %37 = arith.ori %in, %in_8 : i1
      linalg.yield %37 : i1
    } -> tensor<i1>
    %collapsed = tensor.collapse_shape %arg4 [] : tensor<1xf32> into tensor<f32>
    %30 = "dm.composite"(%arg0, %23, %cst_0, %collapsed, %29) {decomposition = @optimizer_update_sgd_0, kind = "optimizer_update_sgd", parameters = {weight_decay = 0.000000e+00 : f64}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<8x4xf32>
    %31 = "dm.composite"(%arg1, %18, %cst_0, %collapsed, %29) {decomposition = @optimizer_update_sgd_1, kind = "optimizer_update_sgd", parameters = {weight_decay = 0.000000e+00 : f64}} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<4x8xf32>
    %32 = tensor.empty() : tensor<i64>
    %33 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%29 : tensor<i1>) outs(%32 : tensor<i64>) {
    ^bb0(%in: i1, %out: i64):
      %37 = arith.extui %in : i1 to i64
      linalg.yield %37 : i64
    } -> tensor<i64>
    %34 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%arg2, %33 : tensor<i64>, tensor<i64>) outs(%32 : tensor<i64>) {
    ^bb0(%in: i64, %in_8: i64, %out: i64):
      %37 = arith.addi %in, %in_8 : i64
      linalg.yield %37 : i64
    } -> tensor<i64>
    %35 = tensor.empty() : tensor<i32>
    %36 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%27 : tensor<i1>) outs(%35 : tensor<i32>) {
    ^bb0(%in: i1, %out: i32):
      %37 = arith.extui %in : i1 to i32
      linalg.yield %37 : i32
    } -> tensor<i32>
    return %30, %31, %34, %15, %36 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<i64>, tensor<f32>, tensor<i32>
  }
}
