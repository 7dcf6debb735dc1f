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
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = arith.constant 0.000000e+00 : f64
    %cst_3 = arith.constant 1.600000e+01 : f32
    %cst_4 = arith.constant 1.250000e-01 : f32
    %0 = tensor.empty() : tensor<4x8xf32>
    %1 = tensor.empty() : tensor<2x8xf32>
    %transposed = linalg.transpose ins(%arg0 : tensor<8x4xf32>) outs(%0 : tensor<4x8xf32>) permutation = [1, 0] 
    %2 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%1 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %4 = linalg.matmul ins(%arg6, %transposed : tensor<2x4xf32>, tensor<4x8xf32>) outs(%3 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %5 = tensor.empty() : tensor<2x8xi1>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<2x8xf32>) outs(%5 : tensor<2x8xi1>) {
    ^bb0(%in: f32, %out: i1):
      %45 = arith.extf %in : f32 to f64
      %46 = arith.cmpf olt, %45, %cst_2 : f64
      linalg.yield %46 : i1
    } -> tensor<2x8xi1>
    %7 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %cst_1, %4 : tensor<2x8xi1>, tensor<f32>, tensor<2x8xf32>) outs(%1 : tensor<2x8xf32>) {
    ^bb0(%in: i1, %in_8: f32, %in_9: f32, %out: f32):
      %45 = arith.select %in, %in_8, %in_9 : f32
      linalg.yield %45 : f32
    } -> tensor<2x8xf32>
    %8 = tensor.empty() : tensor<8x4xf32>
    %9 = tensor.empty() : tensor<8x2xf32>
    %transposed_5 = linalg.transpose ins(%arg1 : tensor<4x8xf32>) outs(%8 : tensor<8x4xf32>) permutation = [1, 0] 
    %10 = tensor.empty() : tensor<4x2xf32>
    %11 = tensor.empty() : tensor<2x4xf32>
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<2x4xf32>) -> tensor<2x4xf32>
    %13 = linalg.matmul ins(%7, %transposed_5 : tensor<2x8xf32>, tensor<8x4xf32>) outs(%12 : tensor<2x4xf32>) -> tensor<2x4xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %arg7 : tensor<2x4xf32>, tensor<2x4xf32>) outs(%11 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %45 = arith.subf %in, %in_8 : f32
      linalg.yield %45 : f32
    } -> tensor<2x4xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %14 : tensor<2x4xf32>, tensor<2x4xf32>) outs(%11 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %45 = arith.mulf %in, %in_8 : f32
      linalg.yield %45 : f32
    } -> tensor<2x4xf32>
    %16 = tensor.empty() : tensor<f32>
    %17 = linalg.fill ins(%cst : f32) outs(%16 : tensor<f32>) -> tensor<f32>
    %18 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "reduction"]} ins(%15 : tensor<2x4xf32>) outs(%17 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.addf %in, %out : f32
      linalg.yield %45 : f32
    } -> tensor<f32>
    %19 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%18 : tensor<f32>) outs(%16 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.divf %in, %cst_3 : f32
      linalg.yield %45 : f32
    } -> tensor<f32>
    %20 = "dm.all_reduce"(%19) {accumulate = f32, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<f32>) -> tensor<f32>
    %21 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<2x4xf32>) outs(%11 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.mulf %in, %cst_4 : f32
      linalg.yield %45 : f32
    } -> tensor<2x4xf32>
    %22 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%21, %cst_0 : tensor<2x4xf32>, tensor<f32>) outs(%11 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %45 = arith.mulf %in, %in_8 : f32
      linalg.yield %45 : f32
    } -> tensor<2x4xf32>
    %transposed_6 = linalg.transpose ins(%22 : tensor<2x4xf32>) outs(%10 : tensor<4x2xf32>) permutation = [1, 0] 
    %23 = linalg.matmul ins(%transposed_6, %7 : tensor<4x2xf32>, tensor<2x8xf32>) outs(%2 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %24 = "dm.all_reduce"(%23) {accumulate = f32, dm.tensor = "gradient of 2.weight", dm.why = "2.weight#dmc.optimizer_update_sgd, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %25 = linalg.matmul ins(%22, %arg1 : tensor<2x4xf32>, tensor<4x8xf32>) outs(%3 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %26 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<2x8xf32>) outs(%5 : tensor<2x8xi1>) {
    ^bb0(%in: f32, %out: i1):
      %45 = arith.extf %in : f32 to f64
      %46 = arith.cmpf ole, %45, %cst_2 : f64
      linalg.yield %46 : i1
    } -> tensor<2x8xi1>
    %27 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%26, %cst_1, %25 : tensor<2x8xi1>, tensor<f32>, tensor<2x8xf32>) outs(%1 : tensor<2x8xf32>) {
    ^bb0(%in: i1, %in_8: f32, %in_9: f32, %out: f32):
      %45 = arith.select %in, %in_8, %in_9 : f32
      linalg.yield %45 : f32
    } -> tensor<2x8xf32>
    %transposed_7 = linalg.transpose ins(%27 : tensor<2x8xf32>) outs(%9 : tensor<8x2xf32>) permutation = [1, 0] 
    %28 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %29 = linalg.matmul ins(%transposed_7, %arg6 : tensor<8x2xf32>, tensor<2x4xf32>) outs(%28 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %30 = "dm.all_reduce"(%29) {accumulate = f32, dm.tensor = "gradient of 0.weight", dm.why = "0.weight#dmc.optimizer_update_sgd, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %31 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%19, %19 : tensor<f32>, tensor<f32>) outs(%16 : tensor<f32>) {
    ^bb0(%in: f32, %in_8: f32, %out: f32):
      %45 = arith.subf %in, %in_8 : f32
      linalg.yield %45 : f32
    } -> tensor<f32>
    %32 = "dm.all_reduce"(%31) {accumulate = f32, dm.why = "optimizer#aten.ne.Tensor, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<f32>) -> tensor<f32>
    %33 = tensor.empty() : tensor<i1>
    %34 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%32, %32 : tensor<f32>, tensor<f32>) outs(%33 : tensor<i1>) {
    ^bb0(%in: f32, %in_8: f32, %out: i1):
      %45 = arith.cmpf une, %in, %in_8 : f32
      linalg.yield %45 : i1
    } -> tensor<i1>
    %35 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%34 : tensor<i1>) outs(%33 : tensor<i1>) {
    ^bb0(%in: i1, %out: i1):
      %45 = arith.xori %in, %true : i1
      linalg.yield %45 : i1
    } -> tensor<i1>
    %36 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%arg5 : tensor<i32>) outs(%33 : tensor<i1>) {
    ^bb0(%in: i32, %out: i1):
      %45 = arith.extsi %in : i32 to i64
      %46 = arith.cmpi eq, %45, %c0_i64 : i64
      linalg.yield %46 : i1
    } -> tensor<i1>
    %37 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%35, %36 : tensor<i1>, tensor<i1>) outs(%33 : tensor<i1>) {
    ^bb0(%in: i1, %in_8: i1, %out: i1):
      %45 = arith.ori %in, %in_8 : i1
      linalg.yield %45 : i1
    } -> tensor<i1>
    %collapsed = tensor.collapse_shape %arg4 [] : tensor<1xf32> into tensor<f32>
    %38 = "dm.composite"(%arg0, %30, %cst_0, %collapsed, %37) {decomposition = @optimizer_update_sgd_0, kind = "optimizer_update_sgd", parameters = {weight_decay = 0.000000e+00 : f64}} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<8x4xf32>
    %39 = "dm.composite"(%arg1, %24, %cst_0, %collapsed, %37) {decomposition = @optimizer_update_sgd_1, kind = "optimizer_update_sgd", parameters = {weight_decay = 0.000000e+00 : f64}} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<4x8xf32>
    %40 = tensor.empty() : tensor<i64>
    %41 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%37 : tensor<i1>) outs(%40 : tensor<i64>) {
    ^bb0(%in: i1, %out: i64):
      %45 = arith.extui %in : i1 to i64
      linalg.yield %45 : i64
    } -> tensor<i64>
    %42 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%arg2, %41 : tensor<i64>, tensor<i64>) outs(%40 : tensor<i64>) {
    ^bb0(%in: i64, %in_8: i64, %out: i64):
      %45 = arith.addi %in, %in_8 : i64
      linalg.yield %45 : i64
    } -> tensor<i64>
    %43 = tensor.empty() : tensor<i32>
    %44 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = []} ins(%35 : tensor<i1>) outs(%43 : tensor<i32>) {
    ^bb0(%in: i1, %out: i32):
      %45 = arith.extui %in : i1 to i32
      linalg.yield %45 : i32
    } -> tensor<i32>
    return %38, %39, %42, %20, %44 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<i64>, tensor<f32>, tensor<i32>
  }
}
