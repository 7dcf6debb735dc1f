#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> ()>
#map2 = affine_map<() -> ()>
module attributes {dm.machine = "cpu", dm.target = "cpu"} {
  "dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
  "dm.channel"() {group = #dm.group<@mesh, ["dp"]>, sym_name = "dp"} : () -> ()
  func.func private @matmul_0(%arg0: tensor<2x4xf32>, %arg1: tensor<8x4xf32>) -> (tensor<2x8xf32>, tensor<2x8xi1>) attributes {dm.bytes = 240 : i64, dm.flops = 160 : i64, dm.implementation = "iree", dm.in_place = [], dm.kind = "matmul", dm.scratch = 0 : i64} {
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
  func.func private @matmul_1(%arg0: tensor<2x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {dm.bytes = 288 : i64, dm.flops = 152 : i64, dm.implementation = "iree", dm.in_place = [array<i64: 2, 0>, array<i64: 2, 1>], dm.kind = "matmul", dm.scratch = 0 : i64} {
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
  func.func private @reduce_0(%arg0: tensor<2x4xf32>) -> tensor<f32> attributes {dm.bytes = 36 : i64, dm.flops = 16 : i64, dm.implementation = "iree", dm.in_place = [], dm.kind = "reduction", dm.scratch = 0 : i64} {
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
  func.func private @elementwise_0(%arg0: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {dm.bytes = 12 : i64, dm.flops = 2 : i64, dm.implementation = "iree", dm.in_place = [array<i64: 0, 0>, array<i64: 0, 1>], dm.kind = "elementwise", dm.scratch = 0 : i64} {
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
  func.func private @matmul_2(%arg0: tensor<2x8xf32>, %arg1: tensor<2x4xf32>) -> tensor<4x8xf32> attributes {dm.bytes = 224 : i64, dm.flops = 128 : i64, dm.implementation = "iree", dm.in_place = [], dm.kind = "matmul", dm.scratch = 0 : i64} {
    %0 = tensor.empty() : tensor<4x2xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<2x4xf32>) outs(%0 : tensor<4x2xf32>) permutation = [1, 0] 
    %cst = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<4x8xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = linalg.matmul ins(%transposed, %arg0 : tensor<4x2xf32>, tensor<2x8xf32>) outs(%2 : tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
  func.func private @matmul_3(%arg0: tensor<2x4xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<2x8xi1>) -> tensor<2x8xf32> attributes {dm.bytes = 240 : i64, dm.flops = 128 : i64, dm.implementation = "iree", dm.in_place = [], dm.kind = "matmul", dm.scratch = 0 : i64} {
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
  func.func private @matmul_4(%arg0: tensor<2x4xf32>, %arg1: tensor<2x8xf32>) -> tensor<8x4xf32> attributes {dm.bytes = 224 : i64, dm.flops = 128 : i64, dm.implementation = "iree", dm.in_place = [], dm.kind = "matmul", dm.scratch = 0 : i64} {
    %0 = tensor.empty() : tensor<8x2xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<2x8xf32>) outs(%0 : tensor<8x2xf32>) permutation = [1, 0] 
    %cst = arith.constant 0.000000e+00 : f32
    %1 = tensor.empty() : tensor<8x4xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = linalg.matmul ins(%transposed, %arg0 : tensor<8x2xf32>, tensor<2x4xf32>) outs(%2 : tensor<8x4xf32>) -> tensor<8x4xf32>
    return %3 : tensor<8x4xf32>
  }
  func.func private @elementwise_1(%arg0: tensor<f32>, %arg1: tensor<i32>, %arg2: tensor<i64>) -> (tensor<i1>, tensor<i64>, tensor<i32>) attributes {dm.bytes = 29 : i64, dm.flops = 0 : i64, dm.implementation = "iree", dm.in_place = [array<i64: 0, 2>, array<i64: 1, 2>, array<i64: 2, 1>], dm.kind = "elementwise", dm.scratch = 0 : i64} {
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
  func.func private @elementwise_2(%arg0: tensor<8x4xf32>, %arg1: tensor<f32>, %arg2: tensor<8x4xf32>, %arg3: tensor<i1>) -> tensor<8x4xf32> attributes {dm.bytes = 389 : i64, dm.flops = 96 : i64, dm.implementation = "iree", dm.in_place = [array<i64: 0, 0>, array<i64: 2, 0>], dm.kind = "elementwise", dm.scratch = 0 : i64} {
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
  func.func private @elementwise_3(%arg0: tensor<4x8xf32>, %arg1: tensor<f32>, %arg2: tensor<4x8xf32>, %arg3: tensor<i1>) -> tensor<4x8xf32> attributes {dm.bytes = 389 : i64, dm.flops = 96 : i64, dm.implementation = "iree", dm.in_place = [array<i64: 0, 0>, array<i64: 2, 0>], dm.kind = "elementwise", dm.scratch = 0 : i64} {
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
  "dm.program"() ({
    "dm.arena"() {bytes = 3584 : i64, space = #dm.space<"device">, sym_name = "device"} : () -> ()
    "dm.arena"() {bytes = 1536 : i64, space = #dm.space<"pinned_host">, sym_name = "pinned_host"} : () -> ()
    "dm.lane"() {queue = #dm.queue<"compute">, sym_name = "compute"} : () -> ()
    "dm.lane"() {queue = #dm.queue<"copy_in">, sym_name = "copy_in"} : () -> ()
    "dm.lane"() {channel = @dp, queue = #dm.queue<"comm">, sym_name = "dp"} : () -> ()
    "dm.lane"() {queue = #dm.queue<"copy_out">, sym_name = "copy_out"} : () -> ()
    "dm.slot"() {name = "0.weight", range = #dm.range<@device, [0, 128]>, role = "parameter", type = tensor<8x4xf32>} : () -> ()
    "dm.slot"() {name = "2.weight", range = #dm.range<@device, [256, 128]>, role = "parameter", type = tensor<4x8xf32>} : () -> ()
    "dm.slot"() {name = "step", range = #dm.range<@device, [512, 8]>, role = "counter", type = tensor<i64>} : () -> ()
    "dm.slot"() {name = "seed", range = #dm.range<@device, [768, 8]>, role = "seed", type = tensor<i64>} : () -> ()
    "dm.slot"() {name = "lr", range = #dm.range<@pinned_host, [0, 4]>, role = "control", type = tensor<1xf32>} : () -> ()
    "dm.slot"() {name = "guard", range = #dm.range<@pinned_host, [256, 4]>, role = "control", type = tensor<i32>} : () -> ()
    "dm.slot"() {name = "input", range = #dm.range<@pinned_host, [512, 32]>, role = "batch", type = tensor<2x4xf32>} : () -> ()
    "dm.slot"() {name = "targets", range = #dm.range<@pinned_host, [768, 32]>, role = "batch", type = tensor<2x4xf32>} : () -> ()
    "dm.slot"() {name = "loss", range = #dm.range<@pinned_host, [1024, 4]>, role = "output", type = tensor<f32>} : () -> ()
    "dm.slot"() {name = "finite", range = #dm.range<@pinned_host, [1280, 4]>, role = "output", type = tensor<i32>} : () -> ()
    "dm.buffer"() {category = "state", first = 0 : i64, label = "seed", last = 40 : i64, range = #dm.range<@device, [768, 8]>} : () -> ()
    "dm.buffer"() {category = "input", first = 0 : i64, label = "lr", last = 40 : i64, range = #dm.range<@pinned_host, [0, 4]>} : () -> ()
    "dm.buffer"() {category = "input", first = 0 : i64, label = "guard", last = 40 : i64, range = #dm.range<@pinned_host, [256, 4]>} : () -> ()
    "dm.buffer"() {category = "input", first = 0 : i64, label = "input", last = 40 : i64, range = #dm.range<@pinned_host, [512, 32]>} : () -> ()
    "dm.buffer"() {category = "input", first = 0 : i64, label = "targets", last = 40 : i64, range = #dm.range<@pinned_host, [768, 32]>} : () -> ()
    "dm.buffer"() {category = "input", first = 0 : i64, label = "input", last = 21 : i64, range = #dm.range<@device, [1536, 32]>} : () -> ()
    "dm.buffer"() {category = "input", first = 2 : i64, label = "targets", last = 11 : i64, range = #dm.range<@device, [1024, 32]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 11 : i64, label = "2", last = 12 : i64, range = #dm.range<@device, [1024, 32]>} : () -> ()
    "dm.buffer"() {category = "input", first = 4 : i64, label = "guard", last = 33 : i64, range = #dm.range<@device, [1792, 4]>} : () -> ()
    "dm.buffer"() {category = "input", first = 6 : i64, label = "lr", last = 40 : i64, range = #dm.range<@device, [2048, 4]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 9 : i64, label = "0", last = 26 : i64, range = #dm.range<@device, [2304, 64]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 9 : i64, label = "0", last = 18 : i64, range = #dm.range<@device, [2560, 16]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 11 : i64, label = "2", last = 26 : i64, range = #dm.range<@device, [2816, 32]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 12 : i64, label = "loss", last = 13 : i64, range = #dm.range<@device, [3072, 4]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 13 : i64, label = "loss", last = 16 : i64, range = #dm.range<@device, [3328, 4]>} : () -> ()
    "dm.buffer"() {category = "communication", first = 16 : i64, label = "loss", last = 40 : i64, range = #dm.range<@device, [3328, 4]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 18 : i64, label = "2, backward", last = 21 : i64, range = #dm.range<@device, [3072, 64]>} : () -> ()
    "dm.buffer"() {category = "output", first = 0 : i64, label = "loss", last = 40 : i64, range = #dm.range<@pinned_host, [1024, 4]>} : () -> ()
    "dm.buffer"() {category = "gradient", first = 13 : i64, label = "gradient of 0.weight", last = 24 : i64, range = #dm.range<@device, [1024, 512]>} : () -> ()
    "dm.buffer"() {category = "gradient", first = 24 : i64, label = "gradient of 0.weight", last = 38 : i64, range = #dm.range<@device, [1024, 512]>} : () -> ()
    "dm.buffer"() {category = "gradient", first = 26 : i64, label = "gradient of 2.weight", last = 29 : i64, range = #dm.range<@device, [1536, 128]>} : () -> ()
    "dm.buffer"() {category = "gradient", first = 29 : i64, label = "gradient of 2.weight", last = 40 : i64, range = #dm.range<@device, [1536, 128]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 33 : i64, label = "optimizer, update", last = 40 : i64, range = #dm.range<@device, [2304, 1]>} : () -> ()
    "dm.buffer"() {category = "state", first = 0 : i64, label = "step", last = 40 : i64, range = #dm.range<@device, [512, 8]>} : () -> ()
    "dm.buffer"() {category = "activation", first = 33 : i64, label = "optimizer, update", last = 40 : i64, range = #dm.range<@device, [2560, 4]>} : () -> ()
    "dm.buffer"() {category = "output", first = 0 : i64, label = "finite", last = 40 : i64, range = #dm.range<@pinned_host, [1280, 4]>} : () -> ()
    "dm.buffer"() {category = "parameter", first = 0 : i64, label = "0.weight", last = 40 : i64, range = #dm.range<@device, [0, 128]>} : () -> ()
    "dm.buffer"() {category = "parameter", first = 0 : i64, label = "2.weight", last = 40 : i64, range = #dm.range<@device, [256, 128]>} : () -> ()
    "dm.move"() {label = "input", lane = @copy_in, source = #dm.range<@pinned_host, [512, 32]>, target = #dm.range<@device, [1536, 32]>} : () -> ()
    "dm.record"() {event = 0 : i64, lane = @copy_in} : () -> ()
    "dm.move"() {label = "targets", lane = @copy_in, source = #dm.range<@pinned_host, [768, 32]>, target = #dm.range<@device, [1024, 32]>} : () -> ()
    "dm.record"() {event = 1 : i64, lane = @copy_in} : () -> ()
    "dm.move"() {label = "guard", lane = @copy_in, source = #dm.range<@pinned_host, [256, 4]>, target = #dm.range<@device, [1792, 4]>} : () -> ()
    "dm.record"() {event = 7 : i64, lane = @copy_in} : () -> ()
    "dm.move"() {label = "lr", lane = @copy_in, source = #dm.range<@pinned_host, [0, 4]>, target = #dm.range<@device, [2048, 4]>} : () -> ()
    "dm.record"() {event = 9 : i64, lane = @copy_in} : () -> ()
    "dm.await"() {event = 0 : i64, lane = @compute} : () -> ()
    "dm.launch"() {kernel = @matmul_0, label = "0", lane = @compute, reads = [#dm.range<@device, [1536, 32]>, #dm.range<@device, [0, 128]>], writes = [#dm.range<@device, [2304, 64]>, #dm.range<@device, [2560, 16]>]} : () -> ()
    "dm.await"() {event = 1 : i64, lane = @compute} : () -> ()
    "dm.launch"() {kernel = @matmul_1, label = "2", lane = @compute, reads = [#dm.range<@device, [2304, 64]>, #dm.range<@device, [256, 128]>, #dm.range<@device, [1024, 32]>], writes = [#dm.range<@device, [1024, 32]>, #dm.range<@device, [2816, 32]>]} : () -> ()
    "dm.launch"() {kernel = @reduce_0, label = "loss", lane = @compute, reads = [#dm.range<@device, [1024, 32]>], writes = [#dm.range<@device, [3072, 4]>]} : () -> ()
    "dm.launch"() {kernel = @elementwise_0, label = "loss", lane = @compute, reads = [#dm.range<@device, [3072, 4]>], writes = [#dm.range<@device, [3328, 4]>, #dm.range<@device, [1280, 4]>]} : () -> ()
    "dm.record"() {event = 2 : i64, lane = @compute} : () -> ()
    "dm.await"() {event = 2 : i64, lane = @dp} : () -> ()
    "dm.collective"() {accumulate = f32, count = 1 : i64, instance = 4 : i64, kind = "all_reduce", label = "loss", lane = @dp, reduction = #dm.reduction<"sum">, source = #dm.range<@device, [3328, 4]>, target = #dm.range<@device, [3328, 4]>, type = f32} : () -> ()
    "dm.record"() {event = 3 : i64, lane = @dp} : () -> ()
    "dm.launch"() {kernel = @matmul_3, label = "2, backward", lane = @compute, reads = [#dm.range<@device, [2816, 32]>, #dm.range<@device, [256, 128]>, #dm.range<@device, [2560, 16]>], writes = [#dm.range<@device, [3072, 64]>]} : () -> ()
    "dm.await"() {event = 3 : i64, lane = @copy_out} : () -> ()
    "dm.move"() {label = "loss", lane = @copy_out, source = #dm.range<@device, [3328, 4]>, target = #dm.range<@pinned_host, [1024, 4]>} : () -> ()
    "dm.launch"() {kernel = @matmul_4, label = "0, backward", lane = @compute, reads = [#dm.range<@device, [1536, 32]>, #dm.range<@device, [3072, 64]>], writes = [#dm.range<@device, [1024, 128]>]} : () -> ()
    "dm.record"() {event = 4 : i64, lane = @compute} : () -> ()
    "dm.await"() {event = 4 : i64, lane = @dp} : () -> ()
    "dm.collective"() {accumulate = f32, count = 128 : i64, instance = 6 : i64, kind = "all_reduce", label = "gradient of 0.weight", lane = @dp, reduction = #dm.reduction<"sum">, source = #dm.range<@device, [1024, 512]>, target = #dm.range<@device, [1024, 512]>, type = f32} : () -> ()
    "dm.record"() {event = 6 : i64, lane = @dp} : () -> ()
    "dm.launch"() {kernel = @matmul_2, label = "2, backward", lane = @compute, reads = [#dm.range<@device, [2304, 64]>, #dm.range<@device, [2816, 32]>], writes = [#dm.range<@device, [1536, 128]>]} : () -> ()
    "dm.record"() {event = 5 : i64, lane = @compute} : () -> ()
    "dm.await"() {event = 5 : i64, lane = @dp} : () -> ()
    "dm.collective"() {accumulate = f32, count = 32 : i64, instance = 5 : i64, kind = "all_reduce", label = "gradient of 2.weight", lane = @dp, reduction = #dm.reduction<"sum">, source = #dm.range<@device, [1536, 128]>, target = #dm.range<@device, [1536, 128]>, type = f32} : () -> ()
    "dm.record"() {event = 10 : i64, lane = @dp} : () -> ()
    "dm.await"() {event = 6 : i64, lane = @compute} : () -> ()
    "dm.await"() {event = 7 : i64, lane = @compute} : () -> ()
    "dm.launch"() {kernel = @elementwise_1, label = "optimizer, update", lane = @compute, reads = [#dm.range<@device, [1280, 4]>, #dm.range<@device, [1792, 4]>, #dm.range<@device, [512, 8]>], writes = [#dm.range<@device, [2304, 1]>, #dm.range<@device, [512, 8]>, #dm.range<@device, [2560, 4]>]} : () -> ()
    "dm.record"() {event = 8 : i64, lane = @compute} : () -> ()
    "dm.await"() {event = 8 : i64, lane = @copy_out} : () -> ()
    "dm.move"() {label = "finite", lane = @copy_out, source = #dm.range<@device, [2560, 4]>, target = #dm.range<@pinned_host, [1280, 4]>} : () -> ()
    "dm.await"() {event = 9 : i64, lane = @compute} : () -> ()
    "dm.launch"() {kernel = @elementwise_2, label = "0.weight, update", lane = @compute, reads = [#dm.range<@device, [1024, 128]>, #dm.range<@device, [2048, 4]>, #dm.range<@device, [0, 128]>, #dm.range<@device, [2304, 1]>], writes = [#dm.range<@device, [0, 128]>]} : () -> ()
    "dm.await"() {event = 10 : i64, lane = @compute} : () -> ()
    "dm.launch"() {kernel = @elementwise_3, label = "2.weight, update", lane = @compute, reads = [#dm.range<@device, [1536, 128]>, #dm.range<@device, [2048, 4]>, #dm.range<@device, [256, 128]>, #dm.range<@device, [2304, 1]>], writes = [#dm.range<@device, [256, 128]>]} : () -> ()
  }) {ranks = array<i64: 0, 1>, sym_name = "program0"} : () -> ()
}
