#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> ()>
#map2 = affine_map<() -> ()>
module attributes {dm.machine = "cpu", dm.target = "cpu"} {
  "dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
  "dm.channel"() {group = #dm.group<@mesh, ["dp"]>, sym_name = "dp"} : () -> ()
  func.func @step(%arg0: tensor<8x4xf32> {dm.name = "0.weight", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %arg1: tensor<4x8xf32> {dm.name = "2.weight", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %arg2: tensor<i64> {dm.name = "step", dm.role = "counter", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg3: tensor<i64> {dm.name = "seed", dm.role = "seed", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg4: tensor<1xf32> {dm.name = "lr", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [[]], {}>}, %arg5: tensor<i32> {dm.name = "guard", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [], {}>}, %arg6: tensor<2x4xf32> {dm.name = "input", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}, %arg7: tensor<2x4xf32> {dm.name = "targets", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<8x4xf32> {dm.name = "0.weight", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, tensor<4x8xf32> {dm.name = "2.weight", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, tensor<i64> {dm.name = "step", dm.sharding = #dm.sharding<@mesh, [], {}>}, tensor<f32> {dm.name = "loss", dm.sharding = #dm.sharding<@mesh, [], {}>}, tensor<i32> {dm.name = "finite", dm.sharding = #dm.sharding<@mesh, [], {}>}) {
    %0:2 = "dm.start"(%arg6) ({
    ^bb0(%arg8: tensor<2x4xf32>):
      %30 = "dm.copy"(%arg8) {dm.tensor = "input", source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      "dm.yield"(%30) : (tensor<2x4xf32>) -> ()
    }) {instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_in">} : (tensor<2x4xf32>) -> (!dm.handle<tensor<2x4xf32>>, !dm.token)
    %1:2 = "dm.start"(%arg7) ({
    ^bb0(%arg8: tensor<2x4xf32>):
      %30 = "dm.copy"(%arg8) {dm.tensor = "targets", source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      "dm.yield"(%30) : (tensor<2x4xf32>) -> ()
    }) {instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_in">} : (tensor<2x4xf32>) -> (!dm.handle<tensor<2x4xf32>>, !dm.token)
    %2:2 = "dm.start"(%arg5) ({
    ^bb0(%arg8: tensor<i32>):
      %30 = "dm.copy"(%arg8) {dm.tensor = "guard", source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<i32>) -> tensor<i32>
      "dm.yield"(%30) : (tensor<i32>) -> ()
    }) {instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_in">} : (tensor<i32>) -> (!dm.handle<tensor<i32>>, !dm.token)
    %3:2 = "dm.start"(%arg4) ({
    ^bb0(%arg8: tensor<1xf32>):
      %30 = "dm.copy"(%arg8) {dm.tensor = "lr", source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<1xf32>) -> tensor<1xf32>
      "dm.yield"(%30) : (tensor<1xf32>) -> ()
    }) {instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_in">} : (tensor<1xf32>) -> (!dm.handle<tensor<1xf32>>, !dm.token)
    %4 = "dm.wait"(%0#0) : (!dm.handle<tensor<2x4xf32>>) -> tensor<2x4xf32>
    %5:2 = "dm.kernel"(%4, %arg0) {body = @matmul_0, bytes = 240 : i64, dm.label = "0", flops = 160 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<2x4xf32>, tensor<8x4xf32>) -> (tensor<2x8xf32>, tensor<2x8xi1>)
    %6 = "dm.wait"(%1#0) : (!dm.handle<tensor<2x4xf32>>) -> tensor<2x4xf32>
    %7:2 = "dm.kernel"(%5#0, %arg1, %6) {body = @matmul_1, bytes = 288 : i64, dm.label = "2", flops = 152 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<2x8xf32>, tensor<4x8xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    %8 = "dm.kernel"(%7#0) {body = @reduce_0, bytes = 36 : i64, dm.label = "loss", flops = 16 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<2x4xf32>) -> tensor<f32>
    %9:2 = "dm.kernel"(%8) {body = @elementwise_0, bytes = 12 : i64, dm.label = "loss", flops = 2 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
    %10:2 = "dm.start"(%9#0) ({
    ^bb0(%arg8: tensor<f32>):
      %30 = "dm.all_reduce"(%arg8) {accumulate = f32, channel = @dp, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<f32>) -> tensor<f32>
      "dm.yield"(%30) : (tensor<f32>) -> ()
    }) {instance = 4 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"comm">} : (tensor<f32>) -> (!dm.handle<tensor<f32>>, !dm.token)
    %11 = "dm.kernel"(%7#1, %arg1, %5#1) {body = @matmul_3, bytes = 240 : i64, dm.label = "2, backward", flops = 128 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<2x4xf32>, tensor<4x8xf32>, tensor<2x8xi1>) -> tensor<2x8xf32>
    %12 = "dm.wait"(%10#0) : (!dm.handle<tensor<f32>>) -> tensor<f32>
    %13:2 = "dm.start"(%12) ({
    ^bb0(%arg8: tensor<f32>):
      %30 = "dm.copy"(%arg8) {dm.tensor = "loss", source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<f32>) -> tensor<f32>
      "dm.yield"(%30) : (tensor<f32>) -> ()
    }) {instance = 8 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_out">} : (tensor<f32>) -> (!dm.handle<tensor<f32>>, !dm.token)
    %14 = "dm.kernel"(%4, %11) {body = @matmul_4, bytes = 224 : i64, dm.label = "0, backward", flops = 128 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
    %15 = "dm.pack"(%14, %9#1) {offsets = array<i64: 0, 64>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<128xf32>
    %16:2 = "dm.start"(%15) ({
    ^bb0(%arg8: tensor<128xf32>):
      %30 = "dm.all_reduce"(%arg8) {accumulate = f32, channel = @dp, dm.tensor = "gradient of 0.weight", dm.why = "0.weight#dmc.optimizer_update_sgd, update; optimizer#aten.ne.Tensor, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<128xf32>) -> tensor<128xf32>
      "dm.yield"(%30) : (tensor<128xf32>) -> ()
    }) {instance = 6 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"comm">} : (tensor<128xf32>) -> (!dm.handle<tensor<128xf32>>, !dm.token)
    %17 = "dm.kernel"(%5#0, %7#1) {body = @matmul_2, bytes = 224 : i64, dm.label = "2, backward", flops = 128 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<4x8xf32>
    %18:2 = "dm.start"(%17) ({
    ^bb0(%arg8: tensor<4x8xf32>):
      %30 = "dm.all_reduce"(%arg8) {accumulate = f32, channel = @dp, dm.tensor = "gradient of 2.weight", dm.why = "2.weight#dmc.optimizer_update_sgd, update", group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      "dm.yield"(%30) : (tensor<4x8xf32>) -> ()
    }) {instance = 5 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"comm">} : (tensor<4x8xf32>) -> (!dm.handle<tensor<4x8xf32>>, !dm.token)
    %19 = "dm.wait"(%2#0) : (!dm.handle<tensor<i32>>) -> tensor<i32>
    %20 = "dm.wait"(%16#0) : (!dm.handle<tensor<128xf32>>) -> tensor<128xf32>
    %21:2 = "dm.unpack"(%20) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<8x4xf32>, tensor<f32>)
    %22:3 = "dm.kernel"(%21#1, %19, %arg2) {body = @elementwise_1, bytes = 29 : i64, dm.label = "optimizer, update", flops = 0 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<f32>, tensor<i32>, tensor<i64>) -> (tensor<i1>, tensor<i64>, tensor<i32>)
    %23:2 = "dm.start"(%22#2) ({
    ^bb0(%arg8: tensor<i32>):
      %30 = "dm.copy"(%arg8) {dm.tensor = "finite", source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<i32>) -> tensor<i32>
      "dm.yield"(%30) : (tensor<i32>) -> ()
    }) {instance = 9 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_out">} : (tensor<i32>) -> (!dm.handle<tensor<i32>>, !dm.token)
    %24 = "dm.wait"(%3#0) : (!dm.handle<tensor<1xf32>>) -> tensor<1xf32>
    %collapsed = tensor.collapse_shape %24 [] : tensor<1xf32> into tensor<f32>
    %25 = "dm.kernel"(%21#0, %collapsed, %arg0, %22#0) {body = @elementwise_2, bytes = 389 : i64, dm.label = "0.weight, update", flops = 96 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<8x4xf32>, tensor<f32>, tensor<8x4xf32>, tensor<i1>) -> tensor<8x4xf32>
    %26 = "dm.wait"(%18#0) : (!dm.handle<tensor<4x8xf32>>) -> tensor<4x8xf32>
    %27 = "dm.kernel"(%26, %collapsed, %arg1, %22#0) {body = @elementwise_3, bytes = 389 : i64, dm.label = "2.weight, update", flops = 96 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>, tensor<i1>) -> tensor<4x8xf32>
    %28 = "dm.wait"(%13#0) : (!dm.handle<tensor<f32>>) -> tensor<f32>
    %29 = "dm.wait"(%23#0) : (!dm.handle<tensor<i32>>) -> tensor<i32>
    return %25, %27, %22#1, %28, %29 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<i64>, tensor<f32>, tensor<i32>
  }
  func.func private @matmul_0(%arg0: tensor<2x4xf32>, %arg1: tensor<8x4xf32>) -> (tensor<2x8xf32>, tensor<2x8xi1>) attributes {dm.in_place = [], dm.kind = "matmul"} {
    %0 = tensor.empty() : tensor<4x8xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<8x4xf32>) outs(%0 : tensor<4x8xf32>) permutation = [1, 0] 
    %cst = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<2x8xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<2x4xf32>, tensor<4x8xf32>) outs(%2 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %4 = tensor.empty() : tensor<2x8xi1>
    %cst_0 = arith.constant 0.000000e+00 : f64
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
    %5:2 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %cst_1 : tensor<2x8xf32>, tensor<f32>) outs(%1, %4 : tensor<2x8xf32>, tensor<2x8xi1>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32, %out_3: i1):
      %6 = arith.extf %in : f32 to f64
      %7 = arith.cmpf olt, %6, %cst_0 : f64
      %8 = arith.select %7, %in_2, %in : f32
      %9 = arith.extf %8 : f32 to f64
      %10 = arith.cmpf ole, %9, %cst_0 : f64
      linalg.yield %8, %10 : f32, i1
    } -> (tensor<2x8xf32>, tensor<2x8xi1>)
    return %5#0, %5#1 : tensor<2x8xf32>, tensor<2x8xi1>
  }
  func.func private @matmul_1(%arg0: tensor<2x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {dm.in_place = [array<i64: 2, 0>, array<i64: 2, 1>], dm.kind = "matmul"} {
    %0 = tensor.empty() : tensor<8x4xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<4x8xf32>) outs(%0 : tensor<8x4xf32>) permutation = [1, 0] 
    %cst = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<2x4xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<2x8xf32>, tensor<8x4xf32>) outs(%2 : tensor<2x4xf32>) -> tensor<2x4xf32>
    %cst_0 = arith.constant 1.250000e-01 : f32
    %cst_1 = arith.constant dense<1.000000e+00> : tensor<f32>
    %4:2 = linalg.generic {indexing_maps = [#map, #map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %arg2, %cst_1 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>) outs(%1, %1 : tensor<2x4xf32>, tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_2: f32, %in_3: f32, %out: f32, %out_4: f32):
      %5 = arith.subf %in, %in_2 : f32
      %6 = arith.mulf %5, %cst_0 : f32
      %7 = arith.mulf %6, %in_3 : f32
      linalg.yield %5, %7 : f32, f32
    } -> (tensor<2x4xf32>, tensor<2x4xf32>)
    return %4#0, %4#1 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  func.func private @reduce_0(%arg0: tensor<2x4xf32>) -> tensor<f32> attributes {dm.in_place = [], dm.kind = "reduction"} {
    %0 = tensor.empty() : tensor<2x4xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg0 : tensor<2x4xf32>, tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<2x4xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %2 = tensor.empty() : tensor<f32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<f32>) -> tensor<f32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "reduction"]} ins(%1 : tensor<2x4xf32>) outs(%3 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %5 = arith.addf %in, %out : f32
      linalg.yield %5 : f32
    } -> tensor<f32>
    return %4 : tensor<f32>
  }
  func.func private @elementwise_0(%arg0: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {dm.in_place = [array<i64: 0, 0>, array<i64: 0, 1>], dm.kind = "elementwise"} {
    %0 = tensor.empty() : tensor<f32>
    %cst = arith.constant 1.600000e+01 : f32
    %1:2 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = []} ins(%arg0 : tensor<f32>) outs(%0, %0 : tensor<f32>, tensor<f32>) {
    ^bb0(%in: f32, %out: f32, %out_0: f32):
      %2 = arith.divf %in, %cst : f32
      %3 = arith.subf %2, %2 : f32
      linalg.yield %2, %3 : f32, f32
    } -> (tensor<f32>, tensor<f32>)
    return %1#0, %1#1 : tensor<f32>, tensor<f32>
  }
  func.func private @matmul_2(%arg0: tensor<2x8xf32>, %arg1: tensor<2x4xf32>) -> tensor<4x8xf32> attributes {dm.in_place = [], dm.kind = "matmul"} {
    %0 = tensor.empty() : tensor<4x2xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<2x4xf32>) outs(%0 : tensor<4x2xf32>) permutation = [1, 0] 
    %cst = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<4x8xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = linalg.matmul ins(%transposed, %arg0 : tensor<4x2xf32>, tensor<2x8xf32>) outs(%2 : tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
  func.func private @matmul_3(%arg0: tensor<2x4xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<2x8xi1>) -> tensor<2x8xf32> attributes {dm.in_place = [], dm.kind = "matmul"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<2x8xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %2 = linalg.matmul ins(%arg0, %arg1 : tensor<2x4xf32>, tensor<4x8xf32>) outs(%1 : tensor<2x8xf32>) -> tensor<2x8xf32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %3 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2, %cst_0, %2 : tensor<2x8xi1>, tensor<f32>, tensor<2x8xf32>) outs(%0 : tensor<2x8xf32>) {
    ^bb0(%in: i1, %in_1: f32, %in_2: f32, %out: f32):
      %4 = arith.select %in, %in_1, %in_2 : f32
      linalg.yield %4 : f32
    } -> tensor<2x8xf32>
    return %3 : tensor<2x8xf32>
  }
  func.func private @matmul_4(%arg0: tensor<2x4xf32>, %arg1: tensor<2x8xf32>) -> tensor<8x4xf32> attributes {dm.in_place = [], dm.kind = "matmul"} {
    %0 = tensor.empty() : tensor<8x2xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<2x8xf32>) outs(%0 : tensor<8x2xf32>) permutation = [1, 0] 
    %cst = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<8x4xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = linalg.matmul ins(%transposed, %arg0 : tensor<8x2xf32>, tensor<2x4xf32>) outs(%2 : tensor<8x4xf32>) -> tensor<8x4xf32>
    return %3 : tensor<8x4xf32>
  }
  func.func private @elementwise_1(%arg0: tensor<f32>, %arg1: tensor<i32>, %arg2: tensor<i64>) -> (tensor<i1>, tensor<i64>, tensor<i32>) attributes {dm.in_place = [array<i64: 0, 2>, array<i64: 1, 2>, array<i64: 2, 1>], dm.kind = "elementwise"} {
    %0 = tensor.empty() : tensor<i1>
    %true = arith.constant true
    %c0_i64 = arith.constant 0 : i64
    %1 = tensor.empty() : tensor<i64>
    %2 = tensor.empty() : tensor<i32>
    %3:3 = linalg.generic {indexing_maps = [#map2, #map2, #map2, #map2, #map2, #map2], iterator_types = []} ins(%arg0, %arg1, %arg2 : tensor<f32>, tensor<i32>, tensor<i64>) outs(%0, %1, %2 : tensor<i1>, tensor<i64>, tensor<i32>) {
    ^bb0(%in: f32, %in_0: i32, %in_1: i64, %out: i1, %out_2: i64, %out_3: i32):
      %4 = arith.cmpf une, %in, %in : f32
      %5 = arith.xori %4, %true : i1
      %6 = arith.extsi %in_0 : i32 to i64
      %7 = arith.cmpi eq, %6, %c0_i64 : i64
      %8 = arith.ori %5, %7 : i1
      %9 = arith.extui %8 : i1 to i64
      %10 = arith.addi %in_1, %9 : i64
      %11 = arith.extui %5 : i1 to i32
      linalg.yield %8, %10, %11 : i1, i64, i32
    } -> (tensor<i1>, tensor<i64>, tensor<i32>)
    return %3#0, %3#1, %3#2 : tensor<i1>, tensor<i64>, tensor<i32>
  }
  func.func private @elementwise_2(%arg0: tensor<8x4xf32>, %arg1: tensor<f32>, %arg2: tensor<8x4xf32>, %arg3: tensor<i1>) -> tensor<8x4xf32> attributes {dm.in_place = [array<i64: 0, 0>, array<i64: 2, 0>], dm.kind = "elementwise"} {
    %cst = arith.constant dense<1.000000e+00> : tensor<f32>
    %0 = tensor.empty() : tensor<8x4xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %cst, %arg1, %arg2, %arg3 : tensor<8x4xf32>, tensor<f32>, tensor<f32>, tensor<8x4xf32>, tensor<i1>) outs(%0 : tensor<8x4xf32>) {
    ^bb0(%in: f32, %in_0: f32, %in_1: f32, %in_2: f32, %in_3: i1, %out: f32):
      %2 = arith.mulf %in, %in_0 : f32
      %3 = arith.mulf %in_1, %2 : f32
      %4 = arith.subf %in_2, %3 : f32
      %5 = arith.select %in_3, %4, %in_2 : f32
      linalg.yield %5 : f32
    } -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func private @elementwise_3(%arg0: tensor<4x8xf32>, %arg1: tensor<f32>, %arg2: tensor<4x8xf32>, %arg3: tensor<i1>) -> tensor<4x8xf32> attributes {dm.in_place = [array<i64: 0, 0>, array<i64: 2, 0>], dm.kind = "elementwise"} {
    %cst = arith.constant dense<1.000000e+00> : tensor<f32>
    %0 = tensor.empty() : tensor<4x8xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %cst, %arg1, %arg2, %arg3 : tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<i1>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in: f32, %in_0: f32, %in_1: f32, %in_2: f32, %in_3: i1, %out: f32):
      %2 = arith.mulf %in, %in_0 : f32
      %3 = arith.mulf %in_1, %2 : f32
      %4 = arith.subf %in_2, %3 : f32
      %5 = arith.select %in_3, %4, %in_2 : f32
      linalg.yield %5 : f32
    } -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
