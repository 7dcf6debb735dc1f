// RUN: dmc-opt %s -p dm-split-stages --split-input-file | %FileCheck %s

// Two stages on two ranks, two micro-batches, 1F1B. The second rank begins with a forward and a backward pass in turn; the
// loop is gone; the gradient's sum over micro-batches stays where its weight is. What depends on the batch alone, the mask,
// each rank computes for itself. Weights, and the state that nothing reads, are on one rank only.
// CHECK: module @stage0 attributes {dm.pipeline = {{.*}}, dm.stage = {axis = "pp", index = 0 : i64}} {
// CHECK: func.func @step(%[[W:.+]]: tensor<4x4xf32> {dm.name = "a.w", dm.role = "parameter"}, %{{.+}}: tensor<4xf32> {dm.name = "unused", dm.role = "frozen"}, %[[X:.+]]: tensor<8x4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4x4xf32> {dm.name = "a.w"}, tensor<f32> {dm.name = "loss"})
// CHECK: %[[A0:.+]] = linalg.matmul ins(%{{.+}}, %[[W]]
// CHECK: %[[S0:.+]]:2 = "dm.start"(%[[A0]])
// CHECK: "dm.send"({{.*}}) {dm.in_time = 0 : i64, dm.why = "pipeline", group = #dm.group<@mesh, ["pp"]>, instance = [[F0:[0-9]+]] : i64, target = 1 : i64}
// CHECK: "dm.wait"(%[[S0]]#0)
// CHECK: %[[A1:.+]] = linalg.matmul ins(%{{.+}}, %[[W]]
// CHECK: %[[S1:.+]]:2 = "dm.start"(%[[A1]], %[[S0]]#1)
// CHECK: instance = [[F1:[0-9]+]] : i64, target = 1
// CHECK: %[[R0:.+]]:2 = "dm.start"(%[[S1]]#1)
// CHECK: "dm.recv"() {{.*}} instance = [[B0:[0-9]+]] : i64, source = 1 : i64
// CHECK: %[[G0:.+]] = "dm.wait"(%[[R0]]#0)
// CHECK: %[[D0:.+]] = linalg.matmul ins(%{{.+}}, %[[G0]]
// CHECK: %[[T0:.+]] = arith.addf %{{.+}}, %[[D0]]
// CHECK: "dm.recv"() {{.*}} instance = [[L:[0-9]+]] : i64, source = 1 : i64} : () -> tensor<f32>
// CHECK: %[[LOSS:.+]] = "dm.wait"
// CHECK: "dm.recv"() {{.*}} instance = [[B1:[0-9]+]] : i64
// CHECK: %[[D1:.+]] = linalg.matmul
// CHECK: %[[T1:.+]] = arith.addf %[[T0]], %[[D1]]
// CHECK: %[[NEW:.+]] = arith.subf %[[W]], %[[T1]]
// CHECK: return %[[NEW]], %[[LOSS]]

// CHECK: module @stage1 attributes {dm.pipeline = {{.*}}, dm.stage = {axis = "pp", index = 1 : i64}} {
// CHECK: func.func @step(%[[V:.+]]: tensor<4x4xf32> {dm.name = "b.w", dm.role = "parameter"}, %{{.+}}: tensor<8x4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4x4xf32> {dm.name = "b.w"}, tensor<f32> {dm.name = "loss"})
// CHECK: "dm.recv"() {{.*}} instance = [[F0]] : i64, source = 0 : i64
// CHECK: %[[X0:.+]] = "dm.wait"
// CHECK: linalg.matmul ins(%[[X0]], %[[V]]
// CHECK: math.exp
// CHECK: %[[DX:.+]] = linalg.matmul ins(%[[V]]
// CHECK: "dm.recv"() {{.*}} instance = [[F1]] : i64
// CHECK: %[[X1:.+]] = "dm.wait"
// CHECK: "dm.start"(%[[DX]],
// CHECK: instance = [[B0]] : i64, target = 0
// CHECK: linalg.matmul ins(%[[X1]], %[[V]]
// CHECK: instance = [[L]] : i64, target = 0
// CHECK: instance = [[B1]] : i64, target = 0
// CHECK: arith.subf %[[V]]
module attributes {dm.pipeline = {axis = "pp", cut = ["b"], schedule = "1f1b", chunks = 1 : i64, microbatches = 2 : i64}} {
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

// Without a pipeline nothing happens.
// CHECK: module {
// CHECK-NEXT: func.func @step
module {
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// A backward pass in two: the gradient of the stage's input first, then the next forward pass, and at the end those of
// weights, summed in the order of the micro-batches.
// CHECK: module @stage1
// CHECK: %[[X0:.+]] = "dm.wait"
// CHECK: linalg.matmul ins(%[[X0]], %[[V:[^ ]+]] :
// CHECK: %[[B0:.+]] = arith.addf %{{.+}} : tensor<4x4xf32>
// CHECK: linalg.matmul ins(%[[V]], %[[B0]]
// CHECK: %[[X1:.+]] = "dm.wait"(%{{.+}}) : (!dm.handle<tensor<4x4xf32>>)
// CHECK: linalg.matmul ins(%[[X1]], %[[V]]
// CHECK: linalg.matmul ins(%[[V]], %[[B1:[^ ]+]]
// CHECK: linalg.matmul ins(%[[X0]], %[[B0]]
// CHECK: linalg.matmul ins(%[[X1]], %[[B1]]
// CHECK: arith.subf %[[V]]
module attributes {dm.pipeline = {axis = "pp", cut = ["b"], schedule = "apart.csv", table = "0F0,0F1,0B0,0B1\0A1F0,1I0,1F1,1I1,1W0,1W1", chunks = 1 : i64, microbatches = 2 : i64}} {
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
