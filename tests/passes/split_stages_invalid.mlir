// RUN: not dmc-opt %s -p dm-split-stages --split-input-file 2>&1 | %FileCheck %s

// A schedule of a file that has both stages on one rank.
// CHECK: schedule 'one.csv': number of its rows: 1; of ranks along 'pp': 2
// CHECK-NEXT: hint: give a row for each rank
module attributes {dm.pipeline = {axis = "pp", cut = ["b"], schedule = "one.csv", table = "0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1", chunks = 1 : i64, microbatches = 2 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  func.func @step(%w: tensor<4x4xf32> {dm.name = "a.w", dm.role = "parameter"},
                  %v: tensor<4x4xf32> {dm.name = "b.w", dm.role = "parameter"},
                  %unused: tensor<4xf32> {dm.name = "unused", dm.role = "frozen"},
                  %x: tensor<8x4xf32> {dm.name = "x", dm.role = "batch"})
      -> (tensor<4x4xf32> {dm.name = "a.w"}, tensor<4x4xf32> {dm.name = "b.w"}, tensor<f32> {dm.name = "loss"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %none = arith.constant dense<0.0> : tensor<f32>
    %zeros = arith.constant dense<0.0> : tensor<4x4xf32>
    %0:3 = scf.for %i = %c0 to %c2 step %c1 iter_args(%dw = %zeros, %dv = %zeros, %total = %none) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
      %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 4] : tensor<8x4xf32> into tensor<2x4x4xf32>
      %part = tensor.extract_slice %e[%i, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
      %mask = math.exp %part : tensor<4x4xf32> loc("mask#exp")
      %a = linalg.matmul ins(%part, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("a#mm")
      %b = linalg.matmul ins(%a, %v : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("b#mm")
      %m = arith.mulf %b, %mask : tensor<4x4xf32> loc("b#mul")
      %loss = tensor.extract_slice %m[0, 0] [1, 1] [1, 1] : tensor<4x4xf32> to tensor<f32> loc("loss#first")
      %db = arith.addf %m, %mask : tensor<4x4xf32> loc("b#mul, backward")
      %gv = linalg.matmul ins(%a, %db : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("b#mm, backward")
      %da = linalg.matmul ins(%v, %db : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("b#mm, backward")
      %gw = linalg.matmul ins(%part, %da : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("a#mm, backward")
      %sw = arith.addf %dw, %gw : tensor<4x4xf32>
      %sv = arith.addf %dv, %gv : tensor<4x4xf32>
      %sum = arith.addf %total, %loss : tensor<f32>
      scf.yield %sw, %sv, %sum : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
    }
    %nw = arith.subf %w, %0#0 : tensor<4x4xf32> loc("a.w#sub, update")
    %nv = arith.subf %v, %0#1 : tensor<4x4xf32> loc("b.w#sub, update")
    return %nw, %nv, %0#2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
}

// -----

// One whose backward passes are not in the order of the micro-batches, in which their gradients are added up.
// CHECK: comes after 0B1, but what micro-batches add to is added to in their order
// CHECK-NEXT: hint: let each stage run its forward passes, and its backward passes, by number of micro-batch
module attributes {dm.pipeline = {axis = "pp", cut = ["b"], schedule = "turned.csv", table = "0F0,0F1,0B1,0B0\0A1F0,1F1,1B1,1B0", chunks = 1 : i64, microbatches = 2 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  func.func @step(%w: tensor<4x4xf32> {dm.name = "a.w", dm.role = "parameter"},
                  %v: tensor<4x4xf32> {dm.name = "b.w", dm.role = "parameter"},
                  %unused: tensor<4xf32> {dm.name = "unused", dm.role = "frozen"},
                  %x: tensor<8x4xf32> {dm.name = "x", dm.role = "batch"})
      -> (tensor<4x4xf32> {dm.name = "a.w"}, tensor<4x4xf32> {dm.name = "b.w"}, tensor<f32> {dm.name = "loss"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %none = arith.constant dense<0.0> : tensor<f32>
    %zeros = arith.constant dense<0.0> : tensor<4x4xf32>
    %0:3 = scf.for %i = %c0 to %c2 step %c1 iter_args(%dw = %zeros, %dv = %zeros, %total = %none) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
      %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 4] : tensor<8x4xf32> into tensor<2x4x4xf32>
      %part = tensor.extract_slice %e[%i, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
      %mask = math.exp %part : tensor<4x4xf32> loc("mask#exp")
      %a = linalg.matmul ins(%part, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("a#mm")
      %b = linalg.matmul ins(%a, %v : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("b#mm")
      %m = arith.mulf %b, %mask : tensor<4x4xf32> loc("b#mul")
      %loss = tensor.extract_slice %m[0, 0] [1, 1] [1, 1] : tensor<4x4xf32> to tensor<f32> loc("loss#first")
      %db = arith.addf %m, %mask : tensor<4x4xf32> loc("b#mul, backward")
      %gv = linalg.matmul ins(%a, %db : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("b#mm, backward")
      %da = linalg.matmul ins(%v, %db : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("b#mm, backward")
      %gw = linalg.matmul ins(%part, %da : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32> loc("a#mm, backward")
      %sw = arith.addf %dw, %gw : tensor<4x4xf32>
      %sv = arith.addf %dv, %gv : tensor<4x4xf32>
      %sum = arith.addf %total, %loss : tensor<f32>
      scf.yield %sw, %sv, %sum : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
    }
    %nw = arith.subf %w, %0#0 : tensor<4x4xf32> loc("a.w#sub, update")
    %nv = arith.subf %v, %0#1 : tensor<4x4xf32> loc("b.w#sub, update")
    return %nw, %nv, %0#2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
}
