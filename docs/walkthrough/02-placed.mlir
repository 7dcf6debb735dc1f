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
  func.func @step(%arg0: tensor<8x4xf32> {dm.name = "0.weight", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %arg1: tensor<4x8xf32> {dm.name = "2.weight", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %arg2: tensor<i64> {dm.name = "step", dm.role = "counter", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg3: tensor<i64> {dm.name = "seed", dm.role = "seed", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg4: tensor<1xf32> {dm.name = "lr", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [[]], {}>}, %arg5: tensor<i32> {dm.name = "guard", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg6: tensor<2x4xf32> {dm.name = "input", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}, %arg7: tensor<2x4xf32> {dm.name = "targets", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<8x4xf32> {dm.name = "0.weight", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, tensor<4x8xf32> {dm.name = "2.weight", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, tensor<i64> {dm.name = "step", dm.sharding = #dm.sharding<@mesh, [], {}>}, tensor<f32> {dm.name = "loss", dm.sharding = #dm.sharding<@mesh, [], {}>}, tensor<i32> {dm.name = "finite", dm.sharding = #dm.sharding<@mesh, [], {}>}) {
    %true = arith.constant true
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_2 = arith.constant 0.000000e+00 : f64
    %cst_3 = arith.constant 1.600000e+01 : f32
    %cst_4 = arith.constant 1.250000e-01 : f32
    %0 = tensor.empty() : tensor<4x8xf32>
    %1 = tensor.empty() : tensor<2x8xf32>
    %transposed = linalg.transpose ins(%arg0 : tensor<8x4xf32>) outs(%0 : tensor<4x8xf32>) permutation = [1, 0] 
    %2 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%1 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %4 = linalg.matmul ins(%arg6, %transposed : tensor<2x4xf32>, tensor<4x8xf32>) outs(%3 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<2x8xf32>) outs(%1 : tensor<2x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %44 = arith.cmpf ugt, %in, %cst : f32
      %45 = arith.select %44, %in, %cst : f32
      linalg.yield %45 : f32
    } -> tensor<2x8xf32>
    %6 = tensor.empty() : tensor<8x4xf32>
    %7 = tensor.empty() : tensor<8x2xf32>
    %transposed_5 = linalg.transpose ins(%arg1 : tensor<4x8xf32>) outs(%6 : tensor<8x4xf32>) permutation = [1, 0] 
    %8 = tensor.empty() : tensor<4x2xf32>
    %9 = tensor.empty() : tensor<2x4xf32>
    %10 = linalg.fill ins(%cst : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
    %11 = linalg.matmul ins(%5, %transposed_5 : tensor<2x8xf32>, tensor<8x4xf32>) outs(%10 : tensor<2x4xf32>) -> tensor<2x4xf32>
    %12 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%11, %arg7 : tensor<2x4xf32>, tensor<2x4xf32>) outs(%9 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %44 = arith.subf %in, %in_8 : f32
      linalg.yield %44 : f32
    } -> tensor<2x4xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %12 : tensor<2x4xf32>, tensor<2x4xf32>) outs(%9 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %44 = arith.mulf %in, %in_8 : f32
      linalg.yield %44 : f32
    } -> tensor<2x4xf32>
    %14 = tensor.empty() : tensor<f32>
    %15 = linalg.fill ins(%cst : f32) outs(%14 : tensor<f32>) -> tensor<f32>
    %16 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "reduction"]} ins(%13 : tensor<2x4xf32>) outs(%15 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %44 = arith.addf %in, %out : f32
      linalg.yield %44 : f32
    } -> tensor<f32>
    %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%16 : tensor<f32>) outs(%14 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %44 = arith.divf %in, %cst_3 : f32
      linalg.yield %44 : f32
    } -> tensor<f32>
    %18 = "dm.all_reduce"(%17) {accumulate = f32, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<f32>) -> tensor<f32>
    %19 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<2x4xf32>) outs(%9 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %44 = arith.mulf %in, %cst_4 : f32
      linalg.yield %44 : f32
    } -> tensor<2x4xf32>
    %20 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%19, %cst_1 : tensor<2x4xf32>, tensor<f32>) outs(%9 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %44 = arith.mulf %in, %in_8 : f32
      linalg.yield %44 : f32
    } -> tensor<2x4xf32>
    %transposed_6 = linalg.transpose ins(%20 : tensor<2x4xf32>) outs(%8 : tensor<4x2xf32>) permutation = [1, 0] 
    %21 = linalg.matmul ins(%transposed_6, %5 : tensor<4x2xf32>, tensor<2x8xf32>) outs(%2 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %22 = "dm.all_reduce"(%21) {accumulate = f32, dm.tensor = "gradient of 2.weight", dm.why = "2.weight#dmc.optimizer_update_sgd, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %23 = linalg.matmul ins(%20, %arg1 : tensor<2x4xf32>, tensor<4x8xf32>) outs(%3 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %24 = tensor.empty() : tensor<2x8xi1>
    %25 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<2x8xf32>) outs(%24 : tensor<2x8xi1>) {
    ^bb0(%in: f32, %out: i1):
      %44 = arith.extf %in : f32 to f64
      %45 = arith.cmpf ole, %44, %cst_2 : f64
      linalg.yield %45 : i1
    } -> tensor<2x8xi1>
    %26 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%25, %cst_0, %23 : tensor<2x8xi1>, tensor<f32>, tensor<2x8xf32>) outs(%1 : tensor<2x8xf32>) {
    ^bb0(%in: i1, %in_8: f32, %in_9: f32, %out: f32):
      %44 = arith.select %in, %in_8, %in_9 : f32
      linalg.yield %44 : f32
    } -> tensor<2x8xf32>
    %transposed_7 = linalg.transpose ins(%26 : tensor<2x8xf32>) outs(%7 : tensor<8x2xf32>) permutation = [1, 0] 
    %27 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %28 = linalg.matmul ins(%transposed_7, %arg6 : tensor<8x2xf32>, tensor<2x4xf32>) outs(%27 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %29 = "dm.all_reduce"(%28) {accumulate = f32, dm.tensor = "gradient of 0.weight", dm.why = "0.weight#dmc.optimizer_update_sgd, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %collapsed = tensor.collapse_shape %arg4 [] : tensor<1xf32> into tensor<f32>
    %30 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%17, %17 : tensor<f32>, tensor<f32>) outs(%14 : tensor<f32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %44 = arith.subf %in, %in_8 : f32
      linalg.yield %44 : f32
    } -> tensor<f32>
    %31 = "dm.all_reduce"(%30) {accumulate = f32, dm.why = "optimizer#aten.ne.Tensor, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<f32>) -> tensor<f32>
    %32 = tensor.empty() : tensor<i1>
    %33 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%31, %31 : tensor<f32>, tensor<f32>) outs(%32 : tensor<i1>) {
    ^bb0(%in: f32, %in_8: f32, %out: i1):
      %44 = arith.cmpf une, %in, %in_8 : f32
      linalg.yield %44 : i1
    } -> tensor<i1>
    %34 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%33 : tensor<i1>) outs(%32 : tensor<i1>) {
    ^bb0(%in: i1, %out: i1):
      %44 = arith.xori %in, %true : i1
      linalg.yield %44 : i1
    } -> tensor<i1>
    %35 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%arg5 : tensor<i32>) outs(%32 : tensor<i1>) {
    ^bb0(%in: i32, %out: i1):
      %44 = arith.extsi %in : i32 to i64
      %45 = arith.cmpi eq, %44, %c0_i64 : i64
      linalg.yield %45 : i1
    } -> tensor<i1>
    %36 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%34, %35 : tensor<i1>, tensor<i1>) outs(%32 : tensor<i1>) {
    ^bb0(%in: i1, %in_8: i1, %out: i1):
      %44 = arith.ori %in, %in_8 : i1
      linalg.yield %44 : i1
    } -> tensor<i1>
    %37 = "dm.composite"(%arg0, %29, %cst_1, %collapsed, %36) {decomposition = @optimizer_update_sgd_0, kind = "optimizer_update_sgd", parameters = {weight_decay = 0.000000e+00 : f64}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<8x4xf32>
    %38 = "dm.composite"(%arg1, %22, %cst_1, %collapsed, %36) {decomposition = @optimizer_update_sgd_1, kind = "optimizer_update_sgd", parameters = {weight_decay = 0.000000e+00 : f64}} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<4x8xf32>
    %39 = tensor.empty() : tensor<i64>
    %40 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%36 : tensor<i1>) outs(%39 : tensor<i64>) {
    ^bb0(%in: i1, %out: i64):
      %44 = arith.extui %in : i1 to i64
      linalg.yield %44 : i64
    } -> tensor<i64>
    %41 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%arg2, %40 : tensor<i64>, tensor<i64>) outs(%39 : tensor<i64>) {
    ^bb0(%in: i64, %in_8: i64, %out: i64):
      %44 = arith.addi %in, %in_8 : i64
      linalg.yield %44 : i64
    } -> tensor<i64>
    %42 = tensor.empty() : tensor<i32>
    %43 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%34 : tensor<i1>) outs(%42 : tensor<i32>) {
    ^bb0(%in: i1, %out: i32):
      %44 = arith.extui %in : i1 to i32
      linalg.yield %44 : i32
    } -> tensor<i32>
    return %37, %38, %41, %18, %43 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<i64>, tensor<f32>, tensor<i32>
  }
}
